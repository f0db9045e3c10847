"""Forest plots of the page: one row for each label, its interval as a bar, its runs as dots."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rlexp.metrics.estimate_text import digits_of, ends, full_text, has_too_few_runs, too_narrow
from rlexp.reports.drawing.axes import INTERVAL_PADDING, AxisScale, Tick, scale
from rlexp.reports.drawing.blocks import IntervalFigure, IntervalMark, Panel
from rlexp.reports.drawing.palette import Style
from rlexp.text import decimals_for_span, format_number, name_with_value

TICKS = 4
NARROW = 8
"""Characters of the longest name that fits into the narrowest panel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalRow:
    """One label in one panel. Positions are in per cent of the axis.

    Attributes:
        at: Position of the estimate; None if it is not finite.
        bar: Positions of the interval's ends; None without an interval.
    """

    label: str
    style: Style
    at: float | None
    bar: tuple[float, float] | None
    dots: Sequence[float]
    estimate: str
    ends: str
    tooltip: str
    too_narrow: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ForestPanel:
    """One panel; `ticks` is empty if there is no value to draw."""

    title: str
    axis: str
    rows: Sequence[IntervalRow]
    ticks: Sequence[Tick]
    marked: Sequence[tuple[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForestPlot:
    """A forest plot prepared for the page."""

    figure: IntervalFigure
    panels: Sequence[ForestPanel]

    @property
    def columns(self) -> int:
        """Number of panels in one row on a wide screen."""
        n = len(self.panels)
        long = any(len(row.label) > NARROW for panel in self.panels for row in panel.rows)
        if n > 3 and long:
            return 2 if n == 4 else 3
        return n if n <= 4 else 3 if n in {5, 6, 9} else 4

    @property
    def notes(self) -> tuple[str, ...]:
        """The figure's note, and the meaning of † if it is used."""
        narrow = any(row.too_narrow for panel in self.panels for row in panel.rows)
        note = (self.figure.note,) if self.figure.note else ()
        return (*note, "† Too narrow: expected coverage below 90 %.") if narrow else note


def forest_plot(figure: IntervalFigure, styles: Mapping[str, Style]) -> ForestPlot:
    """Prepare all panels, each with a separate axis."""
    return ForestPlot(figure=figure, panels=[_panel(panel, styles) for panel in figure.panels])


def _panel(panel: Panel, styles: Mapping[str, Style]) -> ForestPanel:
    marked = [value for _, value in panel.marked] if panel.marks else []
    drawn = scale(panel.axis, (*_values(panel), *marked), INTERVAL_PADDING)
    digits = decimals_for_span(drawn.high - drawn.low) if drawn else 2
    places = (
        (name_with_value(name, value), _percentage(drawn, value)) for name, value in panel.marked
    )
    return ForestPanel(
        title=panel.title,
        axis=panel.axis.title,
        rows=[_row(mark, styles[mark.label], drawn, digits) for mark in panel.marks],
        ticks=drawn.ticks(TICKS) if drawn else (),
        marked=[(name, at) for name, at in places if at is not None],
    )


def _values(panel: Panel) -> Iterator[float | None]:
    for mark in panel.marks:
        yield from (mark.interval.estimate, mark.interval.low, mark.interval.high, *mark.dots)


def _row(mark: IntervalMark, style: Style, drawn: AxisScale | None, digits: int) -> IntervalRow:
    interval = mark.interval
    shows_ends = interval.low is not None or has_too_few_runs(interval)
    low, high = _percentage(drawn, interval.low), _percentage(drawn, interval.high)
    places = (_percentage(drawn, dot) for dot in mark.dots)
    return IntervalRow(
        label=mark.label,
        style=style,
        at=_percentage(drawn, interval.estimate),
        bar=None if low is None or high is None else (low, high),
        dots=[at for at in places if at is not None],
        estimate=format_number(interval.estimate, digits_of(interval, digits)),
        ends=ends(interval, digits) if shows_ends else "no interval",
        tooltip=f"{mark.label}\n{full_text(interval, digits)}",
        too_narrow=too_narrow(interval),
    )


def _percentage(drawn: AxisScale | None, value: float | None) -> float | None:
    at = drawn.at(value) if drawn else None
    return None if at is None or not math.isfinite(at) else round(100 * at, 2)
