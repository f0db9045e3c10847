"""Importer of CSV tables: `label,task,seed,step,return`, a row for each evaluation episode.

Columns may have other names (`--column step=timesteps_total`). Columns that are no field of a row
are parameters, by which rows can be chosen and labelled.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO

from rlexp.errors import ConfigError, did_you_mean
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
from rlexp.exchange.importers.naming import RunFacts, RunIdentity, RunNaming
from rlexp.exchange.importers.parse_values import (
    parse_name,
    parse_number,
    parse_whole_number,
    shortened_repr,
)
from rlexp.exchange.importers.series import guess_kind, names_returns
from rlexp.exchange.importers.sources import LoadedFile, SourceFile, unused_files
from rlexp.text import format_count

REQUIRED = ("step", "return")
NAMING = ("label", "task", "seed")
"""Fields that an option may replace with one value for every row."""
OPTIONAL = ("length", "final")
FIELDS = (*NAMING, *REQUIRED, *OPTIONAL)
"""Every field of a row; its column has the same name, or the one that `--column` gives."""
FINAL: Mapping[str, bool] = {"": False, "0": False, "false": False, "1": True, "true": True}
"""Allowed values of the column `final`."""
PROGRESS_MARK = "training_iteration"
"""The column of Ray's tables of progress, which hold NaN until the first episode has ended."""
LONGEST_CELL = 1000
LONGEST_HEAD = 1 << 16
"""Bytes of a file in which the line with the column names must end."""


@dataclass(frozen=True, slots=True)
class EpisodeRow:
    """One episode with the identity of its run."""

    identity: RunIdentity
    step: int
    value: float
    length: int | None
    final: bool


@dataclass(slots=True)
class CsvTable:
    """A table that is read.

    Attributes:
        loaded: The file.
        options: The user's options.
        naming: Names the runs of all tables.
        fields: The column of each field that the table has, by position.
        parameters: The position of every other column, by name.
        from_first_number: Whether rows before the first return that is a number are left out,
            because no episode had ended there.
        empty: Number of rows without a value in the column of returns.
    """

    loaded: LoadedFile
    options: ImportOptions
    naming: RunNaming
    fields: dict[str, int] = field(default_factory=dict)
    parameters: dict[str, int] = field(default_factory=dict)
    from_first_number: bool = False
    empty: int = 0
    _unit: StepUnit | None = None
    _identities: dict[tuple[str, ...], RunIdentity | None] = field(default_factory=dict)

    def rows(self) -> Iterator[EpisodeRow]:
        """Yield the rows that satisfy the conditions.

        Raises:
            MalformedError: The table has another form; the message names the line.
            ConfigError: The user does not give the unit of steps.
        """
        # csv itself must see the line breaks inside of quotes. Only `strict` makes it refuse
        # malformed quotes.
        reader = csv.reader(StringIO(self.loaded.text(), newline=""), strict=True)
        width = 0
        try:
            for cells in reader:
                where = f"line {reader.line_num}"
                if not width:
                    width = len(cells)
                    self._read_columns(_names(cells))
                elif cells:
                    _check_width(cells, width, self.loaded.name, where)
                    if (row := self._row(cells, where)) is not None:
                        yield row
        except csv.Error as error:
            raise malformed_error(
                self.loaded.name, f"line {reader.line_num}", str(error)
            ) from error
        if not width:
            raise malformed_error(
                self.loaded.name, "line 1", "the first line with the column names is missing"
            )

    def left_out(self) -> Iterator[str]:
        """Yield the columns that no field, label or condition needs, and the rows left out."""
        options = self.options
        keys = {*options.label_from, *(condition.name for condition in options.where)}
        keys |= {key for key in (options.task_from, options.seed_from) if key is not None}
        further = [column for column in self.parameters if column not in keys]
        if options.columns and further:
            yield f"{self.loaded.name}, {format_count(len(further), 'further column')}"
        elif further:
            yield from (f"{self.loaded.name}, column {shortened_repr(c)}" for c in further)
        if self.empty:
            rows = format_count(self.empty, "row")
            yield f"{self.loaded.name}, {rows} without a value in {options.columns['return']}"

    def _read_columns(self, names: Sequence[str]) -> None:
        lowered = [name.lower() for name in names]
        repeated = [column for column in lowered if lowered.count(column) > 1]
        if repeated:
            what = f"column {shortened_repr(repeated[0])} is repeated"
            raise malformed_error(self.loaded.name, "line 1", what)
        self.fields = _field_positions(lowered, self.loaded.name, self.options)
        taken = set(self.fields.values())
        self.parameters = {name: at for at, name in enumerate(names) if at not in taken}

    def _row(self, cells: Sequence[str], where: str) -> EpisodeRow | None:
        """The row; None if the conditions leave it out, or it has no value."""
        name = self.loaded.name
        row = {key: _checked_cell(cells[at], key, name, where) for key, at in self.fields.items()}
        identity = self._identity(row, cells, where)
        if identity is None or self._lacks_value(row):
            return None
        self._unit = unit = self._unit or self.options.required_unit("csv")
        length = row.get("length", "").strip()
        final = row.get("final", "").strip().lower()
        if final not in FINAL:
            raise malformed_error(name, where, f"final is {final!r}: write 1 or 0")
        return EpisodeRow(
            identity=identity,
            step=unit.convert(parse_whole_number(row["step"], name, where, "step")),
            value=_return(row["return"], name, where),
            length=unit.convert(parse_whole_number(length, name, where, "length"))
            if length
            else None,
            final=FINAL[final],
        )

    def _lacks_value(self, row: Mapping[str, str]) -> bool:
        # A logger writes a row for every event. Rows without a value of this series are no
        # mistake there, but they are one in a table of episodes.
        text = row["return"].strip()
        is_empty = "return" in self.options.columns and not text
        is_empty |= self.from_first_number and text.lower() in {"", "nan"}
        self.from_first_number &= is_empty
        self.empty += is_empty
        return is_empty

    def _identity(
        self, row: Mapping[str, str], cells: Sequence[str], where: str
    ) -> RunIdentity | None:
        # Most rows repeat the parameters of the row before, and naming a run takes long.
        key = (*(row.get(name, "") for name in NAMING), *(cells[at] for at in self._needed()))
        if key not in self._identities:
            self._identities[key] = self.naming.identify(self._facts(row, cells, where))
        return self._identities[key]

    def _needed(self) -> list[int]:
        options = self.options
        if not (options.where or options.label_from or options.task_from or options.seed_from):
            return []
        return list(self.parameters.values())

    def _facts(self, row: Mapping[str, str], cells: Sequence[str], where: str) -> RunFacts:
        name, options = self.loaded.name, self.options
        named = {key: row[key] for key in ("label", "task") if key in row}
        for key, text in named.items():
            if getattr(options, key) is None:
                parse_name(text, name, where, key)
        seed = row.get("seed")
        return RunFacts(
            name=name,
            source=name,
            paths=(name,),
            parameters={column: cells[at].strip() for column, at in self.parameters.items()},
            label=named.get("label", "").strip() or None,
            task=named.get("task", "").strip() or None,
            seed=options.seed if seed is None else parse_whole_number(seed, name, where, "seed"),
            where=where,
        )


