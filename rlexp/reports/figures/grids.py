"""Heat maps: cells in the colour of their value, empty ones with an outline."""

from typing import TYPE_CHECKING, Any

from rlexp.reports.drawing.axes import Scale
from rlexp.reports.drawing.blocks import HeatMap
from rlexp.reports.drawing.palette import RISING_LIGHT, shade
from rlexp.reports.figures.axes import say_nothing
from rlexp.reports.figures.canvas import DOUBLE_COLUMN, INK, PALE, SINGLE_COLUMN, empty_figure
from rlexp.reports.figures.lettering import LETTER, axis_title, height, label, title
from rlexp.text import digits_for, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CELL, LINE = 0.42, 0.26
"""Inches of a cell across and up, where there is room."""
DEEP = 6
"""Shades from which on black letters are hard to read."""


def draw_heat_map(figure: HeatMap) -> "Figure":
    """Columns from left to right, rows from the bottom to the top, and a key of the colours."""
    names = [label(name) for name in figure.columns]
    left = 0.6 + LETTER * max((len(label(name)) for name in figure.rows), default=0)
    width = min(DOUBLE_COLUMN, max(SINGLE_COLUMN, left + CELL * len(names)))
    heading = title(figure.title, width - left)
    tall = max(1.4, LINE * len(figure.rows))
    drawn = empty_figure(width, tall + 1.35 + height([heading]))
    axes = drawn.add_subplot()
    axes.set_title(heading)
    if all(value is None for row in figure.values for value in row):
        say_nothing(axes)
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
            at = Scale(low, high).at(value.estimate) if high > low else 0.5
            tone = shade(at or 0.0)
            axes.add_patch(Rectangle(corner, 0.96, 0.92, facecolor=RISING_LIGHT[tone], lw=0))
            text = number(value.estimate, digits)
            if LETTER * 0.8 * len(text) <= 0.96 * cell:
                ink = "white" if tone >= DEEP else INK
                axes.text(i, j, text, ha="center", va="center", fontsize=6, color=ink)


def _ends(figure: HeatMap) -> tuple[float, float, int]:
    low, high = figure.colour.low or 0.0, figure.colour.high or 0.0
    return low, high, digits_for(high - low if high > low else abs(high))


def _key(canvas: "Figure", axes: "Axes", figure: HeatMap) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize

    low, high, digits = _ends(figure)
    shades = ScalarMappable(Normalize(0, 1), ListedColormap(RISING_LIGHT))
    bar: Any = canvas.colorbar(shades, ax=axes, location="bottom", shrink=0.6, aspect=30, pad=0.03)
    bar.set_ticks([0, 1], labels=[number(low, digits), number(high, digits)])
    bar.set_label(axis_title(figure.colour.title, 0.6 * SINGLE_COLUMN))
    bar.outline.set_visible(False)
