"""Every table and figure of a report as CSV (RFC 4180) with full precision."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from rlexp.metrics.estimate import Estimate
from rlexp.reports.drawing.blocks import (
    Figure,
    FigureLine,
    HeatMap,
    IntervalFigure,
    LineFigure,
    Matrix,
    ParallelFigure,
    ReportDocument,
    ScatterFigure,
    Table,
    Value,
)
from rlexp.reports.drawing.file_names import drawn_blocks, file_stems
from rlexp.reports.drawing.point_layout import choice, tick_name
from rlexp.stats.interval import Interval

CsvRow = Sequence[Value]

INTERVAL = tuple(field.name for field in fields(Estimate))
"""Columns of an interval: estimate, low, high, level, method, repetitions, n, tasks, seed, …

The last three exist for estimates only: digits, sizes (runs of each task), and runs.
"""

EXECUTED = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""Beginnings of a cell that a spreadsheet may execute as a formula."""


def render(study: ReportDocument) -> Mapping[str, bytes]:
    """One file for each table and figure, `NAME.csv`.

    Lines end in CRLF and the encoding is UTF-8. A missing value is an empty cell, a non-finite
    number is `nan` or `inf`. A text that a spreadsheet would execute gets an apostrophe in front.
    """
    stems = file_stems(study)
    return {f"{stems[b.name]}.csv": to_csv(csv_rows(b)) for b in drawn_blocks(study)}


def csv_rows(block: Table | Figure) -> Iterator[CsvRow]:  # noqa: PLR0911
    """The header of a table or figure, then its rows."""
    match block:
        case Table():
            return _table(block)
        case LineFigure():
            return _lines(block)
        case IntervalFigure():
            return _intervals(block)
        case Matrix():
            return _matrix(block)
        case HeatMap():
            return _heat_map(block)
        case ScatterFigure():
            return _scatter(block)
        case ParallelFigure():
            return _parallel(block)


def to_csv(rows: Iterator[CsvRow]) -> bytes:
    """Rows as CSV."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue().encode(errors="replace")


def _cell(value: Value | tuple[Any, ...]) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str():
            return f"'{value}" if value.startswith(EXECUTED) else value
        case float():
            # `repr` is the shortest text with full precision; NumPy's own would name its type.
            return repr(float(value))
        case tuple():
            # Runs of a task are separated by a space, tasks by a semicolon.
            nested = value and isinstance(value[0], tuple)
            return ("; " if nested else " ").join(map(_cell, value))
        case _:
            return str(value)


def _interval_cells(interval: Interval | None) -> CsvRow:
    return [getattr(interval, name, None) if interval else None for name in INTERVAL]


def _table(table: Table) -> Iterator[CsvRow]:
    wide = [any(isinstance(row[k], Interval) for row in table.rows) for k in _column_range(table)]
    titles = [column.title for column in table.columns]
    yield [
        name
        for title, w in zip(titles, wide, strict=True)
        for name in ([f"{title} {field}" for field in INTERVAL] if w else [title])
    ]
    for row in table.rows:
        yield [v for value, w in zip(row, wide, strict=True) for v in _cells_of(value, w)]


def _column_range(table: Table) -> range:
    return range(len(table.columns))


def _cells_of(value: Value, wide: bool) -> CsvRow:
    if isinstance(value, Interval):
        return _interval_cells(value)
    return [value, *[None] * (len(INTERVAL) - 1)] if wide else [value]


def _lines(figure: LineFigure) -> Iterator[CsvRow]:
    """One row for each point; `line` numbers the lines, as a label has many single runs."""
    yield ["kind", "label", "line", "x", "y", "low", "high"]
    for number, line in enumerate(figure.lines):
        kind = "run" if line.faint else "aggregate"
        for point in _points(line):
            yield [kind, line.label, number, *point]
    for name, y in figure.marks:
        yield ["mark", name, None, None, y, None, None]


def _points(line: FigureLine) -> Iterator[CsvRow]:
    nothing = (None,) * len(line.x)
    return zip(line.x, line.y, line.low or nothing, line.high or nothing, strict=True)


def _intervals(figure: IntervalFigure) -> Iterator[CsvRow]:
    """One row for each interval, run (its score is the estimate) and marked value."""
    yield ["kind", "panel", "label", *INTERVAL]
    empty = [None] * (len(INTERVAL) - 1)
    for panel in figure.panels:
        for mark in panel.marks:
            yield ["interval", panel.title, mark.label, *_interval_cells(mark.interval)]
            for score in mark.dots:
                yield ["run", panel.title, mark.label, score, *empty]
        for name, value in panel.marked:
            yield ["mark", panel.title, name, value, *empty]


def _matrix(figure: Matrix) -> Iterator[CsvRow]:
    """One row for each pair of labels."""
    yield ["row", "column", *INTERVAL]
    for label, values in zip(figure.labels, figure.values, strict=True):
        for other, value in zip(figure.labels, values, strict=True):
            if value is not None:
                yield [label, other, *_interval_cells(value)]


def _heat_map(figure: HeatMap) -> Iterator[CsvRow]:
    """One row for each cell with a value."""
    yield ["label", figure.x, figure.y, *INTERVAL]
    for row, values in zip(figure.rows, figure.values, strict=True):
        for column, value in zip(figure.columns, values, strict=True):
            if value is not None:
                yield [figure.label, column, row, *_interval_cells(value)]


def _scatter(figure: ScatterFigure) -> Iterator[CsvRow]:
    """One row for each point and mark; a named tick replaces its number."""
    yield ["kind", "label", "name", "x", "y", "low", "high"]
    for cloud in figure.clouds:
        for x, y, name in zip(cloud.x, cloud.y, cloud.names, strict=True):
            yield ["point", cloud.label, name, _named_tick(figure, x), y, None, None]
    for line in figure.lines:
        for at, *heights in _points(line):
            yield ["line", line.label, None, _named_tick(figure, at), *heights]
    for name, y in figure.marks:
        yield ["mark", name, None, None, y, None, None]


def _named_tick(figure: ScatterFigure, x: Value) -> Value:
    return tick_name(figure, x) or x if isinstance(x, float) else x


def _parallel(figure: ParallelFigure) -> Iterator[CsvRow]:
    """One row for each trial; categorical values are written as names."""
    titles = [coordinate.title for coordinate in figure.coordinates]
    yield ["name", "marked", figure.colour.title, *titles]
    for thread in figure.threads:
        pairs = zip(figure.coordinates, thread.values, strict=True)
        yield [thread.name, thread.marked, thread.value, *(choice(c, v) for c, v in pairs)]