def fits(files: Sequence[SourceFile]) -> bool:
    """Whether there is a table whose first line names the columns."""
    return any(_is_table(file) for file in files)


def read_csv(files: Sequence[SourceFile], options: ImportOptions) -> ImportedStudy:
    """Read runs: all rows of a label, task and seed, in any order, are one run.

    Raises:
        MalformedError: A table has another form; the message names the line.
        ConfigError: The user does not give the unit of steps, or the conditions leave no row.
    """
    used = [file for file in files if file.last.endswith(".csv")]
    left_out = unused_files(files, used)
    naming = RunNaming(options)
    runs: list[ImportedRun] = []
    for file in used:
        is_progress = "return" in options.columns and PROGRESS_MARK in column_names(file)
        table = CsvTable(file.load(), options, naming, from_first_number=is_progress)
        found_runs = read_table(table)
        if not found_runs and not naming.refused:
            raise malformed_error(file.name, "", "it has no row")
        runs += found_runs
        left_out += table.left_out()
    naming.check()
    left_out += naming.left_out()
    return ImportedStudy(kind="csv", runs=tuple(runs), left_out=tuple(left_out))


def read_table(table: CsvTable) -> list[ImportedRun]:
    """The runs of a table.

    Raises:
        MalformedError: The table has another form; the message names the line.
        ConfigError: The user does not give the unit of steps.
    """
    rows: dict[tuple[str, str, int | None], list[EpisodeRow]] = {}
    for row in table.rows():
        identity = row.identity
        rows.setdefault((identity.label, identity.task, identity.seed), []).append(row)
    return [_run(members, table) for members in rows.values()]


