"""Figures with few numbers, and what stands in them once they are drawn."""

from typing import Any

from study_samples import HOSTILE

from rlexp.reports.drawing.blocks import Axis, Figure, Intervals, Line, Lines, Mark, Panel
from rlexp.reports.drawing.palette import Style
from rlexp.reports.figures import drawn_figure

NAMES = (*HOSTILE, "$x_", r"$\frac{1}{0}$", "a\nb\x00\ud800", "_nolegend_", "")
LOOKS = {name: Style(k) for k, name in enumerate(("ppo", "a2c", *NAMES))}
STEPS = Axis(title="environment steps")


def curves(*lines: Line, **fields: Any) -> Lines:
    """A figure of these curves."""
    given: dict[str, Any] = {"x": STEPS, "y": Axis(title="return"), **fields, "lines": lines}
    return Lines(**{"name": "f", "title": "Curves", **given})


def panels(*marks: Mark, panels: int = 1) -> Intervals:
    """A figure of so many panels, each with these marks."""
    own = tuple(Panel(title=f"P{k}", axis=STEPS, marks=marks) for k in range(panels))
    return Intervals(name="f", title="Panels", panels=own)


def drawn(block: Figure) -> Any:
    """A figure of Matplotlib."""
    return drawn_figure(block, LOOKS)


def texts(figure: Any) -> list[str]:
    """Every text that is seen in it."""
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text) if text.get_visible()]
