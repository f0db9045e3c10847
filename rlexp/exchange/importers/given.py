"""What the user gave, files, folders and archives, as files that importers read."""

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
from rlexp.exchange.importers.sources import SourceFile, natural_sort_key
from rlexp.exchange.importers.study import malformed_error

ZIP = (".zip",)
TAR = (".tar", ".tar.gz", ".tgz")
MOST_MEMBERS = 100_000
LARGEST_MEMBER = 1 << 28
LARGEST_TOTAL = 1 << 30
"""Bytes of all members that are unpacked."""
HIGHEST_RATIO = 200
"""Times the size of an archive that everything in it may have."""
SPARE = 1 << 24
"""Bytes that it may have on top of that."""
BLOCK = 1 << 16
RECORD = 512
"""Bytes of a header in a tar archive, and what contents are rounded up to."""
LONGEST_EXTRA = 1 << 16
"""Bytes of a header that goes before another one, with a long name say."""
FILE, FOLDER, EXTRA = b"0\0", b"5", b"xgLK"
"""Kinds of members that are known: files, folders, and headers that go before another one."""
DAMAGE = (BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError, ValueError, RuntimeError)
"""What reading a damaged archive raises; encrypted ones are among them."""

Wants = Callable[[str], bool]


def is_archive(path: Path) -> bool:
    """Whether a file's name says that it is an archive."""
    return path.name.lower().endswith((*ZIP, *TAR))


def unpack(path: Path, folder: Path, wants: Wants) -> None:
    """Unpack the members that are wanted, by their names, into an empty folder.

    Raises:
        MalformedError: The archive is damaged or too large, or a member is a link or a device or
            has a name that leads elsewhere.
    """
    seen: set[str] = set()
    try:
        members = _zip(path) if path.name.lower().endswith(ZIP) else _tar(path)
        for name, file in members:
            own = _checked(name, path)
            if own in seen:
                raise malformed_error(path.name, own, "there are two members of this name")
            seen.add(own)
            if len(seen) > MOST_MEMBERS:
                raise malformed_error(path.name, "", f"it has more than {MOST_MEMBERS:,} members")
            if wants(own):
                _write(file, folder / own, path)
    except NotImplementedError as error:
        raise malformed_error(
            path.name, "", f"it is packed in a way that is not known: {error}"
        ) from error
    except DAMAGE as error:
        raise malformed_error(path.name, "", f"it cannot be unpacked: {error}") from error


def _checked(name: str, path: Path) -> str:
    """A member's name, if it stays inside."""
    parts = PurePosixPath(name).parts
    odd = name.startswith("/") or ".." in parts or "\\" in name or not name.isprintable()
    if odd or not parts or ":" in parts[0] or max(len(p.encode()) for p in parts) > 200:
        raise malformed_error(path.name, repr(name)[:100], "its name leads elsewhere, or is none")
    return str(PurePosixPath(name))


