"""Matrices of pairs: coloured cells with their number, and below it the interval."""

import math
from typing import TYPE_CHECKING, Any

from rlexp.metrics.estimate_words import ends, possible, too_narrow
from rlexp.reports.drawing.blocks import Matrix
from rlexp.reports.drawing.palette import LIGHT
from rlexp.reports.figures.axes import say_nothing
from rlexp.reports.figures.canvas import (
    DOUBLE_COLUMN,
    INK,
    PALE,
    SINGLE_COLUMN,
    empty_figure,
)
from rlexp.reports.figures.lettering import LETTER, height, label, title
from rlexp.stats.interval import Interval
from rlexp.text import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CELL, READABLE = 0.78, 0.68
"""Inches of the largest cell, and of the smallest that has room for an interval."""

DIGITS = 2
DEEPEST = 0.62
"""Share of the full colour at the ends of the scale: black stays readable on it."""


def draw_matrix(figure: Matrix) -> "Figure":
    """Rows against columns: blue where the row is ahead, orange where the column is."""
    names = [label(name) for name in figure.labels]
    n, left = len(names), 0.3 + LETTER * max(map(len, names), default=0)
    cell = min(CELL, (DOUBLE_COLUMN - left) / max(1, n))
    top = 0.5 if _flat(names, cell) else 0.5 + 0.75 * left
    width = max(SINGLE_COLUMN, left + n * cell)
    heading = title(figure.title, width - left)
    drawn = empty_figure(width, top + height([heading]) + max(1, n) * cell * 0.8)
    axes = drawn.add_subplot()
    axes.set_title(heading)
    if all(value is None for row in figure.values for value in row):
        say_nothing(axes)
        return drawn
    _frame(axes, names, cell)
    for i, row in enumerate(figure.values):
        for j, value in enumerate(row):
            _cell(axes, figure, (i, j), value, cell)
    return drawn


def _flat(names: list[str], cell: float) -> bool:
    return all(LETTER * len(name) <= 0.95 * cell for name in names)


def _frame(axes: "Axes", names: list[str], cell: float) -> None:
    n = len(names)
    turned: Any = {"rotation": 40, "ha": "left", "rotation_mode": "anchor"}
    axes.set_xlim(-0.5, n - 0.5)
    axes.set_ylim(n - 0.5, -0.5)
    axes.set_xticks(range(n), labels=names, **({} if _flat(names, cell) else turned))
    axes.set_yticks(range(n), labels=names)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    axes.spines[:].set_visible(False)


def _cell(
    axes: "Axes", figure: Matrix, at: tuple[int, int], value: Interval | None, cell: float
) -> None:
    from matplotlib.patches import Rectangle

    i, j = at
    colour = shade(value.estimate, figure.low, figure.high) if value else "#f4f4f4"
    axes.add_patch(Rectangle((j - 0.48, i - 0.47), 0.96, 0.94, facecolor=colour, linewidth=0))
    if value is None:
        text = "" if i == j else "—"
        axes.text(j, i, text, ha="center", va="center", color=PALE)
        return
    below = cell >= READABLE and possible(value)
    sign = ("†" if too_narrow(value) else "") if possible(value) else "‡"
    estimate = number(value.estimate, DIGITS) if math.isfinite(value.estimate) else "—"
    axes.text(j, i - 0.14 * below, estimate + sign, ha="center", va="center", color=INK)
    if below:
        axes.text(j, i + 0.22, ends(value, DIGITS), ha="center", va="center", fontsize=6)


def shade(value: float, low: float, high: float) -> tuple[float, float, float]:
    """The colour of a value between two ends: white in the middle."""
    from matplotlib.colors import to_rgb

    if not math.isfinite(value) or high <= low:
        return to_rgb("white")
    share = min(1.0, max(-1.0, 2 * (value - low) / (high - low) - 1))
    red, green, blue = to_rgb(LIGHT[0] if share > 0 else LIGHT[1])
    depth = DEEPEST * abs(share)
    return 1 - depth * (1 - red), 1 - depth * (1 - green), 1 - depth * (1 - blue)
