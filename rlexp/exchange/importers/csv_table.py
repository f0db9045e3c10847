"""Plain CSV: `label,task,seed,step,return`, a row for each episode of an evaluation."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO

from rlexp.errors import did_you_mean
from rlexp.exchange.importers.parse_values import (
    parse_name,
    parse_number,
    parse_whole_number,
    shortened_repr,
)
from rlexp.exchange.importers.sources import LoadedFile, SourceFile, unused_files
from rlexp.exchange.importers.study import (
    ImportedRun,
    ImportedStudy,
    Point,
    Returns,
    Unit,
    Wanted,
    malformed_error,
    until_not_finite,
)

REQUIRED = ("step", "return")
NAMING = ("label", "task", "seed")
"""Columns that may be missing where an option says the same of every row."""
OPTIONAL = ("length", "final")
FINAL: Mapping[str, bool] = {"": False, "0": False, "false": False, "1": True, "true": True}
"""What may stand in the column `final`."""
LONGEST_CELL = 1000
LONGEST_HEAD = 1 << 16
"""Bytes in which the names of the columns are looked for."""

Key = tuple[str, str, int]
"""Label, task and seed."""


@dataclass(frozen=True, slots=True)
class EpisodeRow:
    """One episode, and whose it is."""

    key: Key
    step: int
    value: float
    length: int | None
    final: bool


def fits(files: Sequence[SourceFile]) -> bool:
    """Whether there is a table whose first line names the columns."""
    return any(_is_table(file) for file in files)


def read_csv(files: Sequence[SourceFile], wanted: Wanted) -> ImportedStudy:
    """Read runs: the rows of one label, task and seed are one, in whatever order they stand.

    Raises:
        MalformedError: A table is not in this form; names the line.
        ConfigError: Nothing says what a step is.
    """
    unit = wanted.required_unit("csv")
    used = [file for file in files if file.last.endswith(".csv")]
    left_out = unused_files(files, used)
    runs: list[ImportedRun] = []
    for file in used:
        loaded = file.load()
        rows: dict[Key, list[EpisodeRow]] = {}
        for row in _rows(loaded, wanted, unit, left_out):
            rows.setdefault(row.key, []).append(row)
        if not rows:
            raise malformed_error(file.name, "", "it holds no row")
        runs += [_run(key, own, loaded, wanted) for key, own in rows.items()]
    return ImportedStudy(kind="csv", runs=tuple(runs), left_out=tuple(left_out))


def _is_table(file: SourceFile) -> bool:
    head = file.begins(LONGEST_HEAD).decode("utf-8-sig", errors="replace").partition("\n")[0]
    return file.last.endswith(".csv") and set(REQUIRED) <= set(_names(head.strip().split(",")))


def _names(cells: Sequence[str]) -> list[str]:
    return [cell.strip().strip('"').lower() for cell in cells]


def _rows(
    loaded: LoadedFile, wanted: Wanted, unit: Unit, left_out: list[str]
) -> Iterator[EpisodeRow]:
    reader = csv.reader(StringIO(loaded.text(), newline=""), strict=True)
    columns: list[str] = []
    try:
        for cells in reader:
            where = f"line {reader.line_num}"
            if not columns:
                columns = _columns(_names(cells), loaded.name, wanted, left_out)
            elif cells:
                _check_cells(cells, columns, loaded.name, where)
                row = dict(zip(columns, cells, strict=True))
                yield _row(row, loaded.name, where, wanted, unit)
    except csv.Error as error:
        raise malformed_error(loaded.name, f"line {reader.line_num}", str(error)) from error
    if not columns:
        raise malformed_error(loaded.name, "line 1", "it names no columns")


def _check_cells(cells: Sequence[str], columns: Sequence[str], name: str, where: str) -> None:
    if len(cells) != len(columns):
        what = f"it has {len(cells)} cells, and there are {len(columns)} columns"
        raise malformed_error(name, where, what)
    for column, cell in zip(columns, cells, strict=True):
        if len(cell) > LONGEST_CELL:
            what = f"{column} has {len(cell):,} letters, of which {LONGEST_CELL:,} are allowed"
            raise malformed_error(name, where, what)


def _columns(names: list[str], name: str, wanted: Wanted, left_out: list[str]) -> list[str]:
    known = (*NAMING, *REQUIRED, *OPTIONAL)
    twice = [column for column in names if names.count(column) > 1]
    if twice:
        raise malformed_error(
            name, "line 1", f"column {shortened_repr(twice[0])} stands there twice"
        )
    for column in (*NAMING, *REQUIRED):
        if column not in names and (column in REQUIRED or getattr(wanted, column) is None):
            more = f", or give --{column}" if column in NAMING else ""
            what = (
                f"there is no column {column!r} among {shortened_repr(','.join(names))}: name one in the "
                f"first line, with commas between names{more}{did_you_mean(column, names)}"
            )
            raise malformed_error(name, "line 1", what)
    left_out += [
        f"{name}, column {shortened_repr(column)}" for column in names if column not in known
    ]
    return names


def _row(row: Mapping[str, str], name: str, where: str, wanted: Wanted, unit: Unit) -> EpisodeRow:
    label = wanted.label or parse_name(row.get("label"), name, where, "label")
    task = wanted.task or parse_name(row.get("task"), name, where, "task")
    seed = row.get("seed")
    number = wanted.seed if seed is None else parse_whole_number(seed, name, where, "seed")
    assert number is not None
    length = row.get("length", "").strip()
    final = row.get("final", "").strip().lower()
    if final not in FINAL:
        raise malformed_error(name, where, f"final is {final!r}: write 1 or 0")
    return EpisodeRow(
        key=(label, task, number),
        step=unit.convert(parse_whole_number(row["step"], name, where, "step")),
        value=parse_number(row["return"], name, where, "return"),
        length=unit.convert(parse_whole_number(length, name, where, "length")) if length else None,
        final=FINAL[final],
    )


def _run(key: Key, rows: Sequence[EpisodeRow], loaded: LoadedFile, wanted: Wanted) -> ImportedRun:
    label, task, seed = key
    by_place: dict[tuple[int, bool], list[EpisodeRow]] = {}
    for row in rows:
        by_place.setdefault((row.step, row.final), []).append(row)
    points = tuple(_point(own) for _, own in sorted(by_place.items()))
    kept, trouble = until_not_finite(points)
    return ImportedRun(
        name=f"{label}/{task}/{seed}",
        label=label,
        task=task,
        seed=seed,
        points=kept,
        returns=wanted.returns or Returns.EVALUATIONS,
        files=(loaded.sum,),
        trouble=trouble,
    )


def _point(rows: Sequence[EpisodeRow]) -> Point:
    lengths = tuple(row.length for row in rows if row.length is not None)
    return Point(
        step=rows[0].step,
        returns=tuple(row.value for row in rows),
        lengths=lengths if len(lengths) == len(rows) else (),
        final=rows[0].final,
    )
