"""Stamps of files: numbers that change whenever a file may have changed.

This module imports little, because a fork compares stamps while its command still imports the rest.
"""

import os
from array import array
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256

from rlexp.errors import RecordError
from rlexp.store.layout import RunPaths

Stamp = list[int]
"""The stamp of a run: the numbers of all files that its record is made from, in a fixed order."""
OF_A_FILE = 4
"""Numbers per file in a stamp: inode, size, mtime and ctime, times in nanoseconds."""
NO_FILE = (-1,) * OF_A_FILE
"""The numbers of a missing file."""
EVERY = slice(None)
"""All entries of a folder."""
SETTLED = 2.0
"""Age in seconds after which a further change shows in the times on every file system."""


def stamp_of(folder: str, attempts: int) -> Stamp:
    """The stamp of the run in a folder, with attempts numbered from 1 to `attempts`.

    It covers the specification, the folder of the attempts, the journals and verdicts, the
    provenance of the last attempt, and the score of the trusted code of a stream, which comes after
    the run has ended.

    The stamp of the folder `attempts` changes when an attempt is added or removed. The ctime is set
    by the kernel only: an edit that restores the mtime, or a copy of the folder, has another ctime.
    """
    # Strings and `os.lstat`: this is done for each of thousands of runs.
    stamp = [
        *numbers_of_file(f"{folder}/spec.json"),
        *numbers_of_file(f"{folder}/scoring.json"),
        *_of_folder(f"{folder}/attempts"),
    ]
    for number in range(1, attempts + 1):
        stamp += numbers_of_file(f"{folder}/attempts/{number}/events.jsonl")
        stamp += numbers_of_file(f"{folder}/attempts/{number}/verdict.json")
    if attempts:
        stamp += numbers_of_file(f"{folder}/attempts/{attempts}/provenance.json")
    return stamp


def length_of(attempts: int) -> int:
    """The number of integers in the stamp of a run with so many attempts."""
    return OF_A_FILE * (3 + 2 * attempts + bool(attempts))


def stamp_before_reading(run: RunPaths) -> Stamp | None:
    """The present stamp of a run; None where its attempts are not numbered from 1 without gaps."""
    with suppress(RecordError):
        numbers = [attempt.number for attempt in run.attempts()]
        if numbers == list(range(1, len(numbers) + 1)):
            return stamp_of(str(run.folder), len(numbers))
    return None


def is_settled(stamp: Stamp, now: float, seconds: float) -> bool:
    """Whether no file of a stamp changed in the last `seconds`."""
    # Times of files have coarse steps, up to 2 s: a second change within one step of the clock
    # would leave the stamp as it is.
    limit = int((now - seconds) * 1e9)
    times = (*stamp[2::OF_A_FILE], *stamp[3::OF_A_FILE])
    return all(time < limit for time in times)


def stamp_of_tree(
    folder: str,
    before: float,
    *,
    files: Collection[str] = (),
    folders: Collection[str] = (),
    share: slice = EVERY,
) -> str | None:
    """A digest of the stamps of all files below a folder.

    Args:
        folder: The folder.
        before: A time in seconds since 1970; a file that changed later could change once more
            without another stamp.
        files: Names of files that are ignored.
        folders: Names of folders that are ignored.
        share: Which entries of the folder itself are looked at, by the order of their names.

    Returns:
        None where a file changed after `before`, cannot be read, or is a link, because a link may
        lead to another file tomorrow.
    """
    limit, waiting = int(before * 1e9), [folder]
    total = sha256()
    while waiting:
        present = waiting.pop()
        try:
            with os.scandir(present) as entries:
                by_name = sorted((entry.name, entry) for entry in entries)
            by_name = by_name[share if present == folder else EVERY]
            numbers = [
                (name, _numbers(entry))
                for name, entry in by_name
                if name not in (folders if entry.is_dir(follow_symlinks=False) else files)
            ]
        except OSError:
            return None
        total.update(repr((present, numbers)).encode())
        for name, (is_link, is_folder, _, _, changed, touched) in numbers:
            if is_link or max(changed, touched) >= limit:
                return None
            if is_folder:
                waiting.append(f"{present}/{name}")
    return total.hexdigest()


def _numbers(entry: os.DirEntry[str]) -> tuple[bool, bool, int, int, int, int]:
    """Whether the entry is a link, whether it is a folder, and its four numbers of a stamp."""
    status = entry.stat(follow_symlinks=False)
    kind = entry.is_symlink(), entry.is_dir(follow_symlinks=False)
    return *kind, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def numbers_of_file(path: str) -> tuple[int, ...]:
    """The numbers of a file in a stamp; `NO_FILE` where it is missing."""
    try:
        status = os.lstat(path)
    except OSError:
        return NO_FILE
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _of_folder(path: str) -> tuple[int, ...]:
    try:
        status = os.stat(path)  # noqa: PTH116 (called for every run)
    except OSError:
        return NO_FILE
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


BYTES = 8
"""Bytes of a number in a packed stamp."""
WRAPPED = (1 << 8 * BYTES) - 1
"""Keeps the bits of a number that a packed stamp holds: the inodes of some systems need all of them."""


def packed(stamp: Stamp) -> bytes:
    """A stamp as 64-bit numbers in the order of the machine's bytes."""
    try:
        return array("q", stamp).tobytes()
    except OverflowError:
        return array("Q", [number & WRAPPED for number in stamp]).tobytes()


def text_of_stamps(stamps: Iterable[bytes]) -> str:
    """Packed stamps, one behind another, as a text."""
    return b64encode(b"".join(stamps)).decode()


def stamps_in(text: str, attempts: Sequence[int]) -> bytes:
    """The inverse of `text_of_stamps`, for runs with so many attempts.

    Raises:
        TypeError: The text is no text.
        ValueError: The text has a wrong length, or other characters.
    """
    stamps = b64decode(text, validate=True)
    if min(attempts, default=0) < 0 or len(stamps) != BYTES * sum(map(length_of, attempts)):
        raise ValueError("the stamps have a wrong length")
    return stamps


def spans_of(attempts: Sequence[int]) -> Iterator[slice]:
    """Where the packed stamps of runs with so many attempts lie, one behind another."""
    start = 0
    for number in attempts:
        end = start + BYTES * length_of(number)
        yield slice(start, end)
        start = end
