"""Small figures, and the texts in them after drawing."""

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
    arguments: dict[str, Any] = {"x": STEPS, "y": Axis(title="return"), **fields, "lines": lines}
    return LineFigure(**{"name": "f", "title": "Curves", **arguments})


def panels(*marks: IntervalMark, panels: int = 1) -> IntervalFigure:
    """A figure with this many panels, each with these marks."""
    equal_panels = tuple(Panel(title=f"P{k}", axis=STEPS, marks=marks) for k in range(panels))
    return IntervalFigure(name="f", title="Panels", panels=equal_panels)


def draw(block: Figure) -> Any:
    """The Matplotlib figure of a block."""
    return draw_figure(block, LOOKS)


def texts(figure: Any) -> list[str]:
    """Every visible text of a figure."""
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text) if text.get_visible()]
