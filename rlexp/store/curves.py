"""The curves of ended runs beside their catalogue, so that commands which draw them read no journals.

The file holds the evaluations, examinations and checkpoints of runs that the catalogue holds, and what
their learners logged where a command has read it, as arrays of 64-bit numbers behind a line of JSON. It is derived from the journals and may be deleted. An
entry is valid for the stamp with which the run was read, as an entry of the catalogue is.
"""

import json
import os
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from rlexp.errors import RecordError
from rlexp.records.events import (
    Checkpointed,
    Evaluated,
    Examined,
    Measured,
    Measures,
    from_plain,
    to_plain,
)
from rlexp.records.run import RunRecord
from rlexp.store.derived_files import LARGEST, read_derived_bytes, write_derived
from rlexp.store.files import parse_json

FORMAT = 2
"""Increased when the same records would give other arrays."""
IN_TRAINING, FINAL, EXAMINED = range(3)
"""What a row of episodes is: an evaluation in training, the final one, or an examination."""
MOST_BYTES = LARGEST // 2
"""Most bytes of numbers in a file."""
NONE = -1
"""The number in place of that of a list of names, where there is none."""
EACH: Mapping[str, str] = {
    "kinds": "b",
    "steps": "q",
    "times": "d",
    "seconds": "d",
    "returns": "q",
    "lengths": "q",
    "measures": "q",
    "distributions": "q",
}
"""Columns with one number for each row of episodes, and their types in `array`.

`returns` and `lengths` are numbers of values; `measures` and `distributions` are numbers of lists of
names.
"""
VALUES: Mapping[str, str] = {"episodes": "d", "episode_lengths": "q"}
"""Columns with the values of all rows, one row after another: returns and measures; lengths."""
LOGGED: Mapping[str, str] = {
    "logged_steps": "q",
    "logged_times": "d",
    "logged_names": "q",
    "logged_values": "d",
}
"""Columns with what the learner logged: a number for each event, and the values of all events."""
OF_LOGGED = ("logged_steps", "logged_values")
"""Columns whose lengths tell those of all columns in `LOGGED`."""
COLUMNS: Mapping[str, str] = {**EACH, **VALUES, **LOGGED}
"""All columns, in the order of the file."""
INVALID = (
    *(RecordError, TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError),
    RecursionError,
)
"""Exceptions that a file with invalid content, or a record with unusual values, can cause."""

Columns = dict[str, "array[Any]"]
"""The columns of one run, or of all runs."""


@dataclass(frozen=True, slots=True)
class CurveRow:
    """The curves of one run.

    Attributes:
        stamp: The stamp of the run when it was read; see `rlexp.store.run_stamps.packed`.
        columns: The numbers, by the names in `COLUMNS`.
        checkpoints: Its checkpoints as JSON values.
        logged: Whether what its learner logged was read.
    """

    stamp: bytes
    columns: Columns
    checkpoints: Sequence[Mapping[str, Any]] = ()
    logged: bool = False

    def without_logged(self) -> "CurveRow":
        """The curves without what the learner logged."""
        empty = {name: array(code) for name, code in LOGGED.items()}
        return replace(self, columns={**self.columns, **empty}, logged=False)


@dataclass(slots=True)
class NameLists:
    """Lists of names, such as those of measures, that runs share; each is stored once.

    Attributes:
        lists: The lists in the order in which they were met.
    """

    lists: list[tuple[str, ...]] = field(default_factory=list)
    _numbers: dict[tuple[str, ...], int] = field(default_factory=dict)

    @classmethod
    def of(cls, lists: Iterable[Iterable[str]]) -> "NameLists":
        """The lists of a file.

        Raises:
            TypeError: A name is no text.
        """
        made = cls([tuple(names) for names in lists])
        if not {type(name) for names in made.lists for name in names} <= {str}:
            raise TypeError("a name is no text")
        made._numbers = {names: number for number, names in enumerate(made.lists)}
        return made

    def number(self, names: tuple[str, ...]) -> int:
        """The number of a list."""
        if names not in self._numbers:
            self._numbers[names] = len(self.lists)
            self.lists.append(names)
        return self._numbers[names]


