"""Reads TensorBoard's event files in a folder while a training script writes them."""

import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rlexp.exchange.importers.event_file import Scalar, parse_event, read_complete_records

EVERY = 1.0
"""Seconds between two searches for new event files."""
LARGEST_READ = 1 << 26
"""Bytes that one read takes from a file; the next one continues there."""


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

    def read(self, *, search: bool = False) -> list[Scalar]:
        """The scalars that were written since the last call, file by file.

        Args:
            search: Whether to search for new files even if the last search was a moment ago.
        """
        return [scalar for path in self._files(search) for scalar in self._new(path)]

    def problems(self) -> list[str]:
        """Messages about damaged files since the last call."""
        problems, self._problems = self._problems, []
        return problems

    def _files(self, search: bool) -> list[Path]:
        if search or time.monotonic() - self._searched >= EVERY:
            self._searched = time.monotonic()
            # Links are not followed: a script could link to files of another run.
            for path in sorted(self.folder.rglob("*tfevents*")):
                if path.is_file() and not path.is_symlink():
                    self._offsets.setdefault(path, 0)
        return [path for path in self._offsets if path not in self._broken]

    def _new(self, path: Path) -> Iterator[Scalar]:
        try:
            with path.open("rb") as file:
                file.seek(self._offsets[path])
                records, size = read_complete_records(file.read(LARGEST_READ))
            scalars = [
                value
                for record in records
                for value in parse_event(record)
                if isinstance(value, Scalar)
            ]
        except (OSError, ValueError, IndexError, struct.error) as error:
            self._broken.add(path)
            self._problems.append(f"{path.name} is damaged: {error}")
            return
        self._offsets[path] += size
        yield from scalars
