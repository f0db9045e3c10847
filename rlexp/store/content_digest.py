"""The sha256 of files that may be large, computed once for each state of the files."""

import json
from collections.abc import Sequence
from contextlib import suppress
from hashlib import file_digest, sha256
from pathlib import Path

from rlexp.store.files import publish
from rlexp.store.layout import cache_folder

FOLDER = "digests"
"""Folder of the user's cache with digests that were computed before."""
LENGTH = 64
"""Digits of a sha256 in hexadecimal."""


def content_digest(files: Sequence[Path], folder: Path) -> str:
    """The sha256 of the names and the contents of files, in hexadecimal.

    It is kept in the user's cache under the sizes, times and inodes of the files. No program can set the time
    of the last change of an inode, so a file that was edited is read again.

    Args:
        files: The files; their order changes nothing.
        folder: The folder to which their names are relative.

    Raises:
        OSError: A file cannot be read.
    """
    inside = sorted(files)
    kept = cache_folder() / FOLDER / _signature(inside)
    with suppress(OSError, UnicodeDecodeError):
        text = kept.read_text(encoding="ascii")
        if len(text) == LENGTH:
            return text
    before = kept.name
    total = sha256()
    for path in inside:
        with path.open("rb") as file:
            part = file_digest(file, "sha256").hexdigest()
        total.update(json.dumps([path.relative_to(folder).as_posix(), part]).encode())
    digest = total.hexdigest()
    # A file that was written meanwhile has another signature, under which nothing is kept.
    if _signature(inside) == before:
        with suppress(OSError):
            publish(kept, digest.encode())
    return digest


def _signature(files: Sequence[Path]) -> str:
    states = []
    for path in files:
        state = path.stat()
        times = (state.st_mtime_ns, state.st_ctime_ns)
        states.append([str(path.resolve()), state.st_dev, state.st_ino, state.st_size, *times])
    return sha256(json.dumps(states).encode()).hexdigest()
