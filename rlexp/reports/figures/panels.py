"""A picture of curves on several tasks: a panel for each, one legend, and a caption with the n."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlexp.reports.drawing.blocks import LineFigure
from rlexp.reports.drawing.palette import Style
from rlexp.reports.figures.canvas import (
    DOUBLE_COLUMN,
    PALE,
    add_legend,
    axis_title,
    drawable_text,
    empty_figure,
    legend_height,
    mark_empty,
    set_x,
    set_y,
    title,
)
from rlexp.reports.figures.lines import draw_curves, legend_line, line_scales

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ALONE, BESIDE = 3.3, 2.5
"""Inches: height of a panel that is alone, and of one that has others beside it."""
COLUMNS = 2
LONGEST = 90
"""Most characters of a label in the legend: as many as fit beside its line."""
TICKS = 6
LETTER, LINE, SIZE = 0.0556, 0.135, 7
"""Inches: width of a character of the caption, and height of a line; its size in points."""


def draw_panels(
    figures: Sequence[LineFigure], styles: Mapping[str, Style], sentences: Sequence[str]
) -> "Figure":
    """Draw a panel for each figure, the legend of all, and sentences as a caption below.

    Args:
        figures: One figure for each task.
        styles: The style of every label.
        sentences: Each begins a line of the caption.
    """
    labels = list(dict.fromkeys(line.label for figure in figures for line in figure.lines))
    columns = min(COLUMNS, len(figures))
    rows = -(-len(figures) // columns)
    height = rows * (ALONE if len(figures) == 1 else BESIDE) + legend_height(
        labels, DOUBLE_COLUMN, LONGEST
    )
    caption = _caption(sentences)
    below = LINE * (caption.count("\n") + 2)
    drawn = empty_figure(DOUBLE_COLUMN, height + below)
    parts: Any = drawn.subfigures(2, 1, height_ratios=[height, below])
    upper, lower = parts
    panels = upper.subplots(rows, columns, squeeze=False).flat
    for number, axes in enumerate(panels):
        if number < len(figures):
            _panel(axes, figures[number], styles, DOUBLE_COLUMN / columns - 0.7, height / rows)
        else:
            axes.set_axis_off()
    add_legend(
        upper, [legend_line(styles[name]) for name in labels], labels, DOUBLE_COLUMN, LONGEST
    )
    lower.text(
        0.012, 1, caption, size=SIZE, color=PALE, va="top", linespacing=1.25, parse_math=False
    )
    return drawn


def _panel(
    axes: "Axes", figure: LineFigure, styles: Mapping[str, Style], width: float, height: float
) -> None:
    axes.set_title(title(figure.title, width))
    scales = line_scales(figure)
    if scales is None:
        mark_empty(axes)
        return
    set_x(axes, figure.x, scales[0], TICKS, width)
    set_y(axes, figure.y, scales[1], TICKS, height - 0.6)
    axes.set_xlabel(axis_title(figure.x.title, width))
    axes.grid(visible=True, axis="y")
    draw_curves(axes, figure.lines, figure.marks, scales, styles)


def _caption(sentences: Sequence[str]) -> str:
    width = int((DOUBLE_COLUMN - 0.2) / LETTER)
    lines = [textwrap.wrap(drawable_text(sentence), width) for sentence in sentences]
    return "\n".join(line for wrapped in lines for line in wrapped)
