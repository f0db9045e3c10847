"""A small table in place of a figure, for formats in which the figure is not drawn."""

import math
from collections.abc import Iterable, Sequence

from rlexp.reports.drawing.blocks import (
    Coordinate,
    Figure,
    FigureLine,
    HeatMap,
    IntervalFigure,
    LineFigure,
    Matrix,
    ParallelFigure,
    PointSeries,
    ScatterFigure,
    Table,
    TableColumn,
    TrialLine,
    Value,
)
from rlexp.reports.drawing.point_layout import choice
from rlexp.text import decimals_for_span, format_number

Content = tuple[tuple[TableColumn, ...], tuple[tuple[Value, ...], ...]]


def summary_table(figure: Figure) -> Table:
    """A table that summarises a figure, with the figure's name, title and note.

    Its rows contain: the last value of each curve (of single runs only if there is no aggregate);
    every estimate of panels and matrices with its interval; the number and range of points in a
    scatter plot; the marked trials of parallel coordinates, else those with the highest and
    the lowest value; the estimate of every cell of a heat map.
    """
    match figure:
        case LineFigure():
            columns, rows = _lines(figure)
        case IntervalFigure():
            columns, rows = _intervals(figure)
        case Matrix():
            columns, rows = _matrix(figure)
        case HeatMap():
            columns, rows = _heat_map(figure)
        case ScatterFigure():
            columns, rows = _scatter(figure)
        case ParallelFigure():
            columns, rows = _parallel(figure)
    return Table(
        name=figure.name, title=figure.title, columns=columns, rows=rows, note=figure.note
    )


def _lines(figure: LineFigure) -> Content:
    aggregates = [line for line in figure.lines if not line.faint]
    shown = aggregates or list(figure.lines)
    rows = [_last(line) for line in shown]
    x, y = (_digits(v for row in rows for v in row[part]) for part in (slice(1, 2), slice(2, 5)))
    every = (
        TableColumn(title="label", label=True),
        TableColumn(title=figure.x.title, digits=x),
        *(TableColumn(title=title, digits=y) for title in (figure.y.title, "low", "high")),
    )
    kept = [k for k in range(5) if k < 3 or any(row[k] is not None for row in rows)]
    return tuple(every[k] for k in kept), tuple(tuple(row[k] for k in kept) for row in rows)


def _last(line: FigureLine) -> tuple[Value, ...]:
    for k in reversed(range(len(line.x))):
        if line.y[k] is not None:
            low, high = (band[k] if band else None for band in (line.low, line.high))
            return line.label, line.x[k], line.y[k], low, high
    return line.label, None, None, None, None


def _intervals(figure: IntervalFigure) -> Content:
    labels = dict.fromkeys(mark.label for panel in figure.panels for mark in panel.marks)
    intervals = [{mark.label: mark.interval for mark in panel.marks} for panel in figure.panels]
    columns = [
        TableColumn(
            title=panel.title, digits=_digits(i.estimate for i in panel_intervals.values())
        )
        for panel, panel_intervals in zip(figure.panels, intervals, strict=True)
    ]
    rows = tuple(
        (label, *(panel_intervals.get(label) for panel_intervals in intervals)) for label in labels
    )
    return (TableColumn(title="label", label=True), *columns), rows


def _matrix(figure: Matrix) -> Content:
    columns = (TableColumn(title=label, label=True) for label in figure.labels)
    pairs = zip(figure.labels, figure.values, strict=True)
    return (TableColumn(title="", label=True), *columns), tuple(
        (label, *values) for label, values in pairs
    )


def _heat_map(figure: HeatMap) -> Content:
    """Estimates without intervals, because a heat map has too many columns for intervals."""
    estimates = [[value and value.estimate for value in row] for row in figure.values]
    digits = _digits(value for row in estimates for value in row)
    columns = (TableColumn(title=name, digits=digits) for name in figure.columns)
    # Rows of a heat map count from the bottom, those of a table from the top.
    pairs = reversed(list(zip(figure.rows, estimates, strict=True)))
    corner = TableColumn(title=f"{figure.y} \\ {figure.x}")
    return (corner, *columns), tuple((name, *row) for name, row in pairs)


def _scatter(figure: ScatterFigure) -> Content:
    parts: tuple[PointSeries | FigureLine, ...] = (*figure.clouds, *figure.lines)
    rows = tuple(map(_extent, parts))
    digits = _digits(value for row in rows for value in row[2:])
    columns = (
        TableColumn(title="label", label=True),
        TableColumn(title="points", digits=0),
        TableColumn(title=f"least {figure.y.title}", digits=digits),
        TableColumn(title=f"greatest {figure.y.title}", digits=digits),
    )
    return columns, rows


def _extent(part: PointSeries | FigureLine) -> tuple[Value, ...]:
    heights = [v for v in part.y if v is not None and math.isfinite(v)]
    return part.label, len(heights), min(heights, default=None), max(heights, default=None)


def _parallel(figure: ParallelFigure) -> Content:
    """One column for each trial shown: there are few trials and many coordinates."""
    shown = _shown_trials(figure.threads)
    columns = (TableColumn(title=""), *(TableColumn(title=thread.name) for thread in shown))
    values = (figure.colour.title, *(_number_text(thread.value) for thread in shown))
    rows = (
        (c.title, *(_chosen(c, thread.values[k]) for thread in shown))
        for k, c in enumerate(figure.coordinates)
    )
    return columns, (values, *rows) if shown else ()


def _shown_trials(threads: Sequence[TrialLine]) -> list[TrialLine]:
    marked = [thread for thread in threads if thread.marked]
    valued = [t for t in threads if t.value is not None and math.isfinite(t.value)]
    if marked or not valued:
        return marked
    ranked = sorted(valued, key=lambda t: (-(t.value or 0.0), t.name))
    return [ranked[0], ranked[-1]] if len(ranked) > 1 else ranked


def _chosen(coordinate: Coordinate, value: float | None) -> str | None:
    chosen = choice(coordinate, value)
    return chosen if isinstance(chosen, str) else _number_text(chosen)


def _number_text(value: float | None) -> str | None:
    """A number with four significant digits: coordinates differ by orders of magnitude."""
    if value is None or not math.isfinite(value) or abs(value) >= 1e4:
        return None if value is None else format_number(value, 0)
    return f"{value:.4g}".replace("-", "−")


def _digits(values: Iterable[Value]) -> int:
    numbers = [v for v in values if isinstance(v, int | float) and math.isfinite(v)]
    most = max(map(abs, numbers), default=0.0)
    return 0 if all(v == round(v) for v in numbers) else decimals_for_span(most / 10)
