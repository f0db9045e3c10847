"""Reads TensorBoard's event files in a folder while a training script writes them."""

import struct
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from rlexp.exchange.importers.event_file import Scalar, parse_event, read_complete_records

EVERY = 1.0
"""Seconds between two searches for new event files."""
LARGEST_READ = 1 << 26
"""Bytes that are taken from a file at once; a longer record makes the file unreadable."""


@dataclass(slots=True)
class EventFilesTail:
    """The event files below a folder, read as they grow.

    Attributes:
        folder: The folder, which need not exist yet.
    """

    folder: Path
    _offsets: dict[Path, int] = field(default_factory=dict)
    _broken: set[Path] = field(default_factory=set)
    _problems: list[str] = field(default_factory=list)
    _searched: float = float("-inf")

    def skip_existing(self) -> None:
        """Leave out what the files of the folder hold now."""
        for path in self._files(search=True):
            with suppress(OSError):
                self._offsets[path] = path.stat().st_size

    def read(self, *, last: bool = False) -> list[Scalar]:
        """The scalars that were written since the last call, file by file.

        Args:
            last: Whether nothing is written any more. Then every file is read to its end, and new
                files are searched for even if the last search was a moment ago.
        """
        scalars: list[Scalar] = []
        for path in self._files(last):
            size = self._read_records(path, scalars)
            while last and size:
                size = self._read_records(path, scalars)
        return scalars

    def problems(self) -> list[str]:
        """Messages about damaged files since the last call."""
        problems, self._problems = self._problems, []
        return problems

    def _files(self, search: bool) -> list[Path]:
        if search or time.monotonic() - self._searched >= EVERY:
            self._searched = time.monotonic()
            # A script may remove a folder while it is searched: the next search finds the rest.
            with suppress(OSError):
                # Links are not followed: a script could link to files of another run.
                for path in sorted(self.folder.rglob("*tfevents*")):
                    if path.is_file() and not path.is_symlink():
                        self._offsets.setdefault(path, 0)
        return [path for path in self._offsets if path not in self._broken]

    def _read_records(self, path: Path, scalars: list[Scalar]) -> int:
        """Add the scalars of new records to `scalars`; returns the number of bytes that were read."""
        try:
            with path.open("rb") as file:
                file.seek(self._offsets[path])
                content = file.read(LARGEST_READ)
            records, size = read_complete_records(content)
            values = [value for record in records for value in parse_event(record)]
        except (OSError, ValueError, IndexError, struct.error) as error:
            return self._give_up(path, f"is damaged: {error}")
        if not size and len(content) == LARGEST_READ:
            return self._give_up(path, f"has a record with more than {LARGEST_READ:,} bytes")
        self._offsets[path] += size
        scalars += [value for value in values if isinstance(value, Scalar)]
        return size

    def _give_up(self, path: Path, why: str) -> int:
        """Leave a file out from now on; returns 0 bytes."""
        self._broken.add(path)
        self._problems.append(f"{path.name} {why}")
        return 0
