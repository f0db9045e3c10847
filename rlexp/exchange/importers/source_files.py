"""The input of an import: finds the files in given files, folders and archives.

Archives come from other people, so they are unpacked defensively: names that lead elsewhere, links,
devices and archives that unpack to too many bytes are refused.
"""

import gzip
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from stat import S_ISDIR, S_ISREG
from typing import IO
from zipfile import BadZipFile, ZipFile, ZipInfo

from rlexp.errors import ConfigError
from rlexp.exchange.importers.imported_study import malformed_error
from rlexp.exchange.importers.sources import SourceFile, natural_sort_key

ZIP = (".zip",)
TAR = (".tar", ".tar.gz", ".tgz")
MOST_MEMBERS = 100_000
LARGEST_MEMBER = 1 << 28
LARGEST_TOTAL = 1 << 30
"""Bytes of all unpacked members together."""
HIGHEST_RATIO = 200
"""Largest ratio of unpacked bytes to the bytes of the archive."""
SPARE = 1 << 24
"""Bytes that are allowed in addition, because small archives compress very well."""
BLOCK = 1 << 16
RECORD = 512
"""Bytes of a header in a tar archive; contents are padded to a multiple of it."""
LONGEST_EXTRA = 1 << 16
"""Bytes of an extension header, such as one with a long name."""
FILE, FOLDER, EXTRA = b"0\0", b"5", b"xgLK"
"""Types of members that are accepted: files, folders, and extension headers."""
DAMAGE = (BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError, ValueError, RuntimeError)
"""Errors that reading a damaged or encrypted archive raises."""

Accepts = Callable[[str], bool]


def is_archive(path: Path) -> bool:
    """Whether a file's name ends like that of an archive."""
    return path.name.lower().endswith((*ZIP, *TAR))


def unpack(path: Path, folder: Path, accepts: Accepts) -> None:
    """Unpack the members whose names are accepted into an empty folder.

    Raises:
        MalformedError: The archive is damaged or too large, or a member is a link, is a device,
            or has a name that leads out of the folder.
    """
    seen: set[str] = set()
    try:
        members = _zip(path) if path.name.lower().endswith(ZIP) else _tar(path)
        for name, file in members:
            member_name = _checked(name, path)
            if member_name in seen:
                raise malformed_error(path.name, member_name, "two members have this name")
            seen.add(member_name)
            if len(seen) > MOST_MEMBERS:
                raise malformed_error(path.name, "", f"it has more than {MOST_MEMBERS:,} members")
            if accepts(member_name):
                _write(file, folder / member_name, path)
    except NotImplementedError as error:
        raise malformed_error(
            path.name, "", f"its compression method is not supported: {error}"
        ) from error
    except DAMAGE as error:
        raise malformed_error(path.name, "", f"it cannot be unpacked: {error}") from error


def _checked(name: str, path: Path) -> str:
    """A member's name, if it stays inside the folder."""
    parts = PurePosixPath(name).parts
    odd = name.startswith("/") or ".." in parts or "\\" in name or not name.isprintable()
    if odd or not parts or ":" in parts[0] or max(len(p.encode()) for p in parts) > 200:
        raise malformed_error(
            path.name, repr(name)[:100], "its name is empty or leads out of the folder"
        )
    return str(PurePosixPath(name))


