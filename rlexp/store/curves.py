"""The curves of ended runs beside their catalogue, so that commands which draw them read no journals.

The file holds the evaluations, examinations and checkpoints of runs that the catalogue holds, as
arrays of 64-bit numbers behind a line of JSON. It is derived from the journals and may be deleted. An
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
    Measures,
    from_plain,
    to_plain,
)
from rlexp.records.run import RunRecord
from rlexp.store.derived_files import LARGEST, read_derived_bytes, write_derived
from rlexp.store.files import parse_json

FORMAT = 1
"""Increased when the same records would give other arrays."""
IN_TRAINING, FINAL, EXAMINED = range(3)
"""What a row of episodes is: an evaluation in training, the final one, or an examination."""
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
COLUMNS: Mapping[str, str] = {**EACH, **VALUES}
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
        stamp: The stamp of the run when it was read; see `rlexp.store.catalogue.stamp_of`.
        columns: The numbers, by the names in `EACH` and `VALUES`.
        checkpoints: Its checkpoints as JSON values.
    """

    stamp: Sequence[int]
    columns: Columns
    checkpoints: Sequence[Mapping[str, Any]] = ()


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

    def add_to(self, record: RunRecord, stamp: Sequence[int]) -> RunRecord | None:
        """A record in brief with its curves, as reading its files would give; None without them.

        Args:
            record: The record of an ended run.
            stamp: The present stamp of its files.
        """
        name = record.spec.name
        row = self._read().get(name)
        if row is None or [*row.stamp] != [*stamp]:
            return None
        with suppress(*INVALID):
            full = _with_curves(record, row, self._names.lists)
            self._seen[name] = row
            return full
        return None

    def keep(self, record: RunRecord, stamp: Sequence[int]) -> None:
        """Keep the curves of a full record; those with a value of an unusual type are not kept."""
        name, present = record.spec.name, self._read().get(record.spec.name)
        if present is not None and [*present.stamp] == [*stamp]:
            self._seen[name] = present
            return
        with suppress(*INVALID):
            self._seen[name] = _row(record, stamp, self._names)
            self._new += 1

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
        content = _content(rows, self._names, self.version)
        if len(content) > LARGEST // 2:
            return
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
                content = read_derived_bytes(newest)
                self._rows, self._names = _rows_in(content, self.version)
        return self._rows


def _row(record: RunRecord, stamp: Sequence[int], names: NameLists) -> CurveRow:
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
    return CurveRow(stamp, columns, tuple(map(to_plain, record.checkpoints)))


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


def _with_curves(record: RunRecord, row: CurveRow, names: Sequence[tuple[str, ...]]) -> RunRecord:
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
        brief=None,
    )


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
        "stamps": [[*row.stamp] for row in rows.values()],
        "rows": [len(row.columns["kinds"]) for row in rows.values()],
        "sizes": {name: [len(r.columns[name]) for r in rows.values()] for name in VALUES},
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
    rows = [*map(int, head["rows"])]
    sizes = {**dict.fromkeys(EACH, rows), **{n: [*map(int, head["sizes"][n])] for n in VALUES}}
    take = _taker(numbers)
    columns = {n: take(code, sum(sizes[n])) for n, code in COLUMNS.items()}
    spans = {name: [*pairwise(accumulate(each, initial=0))] for name, each in sizes.items()}
    of_runs = [
        {name: columns[name][slice(*spans[name][at])] for name in columns}
        for at in range(len(rows))
    ]
    checkpoints = head["checkpoints"]
    return {
        name: CurveRow(stamp, of_run, checkpoints.get(name, ()))
        for name, stamp, of_run in zip(head["runs"], head["stamps"], of_runs, strict=True)
    }, NameLists.of(head["names"])


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
