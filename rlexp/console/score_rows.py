"""Prints one line for each label: its runs, its aggregate with interval, and a small chart of both.

Colours tell labels apart, and so do the names in front of every line.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console as RichConsole
from rich.text import Text as RichText

from rlexp.console.blocks import GAP, cell, paragraph
from rlexp.console.plots import IN_A_PIPE, label_styles
from rlexp.metrics.estimate_text import possible, short_footnotes
from rlexp.reports.drawing.axes import INTERVAL_PADDING, AxisScale, scale
from rlexp.reports.drawing.blocks import Axis, TableColumn
from rlexp.stats.interval import Interval
from rlexp.text import format_count, safe_for_terminal, shorten_middle

MOST_ROWS = 12
"""Most labels that are printed in the short form."""
NARROWEST_CHART, WIDEST_CHART = 16, 60
"""Columns of the chart."""
SHORTEST_LABEL = 12
"""Characters that a long label keeps beside a chart."""
TICK_WIDTH = 12
"""Columns of the chart for each tick."""
INTERVAL_SIGN, RUN_SIGN, ESTIMATE_SIGN = "━", "•", "●"
"""Marks of a chart; standard output spells them where its encoding lacks them."""
COLUMN = TableColumn(title="")
"""The column of the aggregates: an estimate brings its digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRow:
    """The scores of one label.

    Attributes:
        label: The label.
        runs: Number of runs with a score, of planned (`3 of 4`).
        estimate: The aggregate with its interval; None without a score.
        scores: Scores of single runs, of shape (n,); empty where there are many.
    """

    label: str
    runs: str
    estimate: Interval | None
    scores: Sequence[float] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRows:
    """The scores of labels on a common axis.

    Attributes:
        title: What is scored: the task, or the unit of an aggregate over tasks.
        statistic: The title of the aggregate (`IQM`).
        rows: A row for each label.
        labels: All labels in the order of their colours.
    """

    title: str
    statistic: str
    rows: Sequence[ScoreRow]
    labels: Sequence[str]


@dataclass(frozen=True, slots=True)
class Widths:
    """Columns of the parts of a row; a chart of 0 columns is left out."""

    label: int
    runs: int
    value: int
    chart: int


def show_scores(out: RichConsole, table: ScoreRows, all_of_them: str) -> None:
    """Print a line for each of the first labels, and what the marks mean.

    Args:
        out: Where to print; its width, and its colours decide on the form.
        table: The scores.
        all_of_them: The command that prints every label.
    """
    shown = table.rows[:MOST_ROWS]
    width = out.width if out.is_terminal else IN_A_PIPE
    values = ["—" if row.estimate is None else cell(row.estimate, COLUMN) for row in shown]
    widths = _widths(table, shown, values, width)
    axis = scale(Axis(title=""), _positions(shown), INTERVAL_PADDING) if widths.chart else None
    out.print(_header(table, widths, axis), soft_wrap=True)
    coloured = out.color_system is not None and not out.no_color
    styles = label_styles(table.labels, coloured=coloured)
    for row, value in zip(shown, values, strict=True):
        line = RichText(_cells(row.label, row.runs, value, widths))
        if axis is not None:
            chart = _chart(row, axis, widths.chart)
            line.append(" " * GAP).append(chart, styles[row.label].style)
        line.rstrip()
        out.print(line, soft_wrap=True)
    if len(table.rows) > len(shown):
        more = format_count(len(table.rows) - len(shown), "more label")
        paragraph(out, f"and {more}: {all_of_them}")
    for note in _notes(table, shown, chart=axis is not None):
        paragraph(out, note, "dim")


def _positions(rows: Sequence[ScoreRow]) -> list[float | None]:
    """The values that the axis must show."""
    estimates = [row.estimate for row in rows if row.estimate is not None]
    ends = [v for e in estimates for v in (e.estimate, e.low, e.high)]
    return [*ends, *(score for row in rows for score in row.scores)]


