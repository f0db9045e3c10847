"""Legends below the axes, with as many columns as the names leave room for."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rlexp.reports.figures.lettering import LETTER, label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HANDLE, ROW = 0.45, 0.155
"""Inches of a line with the space around it, and of a row at 8 points."""


def add_legend(
    figure: "Figure", handles: Sequence[Any], names: Sequence[str], width: float
) -> None:
    """Put a legend below everything else; row after row, not column after column."""
    count = _columns(names, width)
    order = [k for column in range(count) for k in range(column, len(names), count)]
    legend = figure.legend(
        handles=[handles[k] for k in order],
        labels=["name"] * len(order),
        loc="outside lower center",
        ncols=count,
        borderaxespad=0.2,
        columnspacing=1.2,
        handletextpad=0.5,
        labelspacing=0.3,
    )
    # Set afterwards, for Matplotlib has an opinion on labels that begin with an underscore.
    for text, k in zip(legend.get_texts(), order, strict=True):
        text.set_text(label(names[k]))


def legend_height(names: Sequence[str], width: float) -> float:
    """Inches that a legend needs."""
    return 0.1 + ROW * -(-len(names) // _columns(names, width)) if names else 0.0


def _columns(names: Sequence[str], width: float) -> int:
    longest = max((len(label(name)) for name in names), default=0)
    fit = int(width / (HANDLE + LETTER * longest))
    rows = -(-len(names) // max(1, fit))
    return max(1, -(-len(names) // max(1, rows)))
