"""The catalogue of an experiment: its runs that are over, in brief, so that they are read once.

It is derived. What it says of a run counts only while the run's files are what they were; it is
dropped whole where it cannot be read, and is written anew as a whole.
"""

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from rlexp.errors import RecordError
from rlexp.protocol.schema_1 import FirstRunSpec
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import CONFIGURATION, RunSpec
from rlexp.records.events import Continued, Event, Failure, Refused, from_plain, to_plain
from rlexp.records.run import Brief, RunRecord, State
from rlexp.store.files import parse_json, read_file
from rlexp.store.layout import RunPaths
from rlexp.store.runs import StoredRun
from rlexp.store.schemas import CATALOGUE, VERSION, writer

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


AS_THEY_ARE: Mapping[str, tuple[type, ...]] = {
    "reason": (str, type(None)),
    "attempts": (int,),
    "machine_failures": (int,),
    "step": (int,),
    "started": (float, type(None)),
    "ended": (float, type(None)),
    "seconds": (float, type(None)),
    "weights": (str, type(None)),
    "restarts": (int,),
    "begun": (int,),
    "spent": (int,),
    "seconds_spent": (float,),
}
"""Fields of a record that are JSON values, and their kinds."""
COLUMNS: Mapping[str, tuple[type, ...]] = {
    "name": (str,),
    "stamp": (list,),
    "configuration": (int,),
    "phase": (str,),
    "root": (int,),
    "seed": (int,),
    "state": (str,),
    "failure": (str, type(None)),
    "continuations": (list,),
    "refused": (list,),
    "score": (float, type(None)),
    "last": (float, type(None)),
    "torn": (int,),
    "quarantined": (int,),
    **AS_THEY_ARE,
}
"""What is said of a run, and its kinds."""

OfKind = TypeVar("OfKind", bound=Event)


@dataclass(frozen=True, slots=True)
class Row:
    """A run as a catalogue says it was; `configurations` are those that it counts from."""

    told: Mapping[str, Any]
    configurations: Sequence[RunSpec]

    @property
    def stamp(self) -> Stamp:
        """The stamp of its files then."""
        stamp: Stamp = self.told["stamp"]
        return stamp

    @property
    def configuration(self) -> RunSpec:
        """A specification of its configuration.

        Raises:
            IndexError: There is none.
        """
        number: int = self.told["configuration"]
        return self.configurations[number]

    def is_seeded_as(self, spec: RunSpec) -> bool:
        """Whether it has the phase, root and seed of a specification."""
        told = self.told
        return (told["phase"], told["root"], told["seed"]) == (spec.phase, spec.root, spec.seed)

    def stored(self, run: RunPaths, spec: RunSpec | None = None) -> StoredRun:
        """The run as reading its files would tell it, in brief.

        Args:
            run: Where it is.
            spec: What specifies it; without one, it is made.

        Raises:
            RecordError: It makes no sense.
            TypeError: The same.
            ValueError: The same.
            IndexError: The same.
        """
        told = self.told
        again = self.configuration.again
        record = RunRecord(
            spec=spec or again(Phase(told["phase"]), told["root"], told["seed"]),
            state=State(told["state"]),
            failure=None if told["failure"] is None else Failure(told["failure"]),
            continuations=tuple(_events(told["continuations"], Continued)),
            refused=tuple(_events(told["refused"], Refused)),
            brief=Brief(told["score"], told["last"]),
            **{name: told[name] for name in AS_THEY_ARE},
        )
        return StoredRun(run, record, told["torn"], told["quarantined"])


def plain_columns(entries: Iterable[tuple[Stamp, StoredRun]]) -> dict[str, Any]:
    """Runs as JSON values; those of one configuration name it by a number."""
    numbers: dict[tuple[int, ...], int] = {}
    firsts: list[RunSpec] = []
    rows = []
    for stamp, stored in entries:
        spec = stored.record.spec
        key = tuple(id(getattr(spec, name)) for name in CONFIGURATION)
        if key not in numbers:
            numbers[key] = len(firsts)
            firsts.append(spec)
        rows.append(_row(stamp, stored, numbers[key]))
    columns = zip(*rows, strict=True)
    return {
        "configurations": [{"schema": s.schema, **s.parts} for s in firsts],
        "runs": dict(zip(COLUMNS, map(list, columns), strict=True)),
    }


def read_rows(plain: Mapping[str, Any]) -> dict[str, Row]:
    """The inverse of `plain_columns`: what is said of every run, by its name.

    Raises:
        TypeError: A value is of another kind.
        ValueError: A column has another length.
        KeyError: A column is missing.
    """
    columns = [plain["runs"][name] for name in COLUMNS]
    for column, kinds in zip(columns, COLUMNS.values(), strict=True):
        if not set(map(type, column)) <= set(kinds):
            raise TypeError("a column holds other values")
    configurations = [_first(parts) for parts in plain["configurations"]]
    rows = (dict(zip(COLUMNS, row, strict=True)) for row in zip(*columns, strict=True))
    return {told["name"]: Row(told, configurations) for told in rows}


def _first(parts: Mapping[str, Any]) -> RunSpec:
    kind = FirstRunSpec if parts["schema"] == FirstRunSpec.schema else RunSpec
    settings: dict[str, Any] = {name: parts.get(name) for name in CONFIGURATION}
    return kind(**settings, phase=Phase.TEST, root=0, seed=0)


def _row(stamp: Stamp, stored: StoredRun, configuration: int) -> list[Any]:
    record, brief = stored.record, stored.record.brief
    assert brief is not None
    told = {
        "name": record.spec.name,
        "stamp": stamp,
        "configuration": configuration,
        "phase": record.spec.phase,
        "root": record.spec.root,
        "seed": record.spec.seed,
        "state": record.state,
        "failure": record.failure,
        "continuations": [to_plain(event) for event in record.continuations],
        "refused": [to_plain(event) for event in record.refused],
        "score": brief.score,
        "last": brief.last,
        "torn": int(stored.torn),
        "quarantined": stored.quarantined,
        **{name: getattr(record, name) for name in AS_THEY_ARE},
    }
    return [told[name] for name in COLUMNS]


def _events(plain: Sequence[Mapping[str, Any]], kind: type[OfKind]) -> Iterator[OfKind]:
    for one in plain:
        event = from_plain(one)
        if not isinstance(event, kind):
            raise TypeError("it is another event")
        yield event


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