def _write(file: IO[bytes], target: Path, path: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with target.open("xb") as out:
        while block := file.read(BLOCK):
            written += len(block)
            if written > LARGEST_MEMBER:
                raise malformed_error(
                    path.name, target.name, f"it has more than {LARGEST_MEMBER:,} bytes"
                )
            out.write(block)


def _most(path: Path) -> int:
    """Bytes that everything in an archive may have."""
    return min(LARGEST_TOTAL, HIGHEST_RATIO * path.stat().st_size + SPARE)


def _too_much(path: Path) -> Exception:
    return malformed_error(
        path.name, "", f"it unpacks to more than {_most(path):,} bytes, which no results need"
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
    if mode and not (S_ISREG(mode) or S_ISDIR(mode) or mode < 1 << 12):
        raise malformed_error(path.name, entry.filename, "it is a link or a device")


def _tar(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with _opened(path) as file:
        _look_through(file, path)
    with _opened(path) as file, tarfile.open(fileobj=file, mode="r|") as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isreg() else None
            if content is not None:
                yield member.name, content


def _opened(path: Path) -> IO[bytes]:
    packed = not path.name.lower().endswith(".tar")
    return gzip.open(path) if packed else path.open("rb")  # type: ignore[return-value]


def _look_through(file: IO[bytes], path: Path) -> None:
    """Refuse what must not reach the library, which reads some headers whole, however long."""
    left = _most(path)
    while (header := file.read(RECORD)).strip(b"\0"):
        kind, size = header[156:157], _size(header, path)
        if kind not in FILE and kind != FOLDER and kind not in EXTRA:
            name = header[:100].rstrip(b"\0").decode(errors="replace")
            raise malformed_error(path.name, name, "it is a link or a device")
        content = b""
        if kind in EXTRA:
            if size > LONGEST_EXTRA:
                raise malformed_error(path.name, "", "a header of it is too long")
            content = file.read(size)
            if b"size=" in content or b"GNU.sparse" in content:
                raise malformed_error(path.name, "", "a header of it says another size")
        left -= size + RECORD
        if left < 0:
            raise _too_much(path)
        _skip(file, size - len(content) + -size % RECORD)


def _size(header: bytes, path: Path) -> int:
    text = header[124:136].strip(b" \0")
    if len(header) < RECORD or not set(text) <= set(b"01234567"):
        raise malformed_error(path.name, "", "it is damaged: a header is none")
    return int(text or b"0", 8)


def _skip(file: IO[bytes], count: int) -> None:
    while count > 0 and (block := file.read(min(count, BLOCK))):
        count -= len(block)


READABLE = (".csv", ".npz", ".yml", ".yaml", ".json", ".db", ".sqlite", ".sqlite3")
"""Endings of files that an importer could read; names of event files have no one ending."""
DEEPEST = 20
"""Folders inside folders; what lies deeper is refused."""


def files_of(
    paths: Sequence[Path], read: Callable[[Path], bytes], temporary: Path
) -> list[SourceFile]:
    """Every regular file that was given, by name; no link inside a folder is followed.

    Args:
        paths: Files, folders and archives.
        read: Reads a regular file whole, and follows no link.
        temporary: An empty folder, into which archives are unpacked.

    Raises:
        ConfigError: One of the paths is not there, or holds too many files.
        MalformedError: An archive is refused.
    """
    found: list[SourceFile] = []
    for number, path in enumerate(paths):
        try:
            inside = list(_inside(path, paths, temporary / str(number)))
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
        found += [SourceFile(own, place, read) for own, place in inside]
        if len(found) > MOST_MEMBERS:
            raise ConfigError(f"{path} holds more than {MOST_MEMBERS:,} files: give a part of it")
    return sorted(found, key=lambda file: natural_sort_key(file.name))


def _inside(path: Path, paths: Sequence[Path], unpacked: Path) -> Iterator[tuple[str, Path]]:
    """Names and places of the regular files at a path; those of an archive are unpacked."""
    if not path.exists():
        raise ConfigError(f"there is nothing at {path}")
    place, name = path.resolve(), _named(path, paths)
    if place.is_file() and is_archive(place):
        unpacked.mkdir()
        unpack(place, unpacked, is_readable)
        place = unpacked
    yield from _walk(place, name, 0)


def is_readable(name: str) -> bool:
    """Whether an importer could read a file of this name."""
    return name.lower().endswith(READABLE) or "tfevents" in name


def _named(path: Path, paths: Sequence[Path]) -> str:
    """What a path is called: its last part, with those before it as far as they tell paths apart."""
    parts = path.resolve().parts
    others = [p.resolve().parts for p in paths]
    count = 1
    while count < len(parts) and others.count(parts) < sum(
        o[-count:] == parts[-count:] for o in others
    ):
        count += 1
    return "/".join(parts[-count:]).lstrip("/") or "files"


def _walk(place: Path, name: str, depth: int) -> Iterator[tuple[str, Path]]:
    mode = place.lstat().st_mode
    if S_ISREG(mode):
        yield name, place
    elif S_ISDIR(mode):
        if depth == DEEPEST:
            raise ConfigError(
                f"{name} lies below {DEEPEST} folders, which is too deep: give a folder further in"
            )
        with os.scandir(place) as entries:
            names = sorted(entry.name for entry in entries)
        for inner in names:
            yield from _walk(place / inner, f"{name}/{inner}", depth + 1)
