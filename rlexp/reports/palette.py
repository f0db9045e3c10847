"""Colours, dashes and markers of labels: one look for each in every figure and on every page."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rlexp.reports.blocks import Intervals, Lines, Matrix, Study

LIGHT = ("#0069AC", "#C34A15", "#15906C", "#C277A5", "#DB7D14", "#4098EA", "#333333", "#99116A")
"""Colours on white.

They follow Okabe and Ito (2008, "Color Universal Design"), moved until each stands out from white
at 3 : 1 and any two differ under each kind of colour blindness; yellow on white cannot.
"""

DARK = ("#137CE7", "#FF780F", "#00BA7D", "#9D99D4", "#ECCB3F", "#96D7FF", "#E9FFCF", "#C53D5B")
"""The same hues where the page is dark."""

DASHES: tuple[tuple[int, ...], ...] = ((), (7, 4), (2, 4), (10, 4, 2, 4))
"""Lengths of dashes and gaps, in line widths of 1: solid, dashed, dotted, dash-dotted."""

MARKERS = ("o", "s", "^", "D")
"""Markers, as Matplotlib names them: they change where the dashes do."""


@dataclass(frozen=True, slots=True)
class Style:
    """The look of the label that stands at this place in the order of labels."""

    number: int

    @property
    def colour(self) -> int:
        """Its place among the colours."""
        return self.number % len(LIGHT)

    @property
    def pattern(self) -> int:
        """Its place among dashes and markers: labels of one colour differ in it."""
        return self.number // len(LIGHT) % len(DASHES)

    @property
    def light(self) -> str:
        """Its colour on white."""
        return LIGHT[self.colour]

    @property
    def dash(self) -> tuple[int, ...]:
        """Its dashes; nothing for a solid line."""
        return DASHES[self.pattern]

    @property
    def marker(self) -> str:
        """Its marker, as Matplotlib names it."""
        return MARKERS[self.pattern]


def styles(study: Study) -> dict[str, Style]:
    """The look of each label of a study: those under comparison first, then others as drawn."""
    names = dict.fromkeys((*study.labels, *_drawn(study)))
    return {name: Style(number) for number, name in enumerate(names)}


def _drawn(study: Study) -> Iterator[str]:
    for part in study.parts:
        for block in part.blocks:
            yield from _labels(block)


def _labels(block: object) -> Iterable[str]:
    match block:
        case Lines():
            return [line.label for line in block.lines]
        case Intervals():
            return [mark.label for panel in block.panels for mark in panel.marks]
        case Matrix():
            return block.labels
        case _:
            return ()
