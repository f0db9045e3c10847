"""Line plots of the page: curves as SVG paths in a square of 10,000 units."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Any, TypeVar

from rlexp.reports.drawing.axes import AxisScale, Tick, scale
from rlexp.reports.drawing.blocks import FigureLine, LineFigure
from rlexp.reports.drawing.palette import Style
from rlexp.text import MOST_DECIMALS, decimals_for_span, name_with_value

TICKS = 5


CROWDED = (10, 30)
"""Numbers of single runs of a label above which each run is drawn fainter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePath:
    """A path of one label; `kind` is `band`, `faint`, `line` or `point` (between two gaps)."""

    kind: str
    style: Style
    d: str

    @property
    def inside(self) -> bool:
        """Whether nothing leaves the axes; then lines on the edge are drawn in full width."""
        # The path holds integers only, so its text is enough to find every coordinate.
        return all(0 <= int(n) <= UNITS for n in re.findall(r"-?\d+", self.d))


@dataclass(frozen=True, slots=True, kw_only=True)
class LinePlot:
    """A line plot prepared for the page; it is empty if there is no value to draw.

    Attributes:
        marks: Name and height (per cent from the top) of each horizontal line.
        data: Numbers that the script shows in tooltips.
    """

    figure: LineFigure
    labels: tuple[str, ...]
    x_ticks: Sequence[Tick] = ()
    y_ticks: Sequence[Tick] = ()
    paths: Sequence[CurvePath] = ()
    marks: Sequence[tuple[str, float]] = ()
    data: Mapping[str, Any] | None = None

    @property
    def dotted(self) -> tuple[str, ...]:
        """Labels whose legend entry is a point: none."""
        return ()

    @property
    def crowd(self) -> int:
        """How faint single runs are drawn so that aggregates stay visible: 0, 1 or 2."""
        runs = Counter(line.label for line in self.figure.lines if line.faint)
        most = max(runs.values(), default=0)
        return sum(most > few for few in CROWDED)

    @property
    def inside(self) -> bool:
        """Whether nothing leaves the axes; then lines on the edge are drawn in full width."""
        return all(path.inside for path in self.paths)

    @property
    def described(self) -> str:
        """The description for screen readers."""
        named = ", ".join(self.labels[:8]) + (" and others" if len(self.labels) > 8 else "")
        return f"{self.figure.title}: {self.figure.y.title} over {self.figure.x.title}; {named}"


def line_plot(figure: LineFigure, styles: Mapping[str, Style]) -> LinePlot:
    """Prepare curves with their axes."""
    labels = tuple(dict.fromkeys(line.label for line in figure.lines))
    scales = _scales(figure)
    if scales is None:
        return LinePlot(figure=figure, labels=labels)
    x, y = scales
    marks = ((name_with_value(name, value), y.at(value)) for name, value in figure.marks)
    return LinePlot(
        figure=figure,
        labels=labels,
        x_ticks=x.ticks(TICKS),
        y_ticks=[Tick(round(100 - t.at, 3), t.text) for t in y.ticks(TICKS)],
        paths=curve_paths(figure.lines, x, y, styles),
        marks=[(name, round(100 - 100 * at, 3)) for name, at in marks if at is not None],
        data={
            "x": axis_data(x, figure.x.title),
            "y": axis_data(y, figure.y.title),
            "curves": [_curve_data(line, x, y, styles) for line in figure.lines if not line.faint],
        },
    )


def _scales(figure: LineFigure) -> tuple[AxisScale, AxisScale] | None:
    shown = [
        (a, b)
        for line in figure.lines
        for a, b in zip(line.x, line.y, strict=True)
        if b is not None
    ]
    ends = [v for line in figure.lines for v in (*(line.low or ()), *(line.high or ()))]
    # Marks alone are no data: a figure without curves stays empty.
    marked = [value for _, value in figure.marks] if shown else []
    x = scale(figure.x, (a for a, _ in shown))
    y = scale(figure.y, [*(b for _, b in shown), *ends, *marked], padding=0.04)
    return None if x is None or y is None else (x, y)


def _curve_data(
    line: FigureLine, x: AxisScale, y: AxisScale, styles: Mapping[str, Style]
) -> dict[str, Any]:
    pairs = zip(line.x, line.y, strict=True)
    # A tooltip must not name a value that has no place in the figure.
    visible = [None if x.at(a) is None or y.at(b) is None else b for a, b in pairs]
    data = {
        "label": styles[line.label].number,
        "x": rounded_values(line.x),
        "y": rounded_values(visible),
    }
    if line.low is not None and line.high is not None:
        data |= {"low": rounded_values(line.low), "high": rounded_values(line.high)}
    return data