def parse_columns(texts: Sequence[str]) -> dict[str, str]:
    """Parse the texts of `--column`, such as `step=timesteps_total`.

    Raises:
        ConfigError: A text has another form, or names an unknown or a repeated field.
    """
    columns: dict[str, str] = {}
    for text in texts:
        name, _, column = text.partition("=")
        name, column = name.strip(), column.strip()
        if not column or name not in FIELDS:
            hint = did_you_mean(name, FIELDS) if column else ""
            raise ConfigError(
                f"--column {text!r}: write FIELD=COLUMN{hint}, where FIELD is one of "
                f"{', '.join(FIELDS)}"
            )
        if name in columns:
            raise ConfigError(f"--column {name}=… is given twice: give it once")
        columns[name] = column
    return columns


def column_names(file: SourceFile) -> list[str]:
    """The names in the first line of a table."""
    head = file.begins(LONGEST_HEAD).decode("utf-8-sig", errors="replace").partition("\n")[0]
    return [name.lower() for name in _names(head.strip().split(","))]


def _is_table(file: SourceFile) -> bool:
    return file.last.endswith(".csv") and set(REQUIRED) <= set(column_names(file))


def _names(cells: Sequence[str]) -> list[str]:
    return [cell.strip().strip('"') for cell in cells]


def _check_width(cells: Sequence[str], width: int, name: str, where: str) -> None:
    if len(cells) != width:
        what = f"it has {len(cells)} cells, but the table has {width} columns"
        raise malformed_error(name, where, what)


def _checked_cell(cell: str, column: str, name: str, where: str) -> str:
    if len(cell) > LONGEST_CELL:
        what = f"{column} has {len(cell):,} characters; at most {LONGEST_CELL:,} are allowed"
        raise malformed_error(name, where, what)
    return cell


def _field_positions(names: Sequence[str], name: str, options: ImportOptions) -> dict[str, int]:
    positions = {}
    for key in FIELDS:
        column = options.columns.get(key, key).lower()
        if column in names:
            positions[key] = names.index(column)
        elif key in options.columns or (key not in OPTIONAL and not _is_given(key, options)):
            raise _missing_column(key, column, names, name)
    return positions


def _is_given(key: str, options: ImportOptions) -> bool:
    """Whether an option gives a field of every row."""
    if key in REQUIRED:
        return False
    in_path = options.path is not None and f"{{{key}}}" in options.path.text
    from_one = getattr(options, f"{key}_from") is not None if key != "label" else False
    given = getattr(options, key) is not None or in_path or from_one
    return given or bool(key == "label" and options.label_from)


def _missing_column(key: str, column: str, names: Sequence[str], name: str) -> Exception:
    listed = shortened_repr(",".join(names))
    hint = did_you_mean(column, names)
    what = f"there is no column {column!r} among {listed}{hint}"
    naming = f", or give --{key}" if key in NAMING else ""
    advice = f"name one in the first line, or give --column {key}=COLUMN{naming}"
    return malformed_error(name, "line 1", f"{what}: {advice}")


def _return(cell: str, name: str, where: str) -> float:
    if not cell.strip():
        what = "return is '', and not a number: write nan there, and its run counts as failed"
        raise malformed_error(name, where, what)
    return parse_number(cell, name, where, "return")


def _run(rows: Sequence[EpisodeRow], table: CsvTable) -> ImportedRun:
    identity, options = rows[0].identity, table.options
    by_point: dict[tuple[int, bool], list[EpisodeRow]] = {}
    for row in rows:
        by_point.setdefault((row.step, row.final), []).append(row)
    # False sorts before True: at one step the final evaluation comes last.
    points = tuple(_point(episodes) for _, episodes in sorted(by_point.items()))
    kept, trouble = until_not_finite(points)
    column = options.columns.get("return", "return")
    seed = "" if identity.seed is None else f"/{identity.seed}"
    return ImportedRun(
        name=f"{identity.label}/{identity.task}{seed}",
        label=identity.label,
        task=identity.task,
        seed=identity.seed,
        points=kept,
        returns=options.returns or _kind_of_returns(column),
        files=(table.loaded.sum,),
        settings=identity.settings,
        trouble=trouble,
        metric=None if names_returns(column) else column,
    )


def _kind_of_returns(column: str) -> ReturnKind:
    """The kind of the values of a column; those of a logger are means of some episodes."""
    return ReturnKind.EVALUATIONS if column.lower() == "return" else guess_kind(column)


def _point(rows: Sequence[EpisodeRow]) -> EvaluationPoint:
    lengths = tuple(row.length for row in rows if row.length is not None)
    return EvaluationPoint(
        step=rows[0].step,
        returns=tuple(row.value for row in rows),
        lengths=lengths if len(lengths) == len(rows) else (),
        final=rows[0].final,
    )
