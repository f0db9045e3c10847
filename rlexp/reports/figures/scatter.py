"""Scatter plots for print, one column wide: points, with curves and marked heights behind them."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlexp.reports.drawing.blocks import ScatterFigure
from rlexp.reports.drawing.palette import Style
from rlexp.reports.drawing.point_layout import PlacedPoint, ScatterLayout, scatter_layout
from rlexp.reports.figures.canvas import (
    LETTER,
    SINGLE_COLUMN,
    add_legend,
    axis_title,
    empty_figure,
    extra_height,
    fit_text,
    legend_height,
    mark_empty,
    set_x,
    set_y,
    title,
)
from rlexp.reports.figures.lines import draw_curves, legend_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT, WIDTH = 2.15, 2.7
"""Inches: height of the axes with the title but without the legend, and width of the axes."""

TICKS = 5
LONGEST_NAME = 16
TURNED = 40
"""Degrees by which tick names are turned if they do not fit side by side."""

MARKERS: Mapping[str, tuple[str, float]] = {
    "disc": ("o", 3.0),
    "cross": ("x", 3.0),
    "triangle": ("v", 3.4),
    "diamond": ("D", 4.4),
    "star": ("*", 7.0),
    "square": ("s", 2.8),
    "plus": ("+", 3.8),
    "ring": ("o", 3.2),
    "peak": ("^", 3.4),
}
"""Matplotlib's marker and its size in points, by shape."""

OPEN = frozenset({"ring"})


def draw_scatter(figure: ScatterFigure, styles: Mapping[str, Style]) -> "Figure":
    """Draw lines, the points series by series in front, and the legend below the axes."""
    drawn = scatter_layout(figure)
    if drawn is None:
        return _nothing(figure)
    dots = list(dict.fromkeys(cloud.label for cloud in figure.clouds))
    curves = [n for n in dict.fromkeys(line.label for line in figure.lines) if n not in dots]
    heading, below = title(figure.title, WIDTH), axis_title(figure.x.title, WIDTH)
    more = (
        extra_height([heading])
        + extra_height([below])
        + legend_height([*dots, *curves], SINGLE_COLUMN)
    )
    canvas = empty_figure(SINGLE_COLUMN, HEIGHT + more + _names_height(figure))
    axes = canvas.add_subplot()
    axes.set_title(heading)
    set_x(axes, figure.x, drawn.x, TICKS, WIDTH)
    set_y(axes, figure.y, drawn.y, TICKS, HEIGHT - 0.6)
    axes.grid(visible=True, axis="y")
    _name_ticks(axes, figure)
    draw_curves(axes, figure.lines, figure.marks, (drawn.x, drawn.y), styles)
    _clouds(axes, figure, drawn, styles)
    keys = [_key(styles[n]) for n in dots] + [legend_line(styles[n]) for n in curves]
    add_legend(canvas, keys, [*dots, *curves], SINGLE_COLUMN)
    return canvas


def _nothing(figure: ScatterFigure) -> "Figure":
    canvas = empty_figure(SINGLE_COLUMN, HEIGHT / 2)
    axes = canvas.add_subplot()
    axes.set_title(title(figure.title, SINGLE_COLUMN))
    mark_empty(axes)
    return canvas


def _clouds(
    axes: "Axes", figure: ScatterFigure, drawn: ScatterLayout, styles: Mapping[str, Style]
) -> None:
    for number, (cloud, points) in enumerate(zip(figure.clouds, drawn.clouds, strict=True)):
        # Matplotlib's layout would count an empty unclipped line as a point at the page's corner.
        if points:
            look = _look(styles[cloud.label]) | {"alpha": _alpha(points), "zorder": 5 + number}
            xs, ys = [point.x for point in points], [point.y for point in points]
            axes.plot(xs, ys, linestyle="", clip_on=False, **look)


def _alpha(points: Sequence[PlacedPoint]) -> float:
    return max(0.35, min(1.0, math.sqrt(100 / len(points))))


def _look(style: Style) -> dict[str, Any]:
    shape = style.shape or "disc"
    marker, size = MARKERS[shape]
    fill = "white" if shape in OPEN else style.light
    edge = 1.0 if marker in "x+" or shape in OPEN else 0.3
    rim = style.light if edge == 1.0 else "white"
    return {"marker": marker, "ms": size, "mfc": fill, "mec": rim, "mew": edge}


def _key(style: Style) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], linestyle="", **_look(style))


def _names(figure: ScatterFigure) -> list[str]:
    return [fit_text(name, LONGEST_NAME) for name in figure.ticks]


def _flat(figure: ScatterFigure) -> bool:
    room = WIDTH / max(1, len(figure.ticks))
    return all(LETTER * (len(name) + 1) <= room for name in _names(figure))


def _names_height(figure: ScatterFigure) -> float:
    """The height of turned tick names in inches."""
    if _flat(figure):
        return 0.0
    return 0.7 * LETTER * max((len(name) for name in _names(figure)), default=0)


def _name_ticks(axes: "Axes", figure: ScatterFigure) -> None:
    if not figure.ticks:
        return
    turned: Any = {"rotation": TURNED, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(
        range(len(figure.ticks)), labels=_names(figure), **({} if _flat(figure) else turned)
    )
