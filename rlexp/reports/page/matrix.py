"""Matrices of pairs: a coloured cell with its number, row against column."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rlexp.metrics.estimate_words import ends, everything, footnotes, too_narrow
from rlexp.reports.drawing.blocks import Matrix
from rlexp.reports.drawing.palette import Style
from rlexp.stats.interval import Interval
from rlexp.text import number

SHADES = 10
"""Shades on each side of the neutral middle."""

DIGITS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
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
    pairs: Sequence[Pair]


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
                    _pair(figure, label, other, value, style)
                    for value, (other, style) in zip(row, columns, strict=True)
                ],
            )
            for label, row in zip(figure.labels, figure.values, strict=True)
        ],
        notes=(*((figure.note,) if figure.note else ()), *footnotes(every)),
    )


def shade(value: float, low: float, high: float) -> int:
    """The shade of a value between two ends; beyond them that of the end."""
    if not math.isfinite(value) or high <= low:
        return 0
    share = min(1.0, max(0.0, (value - low) / (high - low)))
    return round(SHADES * (2 * share - 1))


def _pair(figure: Matrix, label: str, other: str, value: Interval | None, style: Style) -> Pair:
    if value is None:
        return Pair(style=style, estimate="" if label == other else "—")
    return Pair(
        style=style,
        shade=shade(value.estimate, figure.low, figure.high),
        estimate=number(value.estimate, DIGITS),
        ends=ends(value, DIGITS) if value.low is not None else "no interval",
        told=f"{label} against {other}\n{everything(value, DIGITS)}",
        too_narrow=too_narrow(value),
    )
