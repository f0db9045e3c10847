"""What one process has read of ended runs and of files, so that it reads each of them once.

`rlexp view` looks at an experiment again and again while runs end. Files of an ended run stay the
same, and a stamp (inode, size and times) shows when they do not. Everything is in memory only.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from rlexp.store.layout import RunPaths
from rlexp.store.registers.ledger import sum_of_file
from rlexp.store.run_stamps import (
    SETTLED,
    Stamp,
    is_settled,
    numbers_of_file,
    stamp_before_reading,
    stamp_of,
)

T = TypeVar("T")

BESIDE_THE_JOURNAL = ("attempt.json", "provenance.json", "system.jsonl")
"""Files of an attempt that a report reads besides those that the record is made from."""


@dataclass(frozen=True, slots=True)
class RememberedRun(Generic[T]):
    """A value that was made from the files of a run.

    Attributes:
        stamp: The stamp of the files.
        attempts: The number of attempts that the stamp covers.
        basis: What the value was made from besides the files.
        value: The value.
    """

    stamp: Stamp
    attempts: int
    basis: object
    value: T


@dataclass(slots=True)
class RememberedRuns(Generic[T]):
    """Values that were made from the files of runs, by the names of the runs."""

    _runs: dict[str, RememberedRun[T]] = field(default_factory=dict)

    def recall(
        self, run: RunPaths, basis: object, make: Callable[[], T], lasts: Callable[[T], bool]
    ) -> T:
        """The value of a run; it is made again where a file or the basis has changed.

        Args:
            run: The files of the run.
            basis: What the value depends on besides the files; it is compared by `==`.
            make: Makes the value from the files.
            lasts: Whether a value depends on nothing but the files and the basis. The record of a
                running run also depends on its process.
        """
        name = run.folder.name
        remembered = self._runs.get(name)
        if (
            remembered
            and remembered.stamp == _stamp(run, remembered.attempts)
            and remembered.basis == basis
        ):
            return remembered.value
        # The stamp is taken before reading: a change in between then makes the value invalid.
        numbered = stamp_before_reading(run)
        attempts = len(run.attempts()) if numbered else 0
        stamp = _stamp(run, attempts)
        value = make()
        if numbered and lasts(value) and is_settled(stamp, time.time(), SETTLED):
            self._runs[name] = RememberedRun(stamp, attempts, basis, value)
        else:
            self._runs.pop(name, None)
        return value


@dataclass(slots=True)
class FileSums:
    """The sha256 of files, each computed once while the file stays the same.

    Attributes:
        sums_by_name: The numbers of each file, as in a stamp, with the sum of its content.
    """

    sums_by_name: dict[str, tuple[tuple[int, ...], str]] = field(default_factory=dict)

    def add(self, other: "FileSums") -> None:
        """Add the sums that a fork of this process has computed."""
        self.sums_by_name |= other.sums_by_name

    def of(self, path: Path) -> str | None:
        """The sum of a file as `sum_of_file` returns it."""
        name = str(path)
        numbers = numbers_of_file(name)
        remembered = self.sums_by_name.get(name)
        if remembered and remembered[0] == numbers:
            return remembered[1]
        total = sum_of_file(path)
        if total is not None and is_settled([*numbers], time.time(), SETTLED):
            self.sums_by_name[name] = numbers, total
        return total


def _stamp(run: RunPaths, attempts: int) -> Stamp:
    """The stamp of all files of a run that a report reads; see `stamp_of`."""
    stamp = stamp_of(str(run.folder), attempts)
    for number in range(1, attempts + 1):
        for name in BESIDE_THE_JOURNAL:
            stamp += numbers_of_file(f"{run.folder}/attempts/{number}/{name}")
    return stamp
