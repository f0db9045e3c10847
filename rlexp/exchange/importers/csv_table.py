"""Importer of CSV tables: `label,task,seed,step,return`, a row for each evaluation episode."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO

from rlexp.errors import did_you_mean
from rlexp.exchange.importers.imported_study import (
    EvaluationPoint,
    ImportedRun,
    ImportedStudy,
    ImportOptions,
    ReturnKind,
    StepUnit,
    malformed_error,
    until_not_finite,
)
from rlexp.exchange.importers.parse_values import (
    parse_name,
    parse_number,
    parse_whole_number,
    shortened_repr,
)
from rlexp.exchange.importers.sources import LoadedFile, SourceFile, unused_files

REQUIRED = ("step", "return")
NAMING = ("label", "task", "seed")
"""Columns that an option may replace with one value for every row."""
OPTIONAL = ("length", "final")
FINAL: Mapping[str, bool] = {"": False, "0": False, "false": False, "1": True, "true": True}
"""Allowed values of the column `final`."""
LONGEST_CELL = 1000
LONGEST_HEAD = 1 << 16
"""Bytes of a file in which the line with the column names must end."""

Key = tuple[str, str, int]
"""Label, task and seed."""


@dataclass(frozen=True, slots=True)
class EpisodeRow:
    """One episode with its label, task and seed."""

    key: Key
    step: int
    value: float
    length: int | None
    final: bool


def fits(files: Sequence[SourceFile]) -> bool:
    """Whether there is a table whose first line names the columns."""
    return any(_is_table(file) for file in files)


def read_csv(files: Sequence[SourceFile], options: ImportOptions) -> ImportedStudy:
    """Read runs: all rows of a label, task and seed, in any order, are one run.

    Raises:
        MalformedError: A table has another form; the message names the line.
        ConfigError: The user does not give the unit of steps.
    """
    unit = options.required_unit("csv")
    used = [file for file in files if file.last.endswith(".csv")]
    left_out = unused_files(files, used)
    runs: list[ImportedRun] = []
    for file in used:
        loaded = file.load()
        rows: dict[Key, list[EpisodeRow]] = {}
        for row in _rows(loaded, options, unit, left_out):
            rows.setdefault(row.key, []).append(row)
        if not rows:
            raise malformed_error(file.name, "", "it has no row")
        runs += [_run(key, run_rows, loaded, options) for key, run_rows in rows.items()]
    return ImportedStudy(kind="csv", runs=tuple(runs), left_out=tuple(left_out))


def _is_table(file: SourceFile) -> bool:
    head = file.begins(LONGEST_HEAD).decode("utf-8-sig", errors="replace").partition("\n")[0]
    return file.last.endswith(".csv") and set(REQUIRED) <= set(_names(head.strip().split(",")))


def _names(cells: Sequence[str]) -> list[str]:
    return [cell.strip().strip('"').lower() for cell in cells]


def _rows(
    loaded: LoadedFile, options: ImportOptions, unit: StepUnit, left_out: list[str]
) -> Iterator[EpisodeRow]:
    # csv itself must see the line breaks inside of quotes. Only `strict` makes it refuse malformed
    # quotes.
    reader = csv.reader(StringIO(loaded.text(), newline=""), strict=True)
    columns: list[str] = []
    try:
        for cells in reader:
            where = f"line {reader.line_num}"
            if not columns:
                columns = _columns(_names(cells), loaded.name, options, left_out)
            elif cells:
                _check_cells(cells, columns, loaded.name, where)
                row = dict(zip(columns, cells, strict=True))
                yield _row(row, loaded.name, where, options, unit)
    except csv.Error as error:
        raise malformed_error(loaded.name, f"line {reader.line_num}", str(error)) from error
    if not columns:
        raise malformed_error(
            loaded.name, "line 1", "the first line with the column names is missing"
        )


def _check_cells(cells: Sequence[str], columns: Sequence[str], name: str, where: str) -> None:
    if len(cells) != len(columns):
        what = f"it has {len(cells)} cells, but the table has {len(columns)} columns"
        raise malformed_error(name, where, what)
    for column, cell in zip(columns, cells, strict=True):
        if len(cell) > LONGEST_CELL:
            what = f"{column} has {len(cell):,} characters; at most {LONGEST_CELL:,} are allowed"
            raise malformed_error(name, where, what)


def _columns(
    names: list[str], name: str, options: ImportOptions, left_out: list[str]
) -> list[str]:
    read_columns = (*NAMING, *REQUIRED, *OPTIONAL)
    repeated = [column for column in names if names.count(column) > 1]
    if repeated:
        raise malformed_error(name, "line 1", f"column {shortened_repr(repeated[0])} is repeated")
    for column in (*NAMING, *REQUIRED):
        if column not in names and (column in REQUIRED or getattr(options, column) is None):
            more = f", or give --{column}" if column in NAMING else ""
            what = (
                f"there is no column {column!r} among {shortened_repr(','.join(names))}: name one in the "
                f"first line, with commas between names{more}{did_you_mean(column, names)}"
            )
            raise malformed_error(name, "line 1", what)
    left_out += [
        f"{name}, column {shortened_repr(column)}"
        for column in names
        if column not in read_columns
    ]
    return names


def _row(
    row: Mapping[str, str], name: str, where: str, options: ImportOptions, unit: StepUnit
) -> EpisodeRow:
    label = options.label or parse_name(row.get("label"), name, where, "label")
    task = options.task or parse_name(row.get("task"), name, where, "task")
    seed = row.get("seed")
    number = options.seed if seed is None else parse_whole_number(seed, name, where, "seed")
    assert number is not None
    length = row.get("length", "").strip()
    final = row.get("final", "").strip().lower()
    if final not in FINAL:
        raise malformed_error(name, where, f"final is {final!r}: write 1 or 0")
    return EpisodeRow(
        key=(label, task, number),
        step=unit.convert(parse_whole_number(row["step"], name, where, "step")),
        value=_return(row["return"], name, where),
        length=unit.convert(parse_whole_number(length, name, where, "length")) if length else None,
        final=FINAL[final],
    )


def _return(cell: str, name: str, where: str) -> float:
    if not cell.strip():
        what = "return is '', and not a number: write nan there, and its run counts as failed"
        raise malformed_error(name, where, what)
    return parse_number(cell, name, where, "return")


def _run(
    key: Key, rows: Sequence[EpisodeRow], loaded: LoadedFile, options: ImportOptions
) -> ImportedRun:
    label, task, seed = key
    by_point: dict[tuple[int, bool], list[EpisodeRow]] = {}
    for row in rows:
        by_point.setdefault((row.step, row.final), []).append(row)
    # False sorts before True: at one step the final evaluation comes last.
    points = tuple(_point(episodes) for _, episodes in sorted(by_point.items()))
    kept, trouble = until_not_finite(points)
    return ImportedRun(
        name=f"{label}/{task}/{seed}",
        label=label,
        task=task,
        seed=seed,
        points=kept,
        returns=options.returns or ReturnKind.EVALUATIONS,
        files=(loaded.sum,),
        trouble=trouble,
    )


def _point(rows: Sequence[EpisodeRow]) -> EvaluationPoint:
    lengths = tuple(row.length for row in rows if row.length is not None)
    return EvaluationPoint(
        step=rows[0].step,
        returns=tuple(row.value for row in rows),
        lengths=lengths if len(lengths) == len(rows) else (),
        final=rows[0].final,
    )
