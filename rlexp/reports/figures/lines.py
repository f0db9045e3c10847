"""Line plots for print, one column wide: curves with bands, single runs, and marked heights."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

from rlexp.reports.drawing.axes import AxisScale, scale
from rlexp.reports.drawing.blocks import FigureLine, LineFigure
from rlexp.reports.drawing.palette import Style
from rlexp.reports.figures.canvas import (
    PALE,
    SINGLE_COLUMN,
    add_legend,
    axis_title,
    empty_figure,
    extra_height,
    label,
    legend_height,
    mark_empty,
    set_x,
    set_y,
    title,
)
from rlexp.text import name_with_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT, WIDTH = 2.15, 2.7
"""Inches: height of the axes with the title but without the legend, and width of the axes."""

TICKS = 5


def draw_lines(figure: LineFigure, styles: Mapping[str, Style]) -> "Figure":
    """Draw bands, single runs and aggregates from back to front, and the legend below the axes."""
    labels = list(dict.fromkeys(line.label for line in figure.lines))
    scales = line_scales(figure)
    if scales is None:
        return _nothing(figure)
    heading, below = title(figure.title, WIDTH), axis_title(figure.x.title, WIDTH)
    more = extra_height([heading]) + extra_height([below]) + legend_height(labels, SINGLE_COLUMN)
    drawn = empty_figure(SINGLE_COLUMN, HEIGHT + more)
    axes = drawn.add_subplot()
    axes.set_title(heading)
    set_x(axes, figure.x, scales[0], TICKS, WIDTH)
    set_y(axes, figure.y, scales[1], TICKS, HEIGHT - 0.6)
    axes.grid(visible=True, axis="y")
    draw_curves(axes, figure.lines, figure.marks, scales, styles)
    shown = [legend_line(styles[name]) for name in labels]
    add_legend(drawn, shown, labels, SINGLE_COLUMN)
    return drawn


def _nothing(figure: LineFigure) -> "Figure":
    drawn = empty_figure(SINGLE_COLUMN, HEIGHT / 2)
    axes = drawn.add_subplot()
    axes.set_title(title(figure.title, SINGLE_COLUMN))
    mark_empty(axes)
    return drawn


def line_scales(figure: LineFigure) -> tuple[AxisScale, AxisScale] | None:
    """The scales of both axes; `None` for a figure without a value."""
    points = [p for line in figure.lines for p in zip(line.x, line.y, strict=True)]
    shown = [(a, b) for a, b in points if b is not None]
    bands = chain.from_iterable((*(n.low or ()), *(n.high or ())) for n in figure.lines)
    marked = [value for _, value in figure.marks] if shown else []
    x = scale(figure.x, (a for a, _ in shown))
    y = scale(figure.y, [*(b for _, b in shown), *bands, *marked], padding=0.04)
    return None if x is None or y is None else (x, y)


def _placed(line: FigureLine, x: AxisScale, y: AxisScale) -> FigureLine:
    """The line with gaps for points outside the scales, such as zero on a logarithmic axis."""

    def placed(values: Sequence[float | None]) -> tuple[float | None, ...]:
        pairs = zip(line.x, values, strict=True)
        return tuple(None if x.at(a) is None or y.at(b) is None else b for a, b in pairs)

    return replace(
        line,
        y=placed(line.y),
        low=placed(line.low) if line.low is not None else None,
        high=placed(line.high) if line.high is not None else None,
    )


def draw_curves(
    axes: "Axes",
    given: Sequence[FigureLine],
    marks: Sequence[tuple[str, float]],
    scales: tuple[AxisScale, AxisScale],
    styles: Mapping[str, Style],
) -> None:
    """Draw lines and marked heights on axes with these scales."""
    lines = [_placed(line, *scales) for line in given]
    aggregates = [line for line in lines if not line.faint]
    for line in aggregates:
        _band(axes, line, styles[line.label])
    _marks(axes, [mark for mark in marks if scales[1].at(mark[1]) is not None])
    single = [line for line in lines if line.faint]
    _single_runs(axes, single, styles)
    for line in single:
        style = styles[line.label]
        _lone_points(axes, line, style.marker, {"color": style.light, "alpha": 0.45, "zorder": 3})
    for line in filter(_has_points, aggregates):
        look = _stroke(styles[line.label]) | {"clip_on": not _inside(line, *scales), "zorder": 4}
        axes.plot(line.x, _numbers(line.y), **look, **_form(line))
        _lone_points(axes, line, styles[line.label].marker, look)


def _band(axes: "Axes", line: FigureLine, style: Style) -> None:
    if line.low is None or line.high is None:
        return
    step: Any = "post" if line.steps else None
    low, high = _numbers(line.low), _numbers(line.high)
    axes.fill_between(
        line.x, low, high, color=style.light, alpha=0.16, linewidth=0, step=step, zorder=2
    )


def _single_runs(axes: "Axes", lines: Sequence[FigureLine], styles: Mapping[str, Style]) -> None:
    """Draw all runs of a label as one collection; the more runs, the paler each is."""
    from matplotlib.collections import LineCollection

    for name, members in groupby(lines, key=lambda line: line.label):
        paths = [list(zip(line.x, _numbers(line.y), strict=True)) for line in members]
        alpha = max(0.04, 0.45 / math.sqrt(len(paths)))
        # One collection is drawn much faster than a line for each run.
        collection = LineCollection(
            paths, colors=styles[name].light, alpha=alpha, linewidths=0.5, zorder=3
        )
        # The limits are set already, so Matplotlib need not compute them from the lines.
        axes.add_collection(collection, autolim=False)


def _has_points(line: FigureLine) -> bool:
    return any(v is not None for v in line.y)


def _inside(line: FigureLine, x: AxisScale, y: AxisScale) -> bool:
    """Whether nothing leaves the axes; then a line on their edge is drawn in full width."""
    positions = (*map(x.at, line.x), *map(y.at, line.y))
    return all(0 <= position <= 1 for position in positions if position is not None)


def _lone_points(axes: "Axes", line: FigureLine, marker: str, look: dict[str, Any]) -> None:
    """Draw points between two gaps, which a line would not show."""
    points = list(_alone(line))
    if points:
        axes.plot(
            *zip(*points, strict=True), **look | {"linestyle": "", "marker": marker, "ms": 3}
        )


def _alone(line: FigureLine) -> Iterator[tuple[float, float]]:
    # The gap at both ends lets the first and the last point be alone as well.
    y = [math.nan, *_numbers(line.y), math.nan]
    for k, at in enumerate(line.x, start=1):
        if math.isfinite(y[k]) and not math.isfinite(y[k - 1]) and not math.isfinite(y[k + 1]):
            yield at, y[k]


def _marks(axes: "Axes", marks: Sequence[tuple[str, float]]) -> None:
    for name, value in marks:
        axes.axhline(value, color=PALE, linewidth=0.7, dashes=(4, 3), zorder=1.5)
        axes.annotate(
            label(name_with_value(name, value)),
            (0, value),
            xycoords=("axes fraction", "data"),
            xytext=(3, 1.5),
            textcoords="offset points",
            color=PALE,
            fontsize=7,
            annotation_clip=True,
        )


def _form(line: FigureLine) -> dict[str, Any]:
    return {"drawstyle": "steps-post"} if line.steps else {}


def _stroke(style: Style) -> dict[str, Any]:
    return {"color": style.light, "linestyle": (0, style.dash) if style.dash else "solid"}


def legend_line(style: Style) -> Any:
    """The legend entry of a line."""
    from matplotlib.lines import Line2D

    return Line2D([], [], **_stroke(style))


def _numbers(values: Sequence[float | None]) -> list[float]:
    return [math.nan if v is None or not math.isfinite(v) else float(v) for v in values]
