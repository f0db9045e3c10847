"""The catalogue of an experiment: its runs that are over, in brief, so that they are read once.

It is derived. What it says of a run counts only while the run's files are what they were; it is
dropped whole where it cannot be read, and is written anew as a whole.
"""

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

from rlexp.errors import RecordError
from rlexp.protocol.spec import CONFIGURATION, RunSpec
from rlexp.store.catalogued import Row, plain_columns, read_rows
from rlexp.store.files import parse_json, read_file
from rlexp.store.layout import RunPaths
from rlexp.store.runs import StoredRun
from rlexp.store.schemas import CATALOGUE, VERSION, writer
from rlexp.store.stamps import (
    SETTLED,
    Stamp,
    is_settled,
    length_of,
    stamp_before_reading,
    stamp_of,
)

FORMAT = 1
"""Counted up where the same files would make another catalogue."""
FEWEST = 50
"""Runs below which a catalogue saves no time."""
SHARE = 50
"""A catalogue is written when one run in so many is new in it."""
LARGEST = 1 << 28
"""Bytes of a catalogue that is read."""
NONSENSE = (
    *(RecordError, TypeError, ValueError, KeyError, IndexError, AttributeError),
    RecursionError,
)
"""What is raised where a file is JSON and makes no sense."""


@dataclass(slots=True)
class Catalogue:
    """What is known of an experiment's runs.

    Attributes:
        places: Files that it may be, the one that is preferred first.
        now: The time, in seconds since 1970.
    """

    places: Sequence[Path]
    now: Callable[[], float]
    _rows: dict[str, Row] = field(default_factory=dict)
    _kept: dict[str, tuple[Stamp, StoredRun]] = field(default_factory=dict)
    _firsts: dict[str, RunSpec] = field(default_factory=dict)
    _alike: dict[tuple[int, ...], bool] = field(default_factory=dict)
    _asked: list[RunSpec] = field(default_factory=list)
    _new: int = 0

    @classmethod
    def read(cls, places: Sequence[Path], now: Callable[[], float]) -> "Catalogue":
        """Read the newest; what is damaged, or another version's, counts as none."""
        with suppress(OSError, *NONSENSE):
            newest = max(filter(os.path.lexists, places), key=lambda p: p.lstat().st_mtime_ns)
            return cls(places, now, _read(newest))
        return cls(places, now)

    def look(
        self, run: RunPaths, read: Callable[[RunPaths], StoredRun], asked: RunSpec | None = None
    ) -> StoredRun:
        """A run as it is catalogued, or else as `read` reads it; in brief where it is over.

        Args:
            run: Where it is.
            read: Reads its files.
            asked: What is asked for under its name; where that is what it is, it stands in the
                record, so that it is in memory once.
        """
        known = self._find(run, asked)
        if known is not None:
            return known
        before = stamp_before_reading(run)
        stored = read(run)
        name = run.folder.name
        spec = stored.record.spec
        if not stored.record.is_over or spec.name != name or spec.parent is not None:
            return stored
        record = replace(stored.record.in_brief(), spec=self._shared(spec))
        brief = replace(stored, record=record)
        if before is not None and is_settled(before, self.now(), SETTLED):
            self._kept[name] = before, brief
            self._new += 1
        return brief

    def save(self, *, complete: bool) -> None:
        """Write it where enough of it is new; a place that takes nothing is left out.

        Args:
            complete: Whether every run was looked at, so that all others are gone.
        """
        if len(self._kept) < FEWEST or self._new * SHARE < len(self._kept):
            return
        if not complete:
            self._keep_others()
        plain = {
            VERSION: CATALOGUE.version,
            "of": _version(),
            **plain_columns(self._kept.values()),
        }
        content = json.dumps(plain, separators=(",", ":")).encode()
        for place in self.places:
            with suppress(OSError):
                _put(place, _sum_of(content) + b"\n" + content)
                return

    def _find(self, run: RunPaths, asked: RunSpec | None = None) -> StoredRun | None:
        name = run.folder.name
        row = self._rows.get(name)
        if row is None:
            return None
        attempts = row.told["attempts"]
        if len(row.stamp) != length_of(attempts) or row.stamp != stamp_of(run, attempts):
            return None
        with suppress(*NONSENSE):
            stored = row.stored(run, asked if asked and self._specifies(asked, row) else None)
            if stored.record.spec.name == name and stored.record.is_over:
                self._kept[name] = row.stamp, stored
                return stored
        return None

    def _specifies(self, asked: RunSpec, row: Row) -> bool:
        """Whether a catalogued run is what is asked for."""
        if not row.is_seeded_as(asked):
            return False
        # All of them are in memory as long as this catalogue, so that no identity is another's.
        key = tuple(
            id(getattr(spec, name))
            for spec in (asked, row.configuration)
            for name in CONFIGURATION
        )
        if key not in self._alike:
            self._asked.append(asked)
            self._alike[key] = _written(asked) == _written(row.configuration)
        return self._alike[key]

    def _keep_others(self) -> None:
        folders = {run.paths.folder.parent for _, run in self._kept.values()}
        (folder,) = folders
        for name in self._rows.keys() - self._kept.keys():
            self._find(RunPaths(folder / name))

    def _shared(self, spec: RunSpec) -> RunSpec:
        """The same specification, its parts in memory once for all runs of a configuration."""
        return self._firsts.setdefault(_written(spec), spec).again(
            spec.phase, spec.root, spec.seed
        )


def _written(spec: RunSpec) -> str:
    """A configuration as it was written: the order of components is part of what a run is."""
    return repr([spec.schema, *(getattr(spec, name) for name in CONFIGURATION)])


def _version() -> str:
    return f"{FORMAT}, rlexp {writer()}"


def _read(place: Path) -> dict[str, Row]:
    """The rows of a catalogue of this version, whose first line is the sum of the others.

    Raises:
        OSError: It cannot be read.
        ValueError: It is damaged, of another version, or very large.
    """
    if place.lstat().st_size > LARGEST:
        raise ValueError("it is very large")
    head, _, content = read_file(place).partition(b"\n")
    if head != _sum_of(content):
        raise ValueError("it is damaged")
    plain = parse_json(content)
    if (plain[VERSION], plain["of"]) != (CATALOGUE.version, _version()):
        raise ValueError("it is of another version")
    return read_rows(plain)


def _sum_of(content: bytes) -> bytes:
    return sha256(content).hexdigest().encode()


def _put(place: Path, content: bytes) -> None:
    """Write a file whole or not at all; whether it outlasts a power cut does not matter."""
    place.parent.mkdir(parents=True, exist_ok=True)
    temporary = place.with_name(f".{uuid4().hex[:8]}{place.name}")
    try:
        temporary.write_bytes(content)
        temporary.replace(place)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
