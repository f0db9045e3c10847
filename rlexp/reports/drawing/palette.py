"""Colours, dashes and markers of labels, the same in every figure and on the page."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle

from rlexp.reports.drawing.blocks import (
    HeatMap,
    IntervalFigure,
    LineFigure,
    Matrix,
    ReportDocument,
    ScatterFigure,
)

LIGHT = ("#0069AC", "#C34A15", "#15906C", "#C277A5", "#DB7D14", "#4098EA", "#333333", "#99116A")
"""Colours on white.

They follow Okabe and Ito (2008, "Color Universal Design"), adjusted until each has a contrast of
3 : 1 on white and any two differ under each kind of colour blindness. Yellow is left out, because
it cannot have this contrast.
"""

DARK = ("#137CE7", "#FF780F", "#00BA7D", "#9D99D4", "#ECCB3F", "#96D7FF", "#E9FFCF", "#C53D5B")
"""The same hues for a dark page."""

DASHES: tuple[tuple[int, ...], ...] = ((), (7, 4), (2, 4), (10, 4, 2, 4))
"""Lengths of dashes and gaps, in line widths of 1: solid, dashed, dotted, dash-dotted."""

MARKERS = ("o", "s", "^", "D")
"""Markers, in Matplotlib's names; each belongs to a pattern of dashes."""


RISING_LIGHT = (
    *("#E1B75C", "#BFB562", "#9EAF6C", "#7EA675", "#619B7C", "#468E81"),
    *("#2F7F85", "#1E7088", "#1D608A", "#294E8A", "#373B86", "#42277F"),
)
"""Colours of rising values on white: the higher, the darker.

Neighbours are equally far apart in the perceptual space of Ottosson (2020, "Oklab"), and their
lightness falls evenly, so that the order is visible in grey and with colour blindness.
"""

RISING_DARK = (
    *("#5E499D", "#545DA9", "#4971B1", "#3F84B5", "#3A97B6", "#41A8B5"),
    *("#53B9B0", "#6DC7A9", "#8DD4A0", "#AFDE95", "#D4E689", "#F9EB80"),
)
"""Colours of rising values on a dark page: the higher, the brighter."""

SHAPES: Mapping[str, str] = {
    "complete": "disc",
    "screened": "ring",
    "pruned": "cross",
    "failed": "triangle",
    "unfinished": "plus",
    "default": "diamond",
    "tuned": "star",
}
"""Shapes of points whose label is the state or the role of a trial."""

FURTHER_SHAPES = ("square", "peak", "ring", "plus")
"""Shapes of other points in the order of their labels, if no state uses the shape."""


@dataclass(frozen=True, slots=True)
class Style:
    """Style of a label, by its index among the labels.

    `shape` is the shape of its points in scatter plots; empty without such points.
    """

    number: int
    shape: str = ""

    @property
    def colour(self) -> int:
        """Index of the colour."""
        return self.number % len(LIGHT)

    @property
    def pattern(self) -> int:
        """Index of dashes and marker, which distinguish labels of the same colour."""
        return self.number // len(LIGHT) % len(DASHES)

    @property
    def light(self) -> str:
        """Colour on white."""
        return LIGHT[self.colour]

    @property
    def dash(self) -> tuple[int, ...]:
        """Lengths of dashes and gaps; empty for a solid line."""
        return DASHES[self.pattern]

    @property
    def marker(self) -> str:
        """Marker in Matplotlib's names."""
        return MARKERS[self.pattern]


def styles(study: ReportDocument) -> dict[str, Style]:
    """Style of each label of a study: labels under comparison first, then others as drawn."""
    names = dict.fromkeys((*study.labels, *_drawn(study)))
    shapes = _shapes(study)
    return {name: Style(number, shapes.get(name, "")) for number, name in enumerate(names)}


def needing_legend(study: ReportDocument) -> frozenset[str]:
    """Labels whose style a legend must explain; rows of interval figures carry their names."""
    blocks = [block for part in study.parts for block in part.blocks]
    drawn = [
        n for block in blocks if not isinstance(block, IntervalFigure) for n in _labels(block)
    ]
    return frozenset((*study.labels, *drawn))


def shade(share: float) -> int:
    """Index among rising colours of a value at a share of its axis."""
    # A share of 1 belongs to the last colour; values beyond fixed ends are outside 0 … 1.
    return min(len(RISING_LIGHT) - 1, max(0, int(len(RISING_LIGHT) * share)))


def _shapes(study: ReportDocument) -> Mapping[str, str]:
    clouds = dict.fromkeys(
        cloud.label
        for part in study.parts
        for block in part.blocks
        if isinstance(block, ScatterFigure)
        for cloud in block.clouds
    )
    # Other labels must not get the shape of a state that is in the same report.
    taken = {SHAPES[label] for label in clouds if label in SHAPES}
    further = cycle([shape for shape in FURTHER_SHAPES if shape not in taken])
    return {label: SHAPES.get(label) or next(further) for label in clouds}


def _drawn(study: ReportDocument) -> Iterator[str]:
    for part in study.parts:
        for block in part.blocks:
            yield from _labels(block)


def _labels(block: object) -> Iterable[str]:
    match block:
        case LineFigure():
            return [line.label for line in block.lines]
        case IntervalFigure():
            return [mark.label for panel in block.panels for mark in panel.marks]
        case Matrix():
            return block.labels
        case HeatMap():
            return [block.label]
        case ScatterFigure():
            return [*(c.label for c in block.clouds), *(line.label for line in block.lines)]
        case _:
            return ()