@dataclass(slots=True)
class Curves:
    """The curves of an experiment's ended runs, by the names of the runs.

    Attributes:
        locations: Files that may hold them, the preferred one first.
        version: What wrote the file; the content of another version is ignored.
    """

    locations: Sequence[Path]
    version: str
    _names: NameLists = field(default_factory=NameLists)
    _rows: dict[str, CurveRow] | None = None
    _seen: dict[str, CurveRow] = field(default_factory=dict)
    _new: int = 0

    def add_to(self, record: RunRecord, stamp: bytes, *, logged: bool = False) -> RunRecord | None:
        """A record in brief with its curves, as reading its files would give; None without them.

        Args:
            record: The record of an ended run.
            stamp: The present stamp of its files, packed.
            logged: Whether it gets what its learner logged.
        """
        row = self._valid(record.spec.name, stamp)
        if row is None or (logged and not row.logged):
            return None
        with suppress(*INVALID):
            full = _with_curves(record, row, self._names.lists, logged=logged)
            self._seen[record.spec.name] = row
            return full
        return None

    def keep(self, record: RunRecord, stamp: bytes, *, logged: bool = False) -> None:
        """Keep the curves of a full record; those with a value of an unusual type are not kept.

        Args:
            record: The record.
            stamp: The stamp of the files from which it was read, packed.
            logged: Whether what the learner logged was read.
        """
        name, present = record.spec.name, self._valid(record.spec.name, stamp)
        if present is not None and present.logged >= logged:
            self._seen[name] = present
            return
        with suppress(*INVALID):
            self._seen[name] = _row(record, stamp, self._names, logged=logged)
            self._new += 1

    def count(self, *, logged: bool) -> int:
        """The number of runs in the file, with what learners logged where that is asked for."""
        return sum(row.logged >= logged for row in self._read().values())

    def _valid(self, name: str, stamp: bytes) -> CurveRow | None:
        row = self._read().get(name)
        return row if row is not None and row.stamp == stamp else None

    def save(self, *, complete: bool, fewest: int, share: int) -> None:
        """Write the file to the first writable location, if enough of it is new and it is not too large.

        Args:
            complete: Whether every run was looked at, so that runs without a look are gone.
            fewest: Number of runs below which the file saves no time.
            share: The file is written when at least one run in so many is new in it.
        """
        if len(self._seen) < fewest or self._new * share < len(self._seen):
            return
        rows = self._seen if complete else {**self._read(), **self._seen}
        if _size(rows) > MOST_BYTES:
            # What learners logged can be many times as much as the rest.
            rows = {name: row.without_logged() for name, row in rows.items()}
        if _size(rows) > MOST_BYTES:
            return
        content = _content(rows, self._names, self.version)
        for location in self.locations:
            with suppress(OSError):
                write_derived(location, content)
                return

    def _read(self) -> Mapping[str, CurveRow]:
        """The rows of the newest file; none where it is damaged or of another version."""
        if self._rows is None:
            self._rows = {}
            with suppress(OSError, *INVALID):
                present = filter(os.path.lexists, self.locations)
                newest = max(present, key=lambda path: path.lstat().st_mtime_ns)
                _, content = read_derived_bytes(newest)
                self._rows, self._names = _rows_in(content, self.version)
        return self._rows


def _size(rows: Mapping[str, CurveRow]) -> int:
    """The bytes of the numbers of all rows."""
    return sum(len(c) * c.itemsize for row in rows.values() for c in row.columns.values())


