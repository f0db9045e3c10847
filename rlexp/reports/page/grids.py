"""Heat maps: a cell in the colour of its value for every pair of values of two quantities."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rlexp.metrics.estimate_words import ends, everything, footnotes, too_narrow
from rlexp.reports.drawing.axes import Scale
from rlexp.reports.drawing.blocks import HeatMap, Matrix
from rlexp.reports.drawing.palette import RISING_LIGHT, Style, shade
from rlexp.stats.interval import Interval
from rlexp.text import digits_for, number

SHADES = 10
"""Shades on each side of the neutral middle."""

DIGITS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixCell:
    """A cell: `shade` runs from −10 (the low end of the scale) to 10."""

    style: Style
    shade: int = 0
    estimate: str = ""
    ends: str = ""
    told: str = ""
    too_narrow: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """A label against every other."""

    label: str
    style: Style
    pairs: Sequence[MatrixCell]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadedMatrix:
    """What the page shows of a matrix."""

    figure: Matrix
    columns: Sequence[tuple[str, Style]]
    rows: Sequence[MatrixRow]
    notes: Sequence[str]

    @property
    def key(self) -> Sequence[tuple[int, str]]:
        """Shades of the colour key; ends and middle have their value."""
        low, high = self.figure.low, self.figure.high
        values = {-SHADES: low, 0: (low + high) / 2, SHADES: high}
        shades = range(-SHADES, SHADES + 1, 2)
        return [(s, number(values[s], DIGITS) if s in values else "") for s in shades]


def shaded_matrix(figure: Matrix, styles: Mapping[str, Style]) -> ShadedMatrix:
    """Give each pair its shade and its words."""
    columns = [(label, styles[label]) for label in figure.labels]
    every = [value for row in figure.values for value in row if value is not None]
    return ShadedMatrix(
        figure=figure,
        columns=columns,
        rows=[
            MatrixRow(
                label=label,
                style=styles[label],
                pairs=[
                    _matrix_cell(figure, label, other, value, style)
                    for value, (other, style) in zip(row, columns, strict=True)
                ],
            )
            for label, row in zip(figure.labels, figure.values, strict=True)
        ],
        notes=(*((figure.note,) if figure.note else ()), *footnotes(every)),
    )


def shade_step(value: float, low: float, high: float) -> int:
    """The shade of a value between two ends; beyond them that of the end."""
    if not math.isfinite(value) or high <= low:
        return 0
    share = min(1.0, max(0.0, (value - low) / (high - low)))
    return round(SHADES * (2 * share - 1))


def _matrix_cell(
    figure: Matrix, label: str, other: str, value: Interval | None, style: Style
) -> MatrixCell:
    if value is None:
        return MatrixCell(style=style, estimate="" if label == other else "—")
    return MatrixCell(
        style=style,
        shade=shade_step(value.estimate, figure.low, figure.high),
        estimate=number(value.estimate, DIGITS),
        ends=ends(value, DIGITS) if value.low is not None else "no interval",
        told=f"{label} against {other}\n{everything(value, DIGITS)}",
        too_narrow=too_narrow(value),
    )


ROOM, LETTER, LINE = 250, 7.5, 14
"""Pixels across that every screen has for names, of one of their letters, and of a line."""
WRITTEN = ((6, 6), (12, 5))
"""Cells across up to which numbers are written in them on any screen, or on wide ones, and the
letters that these may have."""
PALE, DEEP = 2, 6
"""Shades up to which a dark page needs light letters, and from which on a light page does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatCell:
    """A cell with a value; places and sizes are in per cent from the left and from the top."""

    left: float
    top: float
    shade: int
    estimate: str
    told: str

    @property
    def look(self) -> str:
        """Which letters are read on its shade."""
        return "dim" if self.shade <= PALE else "deep" if self.shade >= DEEP else "mid"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMapPlot:
    """What the page shows of a heat map.

    Attributes:
        blank: Places of the cells without a value.
        size: Width and height of a cell in per cent.
        columns: Names from left to right; empty ones have no room.
        rows: Names from the top to the bottom.
        ends: What stands at the ends of the colour key.
        written: `always` or `wide` where numbers stand in the cells, `never` where they have no room.
    """

    figure: HeatMap
    cells: Sequence[HeatCell]
    blank: Sequence[tuple[float, float]]
    size: tuple[float, float]
    columns: Sequence[str]
    rows: Sequence[str]
    ends: tuple[str, str]
    written: str
    notes: Sequence[str]

    @property
    def shades(self) -> range:
        """Those of the colour key."""
        return range(len(RISING_LIGHT))

    @property
    def described(self) -> str:
        """What a reader hears who does not see it."""
        f = self.figure
        return (
            f"{f.title}: {f.colour.title} over {f.x} and {f.y}, {len(self.cells)} cells from "
            f"{self.ends[0]} to {self.ends[1]}, {len(self.blank)} empty"
        )


def heat_map_plot(figure: HeatMap) -> HeatMapPlot:
    """Give each cell its place, its shade and its words."""
    across, up = max(1, len(figure.columns)), max(1, len(figure.rows))
    size = round(100 / across, 4), round(100 / up, 4)
    low, high = figure.colour.low or 0.0, figure.colour.high or 0.0
    digits = digits_for(high - low if high > low else abs(high))
    places = {
        (i, j): (round(100 * i / across, 4), round(100 * (up - 1 - j) / up, 4))
        for j in range(up)
        for i in range(across)
    }
    values = {
        (i, j): value
        for j, row in enumerate(figure.values)
        for i, value in enumerate(row)
        if value is not None and math.isfinite(value.estimate)
    }
    cells = [
        _heat_cell(figure, at, value, places[at], (low, high), digits)
        for at, value in values.items()
    ]
    return HeatMapPlot(
        figure=figure,
        cells=cells,
        blank=[place for at, place in places.items() if at not in values],
        size=size,
        columns=_spaced(figure.columns, LETTER * max(map(len, figure.columns), default=1), ROOM),
        rows=_spaced(figure.rows, LINE, ROOM)[::-1],
        ends=(number(low, digits), number(high, digits)),
        written=_written(across, cells),
        notes=(*((figure.note,) if figure.note else ()), *footnotes(values.values())),
    )


def _heat_cell(
    figure: HeatMap,
    at: tuple[int, int],
    value: Interval,
    place: tuple[float, float],
    ends: tuple[float, float],
    digits: int,
) -> HeatCell:
    i, j = at
    low, high = ends
    where = f"{figure.x} {figure.columns[i]}, {figure.y} {figure.rows[j]}"
    stands = (Scale(low, high).at(value.estimate) if high > low else None) or 0.0
    return HeatCell(
        left=place[0],
        top=place[1],
        shade=shade(stands if high > low else 0.5),
        estimate=number(value.estimate, digits),
        told=f"{figure.label}\n{where}\n{everything(value, digits)}",
    )


def _spaced(names: Sequence[str], size: float, room: float) -> list[str]:
    """Names that have room, every so many of them; the others are empty."""
    every = max(1, math.ceil(len(names) * size / room))
    return [name if k % every == 0 else "" for k, name in enumerate(names)]


def _written(across: int, cells: Sequence[HeatCell]) -> str:
    longest = max((len(cell.estimate) for cell in cells), default=0)
    (few, short), (several, letters) = WRITTEN
    if across <= few and longest <= short:
        return "always"
    return "wide" if across <= several and longest <= letters else "never"
