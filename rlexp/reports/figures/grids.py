"""Matrices of pairs and heat maps for print: cells in the colour of their value."""

import math
from typing import TYPE_CHECKING, Any

from rlexp.metrics.estimate_text import ends, possible, too_narrow
from rlexp.reports.drawing.axes import AxisScale
from rlexp.reports.drawing.blocks import HeatMap, Matrix
from rlexp.reports.drawing.palette import LIGHT, RISING_LIGHT, shade
from rlexp.reports.figures.canvas import (
    DOUBLE_COLUMN,
    INK,
    LETTER,
    PALE,
    SINGLE_COLUMN,
    axis_title,
    empty_figure,
    extra_height,
    label,
    mark_empty,
    title,
)
from rlexp.stats.interval import Interval
from rlexp.text import decimals_for_span, format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


LARGEST_CELL, READABLE = 0.78, 0.68
"""Inches of the largest cell, and of the smallest cell with room for an interval."""

DIGITS = 2
DEEPEST = 0.62
"""Share of the full colour at the ends of the scale, so that black text stays readable."""


def draw_matrix(figure: Matrix) -> "Figure":
    """Draw rows against columns: blue if the row is better, orange if the column is better."""
    names = [label(name) for name in figure.labels]
    n, left = len(names), 0.3 + LETTER * max(map(len, names), default=0)
    cell = min(LARGEST_CELL, (DOUBLE_COLUMN - left) / max(1, n))
    top = 0.5 if _flat(names, cell) else 0.5 + 0.75 * left
    width = max(SINGLE_COLUMN, left + n * cell)
    heading = title(figure.title, width - left)
    drawn = empty_figure(width, top + extra_height([heading]) + max(1, n) * cell * 0.8)
    axes = drawn.add_subplot()
    axes.set_title(heading)
    if all(value is None for row in figure.values for value in row):
        mark_empty(axes)
        return drawn
    _matrix_frame(axes, names, cell)
    for i, row in enumerate(figure.values):
        for j, value in enumerate(row):
            _cell(axes, figure, (i, j), value, cell)
    return drawn


def _flat(names: list[str], cell: float) -> bool:
    return all(LETTER * len(name) <= 0.95 * cell for name in names)


def _matrix_frame(axes: "Axes", names: list[str], cell: float) -> None:
    n = len(names)
    turned: Any = {"rotation": 40, "ha": "left", "rotation_mode": "anchor"}
    axes.set_xlim(-0.5, n - 0.5)
    # Reversed, so that the first row is at the top.
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
    colour = pair_colour(value.estimate, figure.low, figure.high) if value else "#f4f4f4"
    axes.add_patch(Rectangle((j - 0.48, i - 0.47), 0.96, 0.94, facecolor=colour, linewidth=0))
    if value is None:
        text = "" if i == j else "—"
        axes.text(j, i, text, ha="center", va="center", color=PALE)
        return
    below = cell >= READABLE and possible(value)
    sign = ("†" if too_narrow(value) else "") if possible(value) else "‡"
    estimate = format_number(value.estimate, DIGITS) if math.isfinite(value.estimate) else "—"
    axes.text(j, i - 0.14 * below, estimate + sign, ha="center", va="center", color=INK)
    if below:
        axes.text(j, i + 0.22, ends(value, DIGITS), ha="center", va="center", fontsize=6)


def pair_colour(value: float, low: float, high: float) -> tuple[float, float, float]:
    """The colour of a value between two ends; white in the middle."""
    from matplotlib.colors import to_rgb

    if not math.isfinite(value) or high <= low:
        return to_rgb("white")
    share = min(1.0, max(-1.0, 2 * (value - low) / (high - low) - 1))
    red, green, blue = to_rgb(LIGHT[0] if share > 0 else LIGHT[1])
    depth = DEEPEST * abs(share)
    return 1 - depth * (1 - red), 1 - depth * (1 - green), 1 - depth * (1 - blue)


CELL, LINE = 0.42, 0.26
"""Inches: width and height of a cell, if there is room."""
DEEP = 6
"""Smallest shade on which black text is hard to read."""


def draw_heat_map(figure: HeatMap) -> "Figure":
    """Draw columns from left to right, rows from bottom to top, and a colour key below."""
    names = [label(name) for name in figure.columns]
    left = 0.6 + LETTER * max((len(label(name)) for name in figure.rows), default=0)
    width = min(DOUBLE_COLUMN, max(SINGLE_COLUMN, left + CELL * len(names)))
    heading = title(figure.title, width - left)
    tall = max(1.4, LINE * len(figure.rows))
    drawn = empty_figure(width, tall + 1.35 + extra_height([heading]))
    axes = drawn.add_subplot()
    axes.set_title(heading)
    if all(value is None for row in figure.values for value in row):
        mark_empty(axes)
        return drawn
    cell = (width - left) / len(names)
    _frame(axes, figure, names, cell)
    _cells(axes, figure, cell)
    _key(drawn, axes, figure)
    return drawn


def _frame(axes: "Axes", figure: HeatMap, names: list[str], cell: float) -> None:
    flat = all(LETTER * (len(name) + 1) <= cell for name in names)
    turned: Any = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_ylim(-0.5, len(figure.rows) - 0.5)
    axes.set_xticks(range(len(names)), labels=names, **({} if flat else turned))
    axes.set_yticks(range(len(figure.rows)), labels=[label(name) for name in figure.rows])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel(axis_title(figure.x, cell * len(names)))
    axes.set_ylabel(axis_title(figure.y, LINE * len(figure.rows)))


def _cells(axes: "Axes", figure: HeatMap, cell: float) -> None:
    from matplotlib.patches import Rectangle

    low, high, digits = _ends(figure)
    for j, row in enumerate(figure.values):
        for i, value in enumerate(row):
            corner = (i - 0.48, j - 0.46)
            if value is None:
                blank: Any = {"facecolor": "none", "edgecolor": PALE, "linestyle": ":", "lw": 0.6}
                axes.add_patch(Rectangle(corner, 0.96, 0.92, **blank))
                continue
            at = AxisScale(low, high).at(value.estimate) if high > low else 0.5
            tone = shade(at or 0.0)
            axes.add_patch(Rectangle(corner, 0.96, 0.92, facecolor=RISING_LIGHT[tone], lw=0))
            text = format_number(value.estimate, digits)
            if LETTER * 0.8 * len(text) <= 0.96 * cell:
                ink = "white" if tone >= DEEP else INK
                axes.text(i, j, text, ha="center", va="center", fontsize=6, color=ink)


def _ends(figure: HeatMap) -> tuple[float, float, int]:
    low, high = figure.colour.low or 0.0, figure.colour.high or 0.0
    return low, high, decimals_for_span(high - low if high > low else abs(high))


def _key(canvas: "Figure", axes: "Axes", figure: HeatMap) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize

    low, high, digits = _ends(figure)
    shades = ScalarMappable(Normalize(0, 1), ListedColormap(RISING_LIGHT))
    bar: Any = canvas.colorbar(shades, ax=axes, location="bottom", shrink=0.6, aspect=30, pad=0.03)
    bar.set_ticks([0, 1], labels=[format_number(low, digits), format_number(high, digits)])
    bar.set_label(axis_title(figure.colour.title, 0.6 * SINGLE_COLUMN))
    bar.outline.set_visible(False)