def _widths(
    table: ScoreRows, rows: Sequence[ScoreRow], values: Sequence[str], width: int
) -> Widths:
    """Columns that fit into `width`; a long label is shortened before the chart is left out."""
    runs = max(len("runs"), *(len(row.runs) for row in rows))
    value = max(cell_len(table.statistic), *map(cell_len, values))
    label = max(cell_len(table.title), *(cell_len(row.label) for row in rows))
    room = width - runs - value - 2 * GAP
    unscored = all(row.estimate is None for row in rows)
    # A long label is shortened as far as labels stay different.
    most = room - GAP - NARROWEST_CHART
    shortest = min(label, max(min(width // 3, most), SHORTEST_LABEL))
    beside_chart = next((n for n in range(shortest, most + 1) if not _alike(rows, n)), None)
    if unscored or beside_chart is None:
        return Widths(min(label, max(room, SHORTEST_LABEL)), runs, value, 0)
    return Widths(beside_chart, runs, value, min(room - GAP - beside_chart, WIDEST_CHART))


def _alike(rows: Sequence[ScoreRow], width: int) -> bool:
    """Whether two labels would look the same in this width."""
    return len({shorten_middle(row.label, width) for row in rows}) < len(rows)


def _cells(label: str, runs: str, value: str, widths: Widths) -> str:
    name = shorten_middle(safe_for_terminal(label, ""), widths.label)
    name += " " * (widths.label - cell_len(name))
    gap = " " * GAP
    return f"{name}{gap}{runs:<{widths.runs}}{gap}{value:<{widths.value}}"


def _header(table: ScoreRows, widths: Widths, axis: AxisScale | None) -> RichText:
    """The titles of the columns, and the ticks of the axis above the chart."""
    line = RichText(_cells(table.title, "runs", table.statistic, widths), "dim")
    if axis is not None:
        line.append(" " * GAP).append(_ticks(axis, widths.chart))
    line.rstrip()
    return line


def _ticks(axis: AxisScale, columns: int) -> str:
    text = " " * columns
    end = -1
    for tick in axis.ticks(max(columns // TICK_WIDTH, 2)):
        at = round(tick.at / 100 * (columns - 1)) - len(tick.text) // 2
        at = min(max(at, 0), columns - len(tick.text))
        # A text that would touch the one before it is left out.
        if at > end:
            text = text[:at] + tick.text + text[at + len(tick.text) :]
            end = at + len(tick.text)
    return text


def _chart(row: ScoreRow, axis: AxisScale, columns: int) -> str:
    """The interval of a label with its runs and its estimate, as characters."""
    drawn = [" "] * columns
    if row.estimate is None:
        return ""
    if possible(row.estimate):
        low, high = (_column(end, axis, columns) for end in (row.estimate.low, row.estimate.high))
        if low is not None and high is not None:
            drawn[low : high + 1] = INTERVAL_SIGN * (high + 1 - low)
    places = [(score, RUN_SIGN) for score in row.scores]
    for value, mark in (*places, (row.estimate.estimate, ESTIMATE_SIGN)):
        if (at := _column(value, axis, columns)) is not None:
            drawn[at] = mark
    return "".join(drawn)


def _column(value: float | None, axis: AxisScale, columns: int) -> int | None:
    at = axis.at(value)
    return None if at is None else min(max(round(at * (columns - 1)), 0), columns - 1)


def _notes(table: ScoreRows, rows: Sequence[ScoreRow], *, chart: bool) -> Sequence[str]:
    """The meaning of the marks, the method of the intervals, and what weakens them."""
    intervals = [row.estimate for row in rows if row.estimate is not None]
    footnotes = short_footnotes(intervals)
    if not chart:
        return footnotes
    legend = [f"{ESTIMATE_SIGN} {table.statistic}"]
    if any(row.scores for row in rows):
        legend.append(f"{RUN_SIGN} a run")
    if any(possible(interval) for interval in intervals):
        legend.append(f"{INTERVAL_SIGN} interval")
    return (f"{', '.join(legend)}.", *footnotes)
