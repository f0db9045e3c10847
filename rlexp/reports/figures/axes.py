"""Axes of figures: the same ends and the same words at the ticks as on the page."""

from typing import TYPE_CHECKING

from rlexp.reports.drawing.axes import Scale
from rlexp.reports.drawing.blocks import Axis
from rlexp.reports.figures.canvas import PALE
from rlexp.reports.figures.lettering import LETTER, axis_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis as DrawnAxis


def set_x(axes: "Axes", axis: Axis, scale: Scale, ticks: int, width: float) -> None:
    """Give the horizontal axis its ends, title and at most about so many ticks.

    Their words stay apart on an axis of a width in inches.
    """
    axes.set_xscale("log" if scale.log else "linear")
    axes.set_xlim(scale.low, scale.high)
    axes.set_xlabel(axis_title(axis.title, width))
    _set_ticks(axes.xaxis, scale, _most(scale, ticks, width))


def set_y(axes: "Axes", axis: Axis, scale: Scale, ticks: int, height: float) -> None:
    """Give the vertical axis of a height in inches its ends, title and about so many ticks."""
    axes.set_yscale("log" if scale.log else "linear")
    axes.set_ylim(scale.low, scale.high)
    axes.set_ylabel(axis_title(axis.title, height))
    _set_ticks(axes.yaxis, scale, ticks)


def say_nothing(axes: "Axes") -> None:
    """Say in an empty figure that it is meant to be empty."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, "nothing to show", transform=axes.transAxes, ha="center", color=PALE)


def _set_ticks(drawn: "DrawnAxis", scale: Scale, count: int) -> None:
    ticks = scale.ticks(count)
    drawn.set_ticks([_value(scale, t.at) for t in ticks], labels=[t.text for t in ticks])
    drawn.set_ticks([], minor=True)


def _most(scale: Scale, count: int, width: float) -> int:
    def needed(n: int) -> float:
        return LETTER * sum(len(tick.text) + 2 for tick in scale.ticks(n))

    return next((n for n in range(count, 1, -1) if needed(n) <= width), 1)


def _value(scale: Scale, at: float) -> float:
    """The value at so many per cent of the axis."""
    if scale.log:
        return float(scale.low * (scale.high / scale.low) ** (at / 100))
    return scale.low + at / 100 * (scale.high - scale.low)
