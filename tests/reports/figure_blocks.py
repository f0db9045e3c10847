"""Figures with few numbers, and what stands in them once they are drawn."""

from typing import Any

from study_samples import HOSTILE

from rlexp.reports.drawing.blocks import (
    Axis,
    Figure,
    FigureLine,
    IntervalFigure,
    IntervalMark,
    LineFigure,
    Panel,
)
from rlexp.reports.drawing.palette import Style
from rlexp.reports.figures import draw_figure

NAMES = (*HOSTILE, "$x_", r"$\frac{1}{0}$", "a\nb\x00\ud800", "_nolegend_", "")
LOOKS = {name: Style(k) for k, name in enumerate(("ppo", "a2c", *NAMES))}
STEPS = Axis(title="environment steps")


def curves(*lines: FigureLine, **fields: Any) -> LineFigure:
    """A figure of these curves."""
    given: dict[str, Any] = {"x": STEPS, "y": Axis(title="return"), **fields, "lines": lines}
    return LineFigure(**{"name": "f", "title": "Curves", **given})


def panels(*marks: IntervalMark, panels: int = 1) -> IntervalFigure:
    """A figure of so many panels, each with these marks."""
    own = tuple(Panel(title=f"P{k}", axis=STEPS, marks=marks) for k in range(panels))
    return IntervalFigure(name="f", title="Panels", panels=own)


def drawn(block: Figure) -> Any:
    """A figure of Matplotlib."""
    return draw_figure(block, LOOKS)


def texts(figure: Any) -> list[str]:
    """Every text that is seen in it."""
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text) if text.get_visible()]
