"""The folders of checkpoints: listed, read and removed without following links."""

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
from rlexp.store.checkpoints.manifest import MANIFEST, Manifest, Sum, decode_manifest
from rlexp.store.files import sync
from rlexp.store.layout import RunPaths

_CHECKPOINT = re.compile(
    r"(?P<new>0|[1-9][0-9]{0,17})|\.(?P<old>0|[1-9][0-9]{0,17})\.old", re.ASCII
)
_STALE = re.compile(r"\.[0-9a-f]{8}\..+", re.ASCII | re.DOTALL)
_MOST = 2**26
"""Most bytes of a manifest."""


def hidden(folder: Path, name: str) -> Path:
    """A new hidden name in `folder` for a file or folder that is being written or removed."""
    return folder / f".{uuid4().hex[:8]}.{name}"


def is_stale(path: Path) -> bool:
    """Whether a dead writer left this path; a living writer would hold the run's lease."""
    return _STALE.fullmatch(path.name) is not None


def set_aside(folder: Path, step: int) -> Path:
    """The name of the old checkpoint at `step` while a new one of the same step replaces it."""
    return folder / f".{step}.old"


def step_of_folder(path: Path) -> int | None:
    """The step that a checkpoint's folder is named after; None for any other name."""
    match = _CHECKPOINT.fullmatch(path.name)
    return int(match["new"] or match["old"]) if match else None


def checkpoint_folders(paths: RunPaths) -> dict[int, Path]:
    """The folder of every checkpoint that looks complete, by its step, newest first.

    Raises:
        OSError: The folder of checkpoints cannot be read.
        RecordError: The folder of checkpoints is a link.
    """
    by_step: dict[int, Path] = {}
    # In order of names, `.100.old` comes before `100`: where both exist, the new one counts.
    for path in entries(paths.checkpoints):
        step = step_of_folder(path)
        if step is not None and _has_manifest(path):
            by_step[step] = path
    return dict(sorted(by_step.items(), reverse=True))


def complete_checkpoints(paths: RunPaths) -> dict[Path, Manifest]:
    """The manifest of every checkpoint with a valid manifest, newest first.

    Raises:
        OSError: A checkpoint cannot be read for the moment.
        RecordError: The folder of checkpoints is a link.
    """
    manifests = {}
    for folder in checkpoint_folders(paths).values():
        with suppress(RecordError):
            manifests[folder] = read_manifest(folder)
    return manifests


def entries(folder: Path) -> list[Path]:
    """The entries of a folder, hidden ones included, sorted by name; none for a missing folder.

    Raises:
        OSError: The folder cannot be read.
        RecordError: The folder is a link: the files behind it are not ours to remove.
    """
    try:
        with opened(folder) as descriptor:
            return [folder / name for name in sorted(os.listdir(descriptor))]  # noqa: PTH208 (no link followed)
    except FileNotFoundError:
        return []


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a checkpoint.

    Raises:
        OSError: The manifest cannot be read.
        RecordError: The manifest is damaged, or of another step or version.
    """
    try:
        manifest = decode_manifest(_read(folder, MANIFEST, _MOST))
    except ValueError as error:
        raise RecordError(f"{folder / MANIFEST} is damaged: {error}") from error
    # A folder that was renamed or copied by hand would resume the run at a wrong step.
    if manifest.step != step_of_folder(folder):
        raise RecordError(f"{folder / MANIFEST} is that of step {manifest.step}")
    return manifest


def read_summed(folder: Path, name: str, expected: Sum) -> bytes:
    """Read a file and verify its checksum.

    Raises:
        RecordError: The file is missing, unreadable or has another checksum.
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


def link(source: Path, target: Path) -> None:
    """Link a file, or copy it where the file system has no hard links."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copyfile(source, target, follow_symlinks=False)
        with target.open("rb") as file:
            os.fsync(file.fileno())


def make_folder(folder: Path) -> None:
    """Create a folder unless it exists.

    Raises:
        OSError: The folder cannot be created.
        RecordError: The path is a link or a file.
    """
    if not folder.exists():
        folder.mkdir(parents=True)
        # A synced file in a folder whose own name is not on disk would be lost with it.
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
    """Publish a file that other files will depend on: its name must be durable as well.

    Raises:
        OSError: The disk is full or fails; a temporary file may be left.
    """
    temporary = hidden(path.parent, path.name)
    write_file(temporary, content)
    temporary.replace(path)
    # Unlike `files.publish`, an error here counts: a manifest will name this file.
    sync(path.parent)


def remove(path: Path) -> None:
    """Remove a file, a link or a folder; a folder disappears in one step."""
    if path.is_symlink() or not path.is_dir():
        path.unlink()
    else:
        # Renamed first: a reader must never see a checkpoint with half of its files.
        shutil.rmtree(path if is_stale(path) else path.rename(hidden(path.parent, path.name)))


def clear_stale(folder: Path, names: Container[str]) -> None:
    """Remove the temporary files of dead writers; the caller must be the only writer now."""
    for path in entries(folder):
        if is_stale(path) and path.name.split(".", 2)[2] in names:
            remove(path)


@contextmanager
def opened(folder: Path) -> Iterator[int]:
    """The descriptor of a folder that is not a link.

    Raises:
        OSError: The folder cannot be opened.
        RecordError: The path is a link or a file.
    """
    try:
        # Names are then resolved against the descriptor: a link put in the folder's place after
        # this check leads nowhere.
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
    # A link is listed, so that reading it is refused with a message that names it.
    if path.is_symlink():
        return True
    try:
        (path / MANIFEST).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _read(folder: Path, name: str, most: int) -> bytes:
    """The content of a regular file of at most `most` bytes."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    with opened(folder) as folder_descriptor:
        try:
            descriptor = os.open(name, flags, dir_fd=folder_descriptor)
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