def _row(record: RunRecord, stamp: bytes, names: NameLists, *, logged: bool) -> CurveRow:
    """The curves of a record.

    Raises:
        TypeError: A value has an unusual type, which the arrays would change.
        OverflowError: A number needs more than 64 bits.
    """
    columns = _empty()
    for evaluation in record.evaluations:
        _append(columns, evaluation, IN_TRAINING, names)
    if record.final is not None:
        _append(columns, record.final, FINAL, names)
    for examination in record.examinations:
        _append(columns, examination, EXAMINED, names)
    for event in record.measurements if logged else ():
        columns["logged_steps"].append(event.step)
        columns["logged_times"].append(event.time)
        columns["logged_names"].append(names.number(tuple(event.metrics)))
        columns["logged_values"].extend(event.metrics.values())
    return CurveRow(stamp, columns, tuple(map(to_plain, record.checkpoints)), logged)


def _append(columns: Columns, event: Evaluated | Examined, kind: int, names: NameLists) -> None:
    distribution = NONE
    if isinstance(event, Examined):
        distribution = names.number((_text(event.distribution),))
    elif event.final is not (kind == FINAL):
        # A journal may hold another value that counts as true or false.
        raise TypeError("final is neither true nor false")
    measures = event.measures
    number = {
        "kinds": kind,
        "steps": event.step,
        "times": event.time,
        "seconds": event.seconds,
        "returns": len(event.returns),
        "lengths": len(event.lengths),
        "measures": NONE if measures is None else names.number(tuple(measures)),
        "distributions": distribution,
    }
    for name, value in number.items():
        columns[name].append(value)
    columns["episodes"].extend(event.returns)
    for values in (measures or {}).values():
        columns["episodes"].extend(values)
    columns["episode_lengths"].extend(event.lengths)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("the name of a distribution is no text")
    return value


def _with_curves(
    record: RunRecord, row: CurveRow, names: Sequence[tuple[str, ...]], *, logged: bool
) -> RunRecord:
    """The record with the events of a row.

    Raises:
        TypeError: A value of the row is invalid.
        ValueError: The same.
        IndexError: The same.
    """
    evaluations: list[Evaluated] = []
    final: Evaluated | None = None
    examinations: list[Examined] = []
    for kind, event in _events(row, names):
        if isinstance(event, Examined):
            examinations.append(event)
        elif kind == FINAL:
            final = event
        else:
            evaluations.append(event)
    return replace(
        record,
        evaluations=tuple(evaluations),
        final=final,
        examinations=tuple(examinations),
        checkpoints=tuple(map(_checkpoint, row.checkpoints)),
        measurements=tuple(_measurements(row, names)) if logged else (),
        brief=None,
    )


def _measurements(row: CurveRow, names: Sequence[tuple[str, ...]]) -> Iterator[Measured]:
    """What the learner logged."""
    values = iter(row.columns["logged_values"])
    events = (row.columns[name] for name in ("logged_times", "logged_steps", "logged_names"))
    for time, step, listed in zip(*events, strict=True):
        metrics = dict(zip(names[listed], values, strict=False))
        if len(metrics) != len(names[listed]):
            raise ValueError("a value is missing")
        yield Measured(time=time, step=step, metrics=metrics)


def _checkpoint(values: Mapping[str, Any]) -> Checkpointed:
    event = from_plain(values)
    if not isinstance(event, Checkpointed):
        raise TypeError("it is another event")
    return event


def _events(
    row: CurveRow, names: Sequence[tuple[str, ...]]
) -> Iterator[tuple[int, Evaluated | Examined]]:
    """The events of a row, each with its kind."""
    values = row.columns["episodes"].tolist()
    lengths = row.columns["episode_lengths"].tolist()
    start = length_start = 0
    for kind, step, time, seconds, count, length_count, listed, distribution in zip(
        *(row.columns[name] for name in EACH), strict=True
    ):
        end, length_end = start + count, length_start + length_count
        returns = tuple(values[start:end])
        measures: Measures | None = None
        if listed != NONE:
            measures = {
                name: tuple(values[end + count * n : end + count * (n + 1)])
                for n, name in enumerate(names[listed])
            }
            end += count * len(measures)
        common: dict[str, Any] = {
            "time": time,
            "step": step,
            "returns": returns,
            "lengths": tuple(lengths[length_start:length_end]),
            "seconds": seconds,
            "measures": measures,
        }
        if kind == EXAMINED:
            yield kind, Examined(distribution=names[distribution][0], **common)
        else:
            yield kind, Evaluated(final=kind == FINAL, **common)
        start, length_start = end, length_end


