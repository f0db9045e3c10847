"""Stamps: what tells cheaply whether the files of a run are still what they were."""

import os
from collections.abc import Collection
from contextlib import suppress
from hashlib import sha256

from rlexp.errors import RecordError
from rlexp.store.layout import RunPaths

OF_A_FILE = 4
"""Numbers of a file in a stamp: inode, size, and times of its content and of any change, in ns."""
NOTHING = (-1,) * OF_A_FILE
SETTLED = 2.0
"""Seconds after which a change shows in the times of a file on every file system."""

Stamp = list[int]
"""The numbers of every file that the record of a run is made from, one after the other."""


def stamp_of(run: RunPaths, attempts: int) -> Stamp:
    """The stamp of a run with so many attempts, numbered from 1 on.

    That of the folder of attempts tells whether one was added or removed. The time of any change
    of a file is the kernel's: unlike the others nobody can set it, so that neither an edit that
    puts the times back, nor a copy of the whole folder, has the stamp of before.
    """
    folder = str(run.folder)
    stamp = [*_of_file(f"{folder}/spec.json"), *_of_folder(f"{folder}/attempts")]
    for number in range(1, attempts + 1):
        stamp += _of_file(f"{folder}/attempts/{number}/events.jsonl")
        stamp += _of_file(f"{folder}/attempts/{number}/verdict.json")
    return stamp


def length_of(attempts: int) -> int:
    """How many numbers the stamp of a run with so many attempts has."""
    return OF_A_FILE * (2 + 2 * attempts)


def stamp_before_reading(run: RunPaths) -> Stamp | None:
    """The stamp of a run as it is; nothing where its attempts are not numbered from 1 on."""
    with suppress(RecordError):
        numbers = [attempt.number for attempt in run.attempts()]
        if numbers == list(range(1, len(numbers) + 1)):
            return stamp_of(run, len(numbers))
    return None


def is_settled(stamp: Stamp, now: float, seconds: float) -> bool:
    """Whether nothing changed in the last seconds, in which a further change may leave no trace."""
    limit = int((now - seconds) * 1e9)
    times = (*stamp[2::OF_A_FILE], *stamp[3::OF_A_FILE])
    return all(time < limit for time in times)


def stamp_of_tree(
    folder: str, before: float, *, files: Collection[str] = (), folders: Collection[str] = ()
) -> str | None:
    """A digest of the stamps of everything below a folder.

    Args:
        folder: The folder.
        before: In seconds since 1970; what changed later may change again without a trace.
        files: Names of files that do not count.
        folders: Names of folders that do not.

    Returns:
        Nothing where something changed since then, cannot be read, or is a link: that may lead to
        another file tomorrow.
    """
    limit, waiting = int(before * 1e9), [folder]
    total = sha256()
    while waiting:
        own = waiting.pop()
        try:
            with os.scandir(own) as entries:
                found = sorted((entry.name, entry) for entry in entries)
            numbers = [
                (name, _numbers(entry))
                for name, entry in found
                if name not in (folders if entry.is_dir(follow_symlinks=False) else files)
            ]
        except OSError:
            return None
        total.update(repr((own, numbers)).encode())
        for name, (is_link, is_folder, _, _, changed, touched) in numbers:
            if is_link or max(changed, touched) >= limit:
                return None
            if is_folder:
                waiting.append(f"{own}/{name}")
    return total.hexdigest()


def _numbers(entry: os.DirEntry[str]) -> tuple[bool, bool, int, int, int, int]:
    """Whether it is a link, or a folder; inode, size, and the times of a stamp."""
    found = entry.stat(follow_symlinks=False)
    kind = entry.is_symlink(), entry.is_dir(follow_symlinks=False)
    return *kind, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _of_file(path: str) -> tuple[int, ...]:
    try:
        found = os.lstat(path)
    except OSError:
        return NOTHING
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _of_folder(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)  # noqa: PTH116 (asked of every run)
    except OSError:
        return NOTHING
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
