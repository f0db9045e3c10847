"""Shaded matrices (label against label) and heat maps (two quantities) of the page."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rlexp.metrics.estimate_text import ends, footnotes, full_text, too_narrow
from rlexp.reports.drawing.axes import AxisScale
from rlexp.reports.drawing.blocks import HeatMap, Matrix
from rlexp.reports.drawing.palette import RISING_LIGHT, Style, shade
from rlexp.stats.interval import Interval
from rlexp.text import decimals_for_span, format_number

SHADES = 10
"""Number of shades on each side of the neutral middle."""

DIGITS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixCell:
    """A cell of a matrix; `shade` is between −10 (the low end of the scale) and 10."""

    style: Style
    shade: int = 0
    estimate: str = ""
    ends: str = ""
    tooltip: str = ""
    too_narrow: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """A label compared with every other label."""

    label: str
    style: Style
    pairs: Sequence[MatrixCell]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadedMatrix:
    """A matrix prepared for the page."""

    figure: Matrix
    columns: Sequence[tuple[str, Style]]
    rows: Sequence[MatrixRow]
    notes: Sequence[str]

    @property
    def key(self) -> Sequence[tuple[int, str]]:
        """The shades of the colour key with texts; only the ends and the middle have a value."""
        low, high = self.figure.low, self.figure.high
        values = {-SHADES: low, 0: (low + high) / 2, SHADES: high}
        shades = range(-SHADES, SHADES + 1, 2)
        return [(s, format_number(values[s], DIGITS) if s in values else "") for s in shades]


def shaded_matrix(figure: Matrix, styles: Mapping[str, Style]) -> ShadedMatrix:
    """Compute the shade and texts of each pair of labels."""
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
    """The shade of a value between two ends; a value outside gets the shade of the nearer end."""
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
        estimate=format_number(value.estimate, DIGITS),
        ends=ends(value, DIGITS) if value.low is not None else "no interval",
        tooltip=f"{label} against {other}\n{full_text(value, DIGITS)}",
        too_narrow=too_narrow(value),
    )


ROOM, LETTER, LINE = 250, 7.5, 14
"""Pixels: width for names on every screen, width of a character, and height of a line."""
WRITTEN = ((6, 6), (12, 5))
"""Largest numbers of columns, and of characters, with which numbers are written in cells: on any
screen, and on wide screens only."""
PALE, DEEP = 2, 6
"""Largest shade with light text on a dark page, and smallest one with light text on a light page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatCell:
    """A cell with a value; `left` and `top` are in per cent of the heat map."""

    left: float
    top: float
    shade: int
    estimate: str
    tooltip: str

    @property
    def look(self) -> str:
        """The CSS class of the text colour that is readable on the shade."""
        return "dim" if self.shade <= PALE else "deep" if self.shade >= DEEP else "mid"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMapPlot:
    """A heat map prepared for the page.

    Attributes:
        blank: Left and top of the cells without a value, in per cent.
        size: Width and height of a cell in per cent.
        columns: Names from left to right; empty where there is no room.
        rows: Names from top to bottom.
        ends: Texts at the ends of the colour key.
        written: When numbers are written in the cells: `always`, `wide` (screens) or `never`.
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
        """All shades of the colour key."""
        return range(len(RISING_LIGHT))

    @property
    def described(self) -> str:
        """The description for screen readers."""
        f = self.figure
        return (
            f"{f.title}: {f.colour.title} over {f.x} and {f.y}, {len(self.cells)} cells from "
            f"{self.ends[0]} to {self.ends[1]}, {len(self.blank)} empty"
        )


def heat_map_plot(figure: HeatMap) -> HeatMapPlot:
    """Compute the position, shade and texts of each cell."""
    across, up = max(1, len(figure.columns)), max(1, len(figure.rows))
    size = round(100 / across, 4), round(100 / up, 4)
    low, high = figure.colour.low or 0.0, figure.colour.high or 0.0
    digits = decimals_for_span(high - low if high > low else abs(high))
    # SVG and CSS count from the top, and rows of the figure from the bottom.
    corners = {
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
        _heat_cell(figure, at, value, corners[at], (low, high), digits)
        for at, value in values.items()
    ]
    return HeatMapPlot(
        figure=figure,
        cells=cells,
        blank=[corner for at, corner in corners.items() if at not in values],
        size=size,
        columns=_spaced(figure.columns, LETTER * max(map(len, figure.columns), default=1), ROOM),
        rows=_spaced(figure.rows, LINE, ROOM)[::-1],
        ends=(format_number(low, digits), format_number(high, digits)),
        written=_written(across, cells),
        notes=(*((figure.note,) if figure.note else ()), *footnotes(values.values())),
    )


def _heat_cell(
    figure: HeatMap,
    at: tuple[int, int],
    value: Interval,
    corner: tuple[float, float],
    ends: tuple[float, float],
    digits: int,
) -> HeatCell:
    i, j = at
    low, high = ends
    where = f"{figure.x} {figure.columns[i]}, {figure.y} {figure.rows[j]}"
    height = (AxisScale(low, high).at(value.estimate) if high > low else None) or 0.0
    return HeatCell(
        left=corner[0],
        top=corner[1],
        shade=shade(height if high > low else 0.5),
        estimate=format_number(value.estimate, digits),
        tooltip=f"{figure.label}\n{where}\n{full_text(value, digits)}",
    )


def _spaced(names: Sequence[str], size: float, room: float) -> list[str]:
    """Every n-th name, so that the names fit into the room; the others are empty."""
    every = max(1, math.ceil(len(names) * size / room))
    return [name if k % every == 0 else "" for k, name in enumerate(names)]


def _written(across: int, cells: Sequence[HeatCell]) -> str:
    longest = max((len(cell.estimate) for cell in cells), default=0)
    (few, short), (several, letters) = WRITTEN
    if across <= few and longest <= short:
        return "always"
    return "wide" if across <= several and longest <= letters else "never"
