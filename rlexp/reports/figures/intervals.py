"""Forest plots for print: panels side by side, one row for each label, its runs as dots."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlexp.metrics.estimate_text import possible, too_narrow
from rlexp.reports.drawing.axes import AxisScale, scale
from rlexp.reports.drawing.blocks import IntervalFigure, IntervalMark, Panel
from rlexp.reports.drawing.palette import Style
from rlexp.reports.figures.canvas import (
    DOUBLE_COLUMN,
    INK,
    LETTER,
    PALE,
    SINGLE_COLUMN,
    axis_title,
    empty_figure,
    extra_height,
    fit_text,
    label,
    mark_empty,
    set_x,
    title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_COLUMNS = 4
ROW, FRAME = 0.24, 0.72
"""Inches: height of a row, and of a panel's title, ticks and axis together."""

TICKS = 4


def draw_intervals(figure: IntervalFigure, styles: Mapping[str, Style]) -> "Figure":
    """Draw the panels, all with the same rows: one column wide for one panel, else two columns."""
    labels = list(dict.fromkeys(m.label for panel in figure.panels for m in panel.marks))
    columns = _columns(len(figure.panels))
    rows = max(1, -(-len(figure.panels) // columns))
    top = -0.95 if any(panel.marked for panel in figure.panels) else -0.6
    width = SINGLE_COLUMN if columns == 1 else DOUBLE_COLUMN
    names = 0.2 + LETTER * max((len(label(name)) for name in labels), default=0)
    room = (width - names) / columns - 0.15
    titles = [title(panel.title, room) for panel in figure.panels]
    below = [axis_title(panel.axis.title, room) for panel in figure.panels]
    frame = FRAME + extra_height(titles) + extra_height(below)
    drawn = empty_figure(width, rows * (frame + ROW * max(1, len(labels))))
    for number, panel in enumerate(figure.panels):
        axes = drawn.add_subplot(rows, columns, number + 1)
        axes.set_title(titles[number])
        _draw(axes, panel, labels, top, room, styles)
        if number % columns:
            axes.tick_params(labelleft=False)
    if not figure.panels:
        axes = drawn.add_subplot()
        axes.set_title(title(figure.title, width))
        mark_empty(axes)
    return drawn


def _columns(panels: int) -> int:
    if panels <= MOST_COLUMNS:
        return max(1, panels)
    return 3 if panels in {5, 6, 9} else MOST_COLUMNS


def _draw(
    axes: "Axes",
    panel: Panel,
    labels: Sequence[str],
    top: float,
    width: float,
    styles: Mapping[str, Style],
) -> None:
    shown = scale(panel.axis, _values(panel), padding=0.06)
    if shown is None:
        mark_empty(axes)
        return
    set_x(axes, panel.axis, shown, TICKS, width)
    axes.set_ylim(len(labels) - 0.4, top)
    axes.set_yticks(range(len(labels)), labels=[label(name) for name in labels])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=True, axis="x")
    _marked(axes, [mark for mark in panel.marked if _inside(mark[1], shown)], top, shown)
    for mark in panel.marks:
        _mark(axes, mark, labels.index(mark.label), shown, styles[mark.label])


def _values(panel: Panel) -> list[float | None]:
    values: list[float | None] = [value for _, value in panel.marked] if panel.marks else []
    for mark in panel.marks:
        values += [mark.interval.estimate, mark.interval.low, mark.interval.high, *mark.dots]
    return values


def _mark(axes: "Axes", mark: IntervalMark, row: int, shown: AxisScale, style: Style) -> None:
    interval, colour = mark.interval, style.light
    _dots(axes, [dot for dot in mark.dots if _inside(dot, shown)], row + 0.26, colour)
    if shown.at(interval.estimate) is None:
        return
    if interval.low is not None and interval.high is not None:
        ends = [max(shown.low, interval.low), min(shown.high, interval.high)]
        axes.plot(ends, [row, row], color=colour, linewidth=1.5, solid_capstyle="butt")
    fill = colour if possible(interval) else "white"
    axes.plot(interval.estimate, row, style.marker, color=colour, mfc=fill, ms=4.5, mew=1.1)
    _sign(axes, mark, row, shown)


def _inside(value: float, shown: AxisScale) -> bool:
    position = shown.at(value)
    return position is not None and 0 <= position <= 1


def _dots(axes: "Axes", dots: Sequence[float], row: float, colour: str) -> None:
    # Matplotlib's layout would count an empty unclipped line as a point at the page's corner.
    if dots:
        alpha = max(0.15, 0.7 / len(dots) ** 0.25)
        look: Any = {"color": colour, "ms": 2.2, "mew": 0, "alpha": alpha, "clip_on": False}
        axes.plot(dots, [row] * len(dots), "o", **look)


def _sign(axes: "Axes", mark: IntervalMark, row: int, shown: AxisScale) -> None:
    """Write † or ‡ (explained in the caption) beside the end of the interval."""
    interval = mark.interval
    sign = ("†" if too_narrow(interval) else "") if possible(interval) else "‡"
    if not sign:
        return
    end = interval.high if interval.high is not None else interval.estimate
    at = min(shown.high, end)
    offset = (2, 0) if possible(interval) else (5, 0)
    axes.annotate(
        sign, (at, row), xytext=offset, textcoords="offset points", color=INK, fontsize=7
    )


def _marked(
    axes: "Axes", marked: Sequence[tuple[str, float]], top: float, shown: AxisScale
) -> None:
    for name, value in marked:
        axes.axvline(value, color=PALE, linewidth=0.7, dashes=(4, 3), zorder=1.5)
        far = (shown.at(value) or 0.0) > 0.6
        axes.annotate(
            fit_text(name, 16),
            (value, top),
            xytext=(-2 if far else 2, -1),
            textcoords="offset points",
            ha="right" if far else "left",
            va="top",
            color=PALE,
            fontsize=7,
        )
