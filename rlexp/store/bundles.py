"""The folders that checkpoints lie in: found, and read and removed without following links."""

import os
import re
import shutil
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from errno import ELOOP, ENOTDIR
from pathlib import Path
from stat import S_ISREG
from uuid import uuid4

from rlexp.errors import RecordError
from rlexp.store.files import sync
from rlexp.store.layout import RunPaths
from rlexp.store.manifest import MANIFEST, Manifest, Sum, decode_manifest

_BUNDLE = re.compile(r"(?P<new>0|[1-9][0-9]{0,17})|\.(?P<old>0|[1-9][0-9]{0,17})\.old", re.ASCII)
_STALE = re.compile(r"\.[0-9a-f]{8}\..+", re.ASCII | re.DOTALL)
_MOST = 2**26
"""Bytes that a manifest may have."""


def hidden(folder: Path, name: str) -> Path:
    """A new name in `folder` for what is not complete yet, or not any more."""
    return folder / f".{uuid4().hex[:8]}.{name}"


def is_stale(path: Path) -> bool:
    """Whether a writer that died has left this; a living one would hold the run's lease."""
    return _STALE.fullmatch(path.name) is not None


def set_aside(folder: Path, step: int) -> Path:
    """Where the checkpoint at `step` waits while another takes its place."""
    return folder / f".{step}.old"


def bundle_step(path: Path) -> int | None:
    """The step that a checkpoint's folder is named after; None for any other name."""
    match = _BUNDLE.fullmatch(path.name)
    return int(match["new"] or match["old"]) if match else None


def bundles(paths: RunPaths) -> dict[int, Path]:
    """The folder of every checkpoint that looks complete, by its step, newest first.

    Raises:
        OSError: The folder of checkpoints cannot be read.
        RecordError: It is a link.
    """
    found: dict[int, Path] = {}
    # By name, one that was set aside comes before the one in its place, which counts.
    for path in entries(paths.checkpoints):
        step = bundle_step(path)
        if step is not None and _has_manifest(path):
            found[step] = path
    return dict(sorted(found.items(), reverse=True))


def complete_bundles(paths: RunPaths) -> dict[Path, Manifest]:
    """Every checkpoint whose manifest is right, newest first.

    Raises:
        OSError: One cannot be read for the moment.
        RecordError: The folder of checkpoints is a link.
    """
    manifests = {}
    for bundle in bundles(paths).values():
        with suppress(RecordError):
            manifests[bundle] = read_manifest(bundle)
    return manifests


def entries(folder: Path) -> list[Path]:
    """What is in a folder, hidden entries included, by name; nothing where it is missing.

    Raises:
        OSError: It cannot be read.
        RecordError: It is a link: what is behind it is not ours to remove.
    """
    try:
        with opened(folder) as descriptor:
            return [folder / name for name in sorted(os.listdir(descriptor))]  # noqa: PTH208 (no link followed)
    except FileNotFoundError:
        return []


def read_manifest(bundle: Path) -> Manifest:
    """Read the manifest of a checkpoint.

    Raises:
        OSError: It cannot be read.
        RecordError: It is damaged, or of another step or version.
    """
    try:
        manifest = decode_manifest(_read(bundle, MANIFEST, _MOST))
    except ValueError as error:
        raise RecordError(f"{bundle / MANIFEST} is damaged: {error}") from error
    if manifest.step != bundle_step(bundle):
        raise RecordError(f"{bundle / MANIFEST} is that of step {manifest.step}")
    return manifest


def read_summed(folder: Path, name: str, expected: Sum) -> bytes:
    """Read a file whose sum is known.

    Raises:
        RecordError: It is missing, cannot be read or does not have this sum.
    """
    try:
        content = _read(folder, name, expected.size)
    except FileNotFoundError as error:
        raise RecordError(f"{folder / name} is missing") from error
    except OSError as error:
        raise RecordError(f"{folder / name} cannot be read: {error.strerror}") from error
    if Sum.of(content) != expected:
        raise RecordError(f"{folder / name} is damaged: it is not as it was written")
    return content


def make_folder(folder: Path) -> None:
    """Make sure that there is a folder, and no link.

    Raises:
        OSError: It cannot be made.
        RecordError: It is a link.
    """
    if not folder.exists():
        folder.mkdir(parents=True)
        sync(folder.parent)
    with opened(folder):
        pass


def write_file(path: Path, content: bytes) -> None:
    """Write a new file durably.

    Raises:
        OSError: The disk is full or fails.
    """
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, content: bytes) -> None:
    """Publish a file that something else is going to rest on: its name, too, must be durable.

    Raises:
        OSError: The disk is full or fails; a temporary file may be left.
    """
    temporary = hidden(path.parent, path.name)
    write_file(temporary, content)
    temporary.replace(path)
    sync(path.parent)


def remove(path: Path) -> None:
    """Remove a file, a link or a folder, which vanishes at once and not file by file."""
    if path.is_symlink() or not path.is_dir():
        path.unlink()
    else:
        shutil.rmtree(path if is_stale(path) else path.rename(hidden(path.parent, path.name)))


def clear_stale(folder: Path, names: Container[str]) -> None:
    """Remove what a writer of these files left that died; the caller is the only one now."""
    for path in entries(folder):
        if is_stale(path) and path.name.split(".", 2)[2] in names:
            remove(path)


@contextmanager
def opened(folder: Path) -> Iterator[int]:
    """The descriptor of a folder that is no link.

    Raises:
        OSError: It cannot be opened.
        RecordError: It is a link, or no folder.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in {ELOOP, ENOTDIR}:
            raise RecordError(f"{folder} must be a folder, not a link or a file") from error
        raise
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _has_manifest(path: Path) -> bool:
    if path.is_symlink():
        return True
    try:
        (path / MANIFEST).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _read(folder: Path, name: str, most: int) -> bytes:
    """The content of a regular file that has at most so many bytes."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    with opened(folder) as place:
        try:
            descriptor = os.open(name, flags, dir_fd=place)
        except OSError as error:
            if error.errno == ELOOP:
                raise RecordError(f"{folder / name} must be a file, not a link") from error
            raise
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not S_ISREG(status.st_mode):
            raise RecordError(f"{folder / name} must be a regular file")
        if status.st_size > most:
            raise RecordError(f"{folder / name} is damaged: it has more than {most} bytes")
        return file.read()