UNITS = 10_000
"""Units of the square's side: fine enough for any screen, with short integers in the file."""


PathPoint = tuple[int, int]


T = TypeVar("T")


def curve_paths(
    lines: Sequence[FigureLine], x: AxisScale, y: AxisScale, styles: Mapping[str, Style]
) -> list[CurvePath]:
    """The paths of curves in drawing order: bands, single runs, and aggregates on top."""
    return [
        CurvePath(kind=kind, style=styles[line.label], d=d)
        for kind, line in _layers(lines)
        if (d := _drawn(kind, line, x, y))
    ]


# A live page draws the same lines again and again. A page of 1,000 runs has about 3,000 paths.
@lru_cache(maxsize=8192)
def _drawn(kind: str, line: FigureLine, x: AxisScale, y: AxisScale) -> str:
    return DRAWN[kind](line, x, y)


def axis_data(drawn: AxisScale, title: str) -> dict[str, Any]:
    """The data of an axis for the script."""
    # A tooltip shows one digit more than the axis, to tell near points apart.
    digits = None if drawn.log else decimals_for_span(drawn.high - drawn.low) + 1
    # With null, the script shows significant digits instead; it refuses very many decimals.
    if digits is not None and digits > MOST_DECIMALS + 1:
        digits = None
    ends = {"low": drawn.low, "high": drawn.high, "log": drawn.log}
    return {**ends, "title": title, "digits": digits}


def rounded_values(values: Sequence[float | None], digits: int = 6) -> list[float | None]:
    """Values rounded to significant digits; None for a non-finite value."""
    # `v - v` is nan, and so not 0, for nan and infinities.
    return [None if v is None or v - v != 0 else float(f"{v:.{digits}g}") for v in values]


def _layers(lines: Sequence[FigureLine]) -> Iterator[tuple[str, FigureLine]]:
    yield from (("band", line) for line in lines if not line.faint)
    yield from (("faint", line) for line in lines if line.faint)
    yield from (("line", line) for line in lines if not line.faint)
    yield from (("point", line) for line in lines)


def _runs(line: FigureLine, x: AxisScale, y: AxisScale) -> list[list[PathPoint]]:
    return _unbroken([_point(a, b, x, y) for a, b in zip(line.x, line.y, strict=True)])


def _curve(line: FigureLine, x: AxisScale, y: AxisScale) -> str:
    runs = (run for run in _runs(line, x, y) if len(run) > 1)
    return "".join(_path(_stairs(run) if line.steps else run) for run in runs)


def _single_points(line: FigureLine, x: AxisScale, y: AxisScale) -> str:
    # A path of one repeated point is drawn as a dot by its round line caps.
    return "".join(_path(run * 2) for run in _runs(line, x, y) if len(run) == 1)


def _band(line: FigureLine, x: AxisScale, y: AxisScale) -> str:
    if line.low is None or line.high is None:
        return ""
    both = [
        None if low is None or high is None else (low, high)
        for low, high in zip(
            (_point(a, b, x, y) for a, b in zip(line.x, line.low, strict=True)),
            (_point(a, b, x, y) for a, b in zip(line.x, line.high, strict=True)),
            strict=True,
        )
    ]
    return "".join(_ring(run, line.steps) for run in _unbroken(both))


def _ring(run: Sequence[tuple[PathPoint, PathPoint]], steps: bool) -> str:
    low, high = [pair[0] for pair in run], [pair[1] for pair in run]
    if steps:
        low, high = _stairs(low), _stairs(high)
    return _path([*high, *reversed(low)]) + "Z"


DRAWN = {"band": _band, "faint": _curve, "line": _curve, "point": _single_points}


def _point(a: float, b: float | None, x: AxisScale, y: AxisScale) -> PathPoint | None:
    across, up = x.at(a), y.at(b)
    if across is None or up is None:
        return None
    return round(UNITS * across), round(UNITS * (1 - up))


def _unbroken(points: Sequence[T | None]) -> list[list[T]]:
    runs = groupby(points, key=lambda point: point is None)
    return [[p for p in run if p is not None] for gap, run in runs if not gap]


def _stairs(points: Sequence[PathPoint]) -> list[PathPoint]:
    corners = (((a, b), (c, b)) for (a, b), (c, _) in pairwise(points))
    return [*(corner for pair in corners for corner in pair), *points[-1:]]


def _path(points: Sequence[PathPoint]) -> str:
    return "M" + "L".join(f"{a} {b}" for a, b in points)
