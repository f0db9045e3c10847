"""Parallel coordinates for print: two columns wide, with a colour key below."""

import math
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rlexp.reports.drawing.axes import AxisScale
from rlexp.reports.drawing.blocks import ParallelFigure
from rlexp.reports.drawing.palette import DASHES, RISING_LIGHT
from rlexp.reports.drawing.point_layout import (
    ParallelLayout,
    PlacedTrialLine,
    apart,
    colour_ends,
    coordinate_ticks,
    strands,
)
from rlexp.reports.figures.canvas import (
    DOUBLE_COLUMN,
    INK,
    LETTER,
    PALE,
    axis_title,
    empty_figure,
    fit_text,
    label,
    mark_empty,
    title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT, KEY = 2.6, 0.55
"""Inches: height of the coordinates with the figure's title, and of the colour key."""

TURNED = 40
LONGEST_CHOICE, LONGEST_NAME = 12, 16
GREY = "#c4c6c8"


def draw_parallel(figure: ParallelFigure) -> "Figure":
    """Draw trials: grey ones behind, then by rising values, marked ones in front with names."""
    drawn = strands(figure)
    if drawn is None:
        return _nothing(figure)
    names = [label(c.title) for c in figure.coordinates]
    room = DOUBLE_COLUMN / (len(names) + 1)
    top = 0.2 if _flat(names, room) else 0.65 * LETTER * max(map(len, names))
    below = KEY if drawn.colour else 0.0
    canvas = empty_figure(DOUBLE_COLUMN, HEIGHT + top + below)
    canvas.suptitle(
        title(figure.title, DOUBLE_COLUMN), x=0.01, ha="left", fontsize=8.5, fontweight="bold"
    )
    axes = canvas.add_subplot()
    _frame(axes, names, room)
    _coordinates(axes, figure, drawn)
    _threads(axes, [s for s in drawn.strands if not s.thread.marked])
    _marked(axes, [s for s in drawn.strands if s.thread.marked])
    if drawn.colour:
        _key(canvas, axes, figure, drawn.colour)
    return canvas


def _nothing(figure: ParallelFigure) -> "Figure":
    canvas = empty_figure(DOUBLE_COLUMN, HEIGHT / 2)
    axes = canvas.add_subplot()
    axes.set_title(title(figure.title, DOUBLE_COLUMN))
    mark_empty(axes)
    return canvas


def _flat(names: Sequence[str], room: float) -> bool:
    return all(LETTER * len(name) <= 0.95 * room for name in names)


def _frame(axes: "Axes", names: Sequence[str], room: float) -> None:
    turned: Any = {"rotation": TURNED, "ha": "left", "rotation_mode": "anchor"}
    axes.set_xlim(-0.15, len(names) - 0.4)
    axes.set_ylim(0, 1)
    axes.set_xticks(range(len(names)), labels=names, **({} if _flat(names, room) else turned))
    axes.set_yticks([])
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.spines[:].set_visible(False)


def _coordinates(axes: "Axes", figure: ParallelFigure, drawn: ParallelLayout) -> None:
    for k, (coordinate, scale) in enumerate(zip(figure.coordinates, drawn.scales, strict=True)):
        axes.plot([k, k], [0, 1], color=PALE, linewidth=0.6, clip_on=False, zorder=4)
        for tick in coordinate_ticks(coordinate, scale):
            _write(axes, (k, tick.at / 100), fit_text(tick.text, LONGEST_CHOICE), size=6)


def _write(axes: "Axes", at: tuple[float, float], text: str, *, size: float) -> Any:
    """Write a text right of a point, with a white outline above the lines."""
    from matplotlib.patheffects import withStroke

    return axes.annotate(
        text,
        at,
        xytext=(2.5, 0),
        textcoords="offset points",
        va="center",
        color=INK,
        fontsize=size,
        zorder=8,
        path_effects=[withStroke(linewidth=1.6, foreground="white")],
    )


def _threads(axes: "Axes", unmarked: Sequence[PlacedTrialLine]) -> None:
    """Draw all trials of a shade as one collection; the more trials, the paler each is."""
    from matplotlib.collections import LineCollection

    alpha = max(0.3, min(0.9, 6 / math.sqrt(max(1, len(unmarked)))))
    for number, (_, members) in enumerate(groupby(unmarked, key=_colour)):
        bundle = list(members)
        look: Any = {"colors": _colour(bundle[0]), "alpha": alpha, "linewidths": 0.7}
        paths = [run for strand in bundle for run in _runs(strand)]
        # Matplotlib draws by zorder: later bundles have greater values and stay in front.
        order = 2 + 0.01 * number
        lines = LineCollection([p for p in paths if len(p) > 1], zorder=order, **look)
        axes.add_collection(lines, autolim=False)
        _dots(axes, [run[0] for run in paths if len(run) == 1], _colour(bundle[0]), order)


def _dots(axes: "Axes", dots: Sequence[tuple[float, float]], colour: str, order: float) -> None:
    """Draw values between two gaps, which a line would not show."""
    if dots:
        axes.plot(*zip(*dots, strict=True), "o", ms=2.2, mew=0, color=colour, zorder=order)


def _marked(axes: "Axes", front: Sequence[PlacedTrialLine]) -> None:
    from matplotlib.patheffects import Normal, Stroke

    end = axes.get_xlim()[1]
    heights = [100 * _last(strand) for strand in front]
    for k, (strand, at) in enumerate(zip(front, apart(heights), strict=True)):
        dash: Any = (0, DASHES[k % len(DASHES)]) if DASHES[k % len(DASHES)] else "solid"
        edge = [Stroke(linewidth=3.0, foreground="white"), Normal()]
        for run in _runs(strand):
            if len(run) > 1:
                xs, ys = zip(*run, strict=True)
                axes.plot(
                    *(xs, ys), color=_colour(strand), lw=1.7, ls=dash, zorder=6, path_effects=edge
                )
            else:
                _dots(axes, run, _colour(strand), 6)
        if strand.heights[-1] is not None:
            leader = ([len(strand.heights) - 1, end], [strand.heights[-1], at / 100])
            axes.plot(*leader, color=_colour(strand), lw=0.7, clip_on=False, zorder=5)
        _write(axes, (end, at / 100), fit_text(strand.thread.name, LONGEST_NAME), size=7)


def _last(strand: PlacedTrialLine) -> float:
    return next((up for up in reversed(strand.heights) if up is not None), 0.5)


def _runs(strand: PlacedTrialLine) -> list[list[tuple[float, float]]]:
    """The unbroken pieces of a trial's line."""
    placed = [(k, up) for k, up in enumerate(strand.heights)]
    runs = groupby(placed, key=lambda pair: pair[1] is None)
    return [[(k, up or 0.0) for k, up in run] for gap, run in runs if not gap]


def _colour(strand: PlacedTrialLine) -> str:
    return GREY if strand.shade is None else RISING_LIGHT[strand.shade]


def _key(canvas: "Figure", axes: "Axes", figure: ParallelFigure, colour: AxisScale) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize

    shades = ScalarMappable(Normalize(0, 1), ListedColormap(RISING_LIGHT))
    bar: Any = canvas.colorbar(
        shades, ax=axes, location="bottom", shrink=0.4, aspect=30, pad=0.03, anchor=(0.0, 0.0)
    )
    bar.set_ticks([0, 1], labels=colour_ends(figure, colour))
    bar.set_label(axis_title(figure.colour.title, 0.4 * DOUBLE_COLUMN))
    bar.outline.set_visible(False)