def _write(file: IO[bytes], target: Path, path: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    # Exclusive creation never overwrites a file, and the count below does not trust sizes in the
    # archive.
    with target.open("xb") as out:
        while block := file.read(BLOCK):
            written += len(block)
            if written > LARGEST_MEMBER:
                raise malformed_error(
                    path.name, target.name, f"it has more than {LARGEST_MEMBER:,} bytes"
                )
            out.write(block)


def _most(path: Path) -> int:
    """Bytes that an archive may unpack to."""
    return min(LARGEST_TOTAL, HIGHEST_RATIO * path.stat().st_size + SPARE)


def _too_much(path: Path) -> Exception:
    return malformed_error(
        path.name, "", f"it unpacks to more than {_most(path):,} bytes, the limit for its size"
    )


def _zip(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with ZipFile(path) as archive:
        entries = archive.infolist()
        if sum(entry.file_size for entry in entries) > _most(path):
            raise _too_much(path)
        for entry in entries:
            _check_kind(entry, path)
            if not entry.is_dir():
                with archive.open(entry) as file:
                    yield entry.filename, file


def _check_kind(entry: ZipInfo, path: Path) -> None:
    mode = entry.external_attr >> 16
    # Some tools store permissions without a file type, which are below 1 << 12.
    if mode and not (S_ISREG(mode) or S_ISDIR(mode) or mode < 1 << 12):
        raise malformed_error(path.name, entry.filename, "it is a link or a device")


def _tar(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with _opened(path) as file:
        _check_headers(file, path)
    # Stream mode (`r|`) reads from front to back, as `_check_headers` did, and never jumps.
    with _opened(path) as file, tarfile.open(fileobj=file, mode="r|") as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isreg() else None
            if content is not None:
                yield member.name, content


def _opened(path: Path) -> IO[bytes]:
    packed = not path.name.lower().endswith(".tar")
    return gzip.open(path) if packed else path.open("rb")  # type: ignore[return-value]


def _check_headers(file: IO[bytes], path: Path) -> None:
    """Refuse headers that must not reach `tarfile`, which reads extension headers of any length."""
    left = _most(path)
    while (header := file.read(RECORD)).strip(b"\0"):
        kind, size = header[156:157], _size(header, path)
        if kind not in FILE and kind != FOLDER and kind not in EXTRA:
            name = header[:100].rstrip(b"\0").decode(errors="replace")
            raise malformed_error(path.name, name, "it is a link or a device")
        content = b""
        if kind in EXTRA:
            if size > LONGEST_EXTRA:
                raise malformed_error(path.name, "", "one of its headers is too long")
            content = file.read(size)
            # An extension may override the size in the header, and so hide what this check must
            # count.
            if b"size=" in content or b"GNU.sparse" in content:
                raise malformed_error(
                    path.name, "", "one of its headers changes the size of a file"
                )
        left -= size + RECORD
        if left < 0:
            raise _too_much(path)
        _skip(file, size - len(content) + -size % RECORD)


def _size(header: bytes, path: Path) -> int:
    text = header[124:136].strip(b" \0")
    # GNU tar writes sizes above 8 GiB in base 256 instead of octal digits: too large here anyway.
    if len(header) < RECORD or not set(text) <= set(b"01234567"):
        raise malformed_error(path.name, "", "it is damaged: a header is invalid")
    return int(text or b"0", 8)


def _skip(file: IO[bytes], count: int) -> None:
    while count > 0 and (block := file.read(min(count, BLOCK))):
        count -= len(block)


READABLE = (
    *(".csv", ".npz", ".yml", ".yaml", ".json", ".db", ".sqlite", ".sqlite3", ".log", ".wandb"),
)
"""Endings of files that an importer could read; event files are recognised by `tfevents`."""
DEEPEST = 20
"""Deepest level of nested folders; files below it are refused."""


def find_source_files(
    paths: Sequence[Path], read: Callable[[Path], bytes], temporary: Path
) -> list[SourceFile]:
    """Every regular file in the given paths, by name; links inside folders are not followed.

    Args:
        paths: Files, folders and archives.
        read: Reads a regular file whole, and follows no link.
        temporary: An empty folder, into which archives are unpacked.

    Raises:
        ConfigError: One of the paths does not exist, or contains too many files.
        MalformedError: An archive is refused.
    """
    files: list[SourceFile] = []
    for number, path in enumerate(paths):
        try:
            inside = list(_inside(path, paths, temporary / str(number)))
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
        files += [SourceFile(name, file_path, read) for name, file_path in inside]
        if len(files) > MOST_MEMBERS:
            raise ConfigError(
                f"{path} contains more than {MOST_MEMBERS:,} files: give a part of it"
            )
    return sorted(files, key=lambda file: natural_sort_key(file.name))


def _inside(path: Path, paths: Sequence[Path], unpacked: Path) -> Iterator[tuple[str, Path]]:
    """Names and paths of the regular files at a path; an archive is unpacked first."""
    if not path.exists():
        raise ConfigError(f"{path} does not exist")
    target, name = path.resolve(), _named(path, paths)
    if target.is_file() and is_archive(target):
        unpacked.mkdir()
        unpack(target, unpacked, is_readable)
        target = unpacked
    yield from _walk(target, name, 0)


def is_readable(name: str) -> bool:
    """Whether an importer could read a file of this name."""
    return name.lower().endswith(READABLE) or "tfevents" in name


def _named(path: Path, paths: Sequence[Path]) -> str:
    """The shortest end of a path that distinguishes it from the other paths."""
    parts = path.resolve().parts
    others = [p.resolve().parts for p in paths]
    count = 1
    while count < len(parts) and others.count(parts) < sum(
        o[-count:] == parts[-count:] for o in others
    ):
        count += 1
    return "/".join(parts[-count:]).lstrip("/") or "files"


def _walk(path: Path, name: str, depth: int) -> Iterator[tuple[str, Path]]:
    # `lstat` does not follow links, so that a link is neither a file nor a folder here.
    mode = path.lstat().st_mode
    if S_ISREG(mode):
        yield name, path
    elif S_ISDIR(mode):
        if depth == DEEPEST:
            raise ConfigError(
                f"{name} is nested deeper than {DEEPEST} folders: give a folder further inside"
            )
        with os.scandir(path) as entries:
            # The order of `scandir` differs between machines.
            names = sorted(entry.name for entry in entries)
        for inner in names:
            yield from _walk(path / inner, f"{name}/{inner}", depth + 1)