def _empty() -> Columns:
    return {name: array(code) for name, code in COLUMNS.items()}


def _content(rows: Mapping[str, CurveRow], names: NameLists, version: str) -> bytes:
    """The content of a file."""
    columns = _empty()
    for row in rows.values():
        for name, column in row.columns.items():
            columns[name].extend(column)
    head = {
        "of": _written_by(version),
        "names": names.lists,
        "runs": [*rows],
        "stamps": [row.stamp.hex() for row in rows.values()],
        "rows": [len(row.columns["kinds"]) for row in rows.values()],
        "sizes": {
            name: [len(r.columns[name]) for r in rows.values()] for name in (*VALUES, *OF_LOGGED)
        },
        "logged": [row.logged for row in rows.values()],
        "checkpoints": {name: r.checkpoints for name, r in rows.items() if r.checkpoints},
    }
    text = json.dumps(head, separators=(",", ":")).encode()
    return b"\n".join([text, b"".join(column.tobytes() for column in columns.values())])


def _rows_in(content: bytes, version: str) -> tuple[dict[str, CurveRow], NameLists]:
    """The inverse of `_content`.

    Raises:
        TypeError: A value has a wrong type.
        ValueError: The content is of another version, or an array has a wrong length.
        KeyError: A part is missing.
    """
    text, _, numbers = content.partition(b"\n")
    head = parse_json(text)
    if head["of"] != _written_by(version):
        raise ValueError("it is of another version")
    sizes = _sizes(head)
    take = _taker(numbers)
    columns = {n: take(code, sum(sizes[n])) for n, code in COLUMNS.items()}
    spans = {name: [*pairwise(accumulate(each, initial=0))] for name, each in sizes.items()}
    of_runs = [
        {name: columns[name][slice(*spans[name][at])] for name in columns}
        for at in range(len(head["runs"]))
    ]
    checkpoints = head["checkpoints"]
    stamps = map(bytes.fromhex, head["stamps"])
    each = zip(head["runs"], stamps, of_runs, head["logged"], strict=True)
    return {
        name: CurveRow(stamp, of_run, checkpoints.get(name, ()), logged is True)
        for name, stamp, of_run, logged in each
    }, NameLists.of(head["names"])


def _sizes(head: Mapping[str, Any]) -> dict[str, list[int]]:
    """The numbers of values of each run in each column."""
    rows = [*map(int, head["rows"])]
    given = {name: [*map(int, head["sizes"][name])] for name in (*VALUES, *OF_LOGGED)}
    of_events = dict.fromkeys(("logged_times", "logged_names"), given["logged_steps"])
    return {**dict.fromkeys(EACH, rows), **given, **of_events}


def _taker(content: bytes) -> "Callable[[str, int], array[Any]]":
    """A function that returns the next numbers of some bytes, of a type and a count."""
    rest = memoryview(content)

    def take(code: str, count: int) -> "array[Any]":
        nonlocal rest
        column: array[Any] = array(code)
        size = column.itemsize * count
        if count < 0 or len(rest) < size:
            raise ValueError("an array is too short")
        column.frombytes(rest[:size])
        rest = rest[size:]
        return column

    return take


def _written_by(version: str) -> str:
    """What wrote a file; numbers are in the order of the machine's bytes."""
    return f"{FORMAT}, {sys.byteorder}, {version}"
