"""Layout of scatter plots and parallel coordinates, shared by the page and printed figures."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rlexp.reports.drawing.axes import AxisScale, Tick, scale, tick_texts
from rlexp.reports.drawing.blocks import (
    Axis,
    Coordinate,
    FigureLine,
    ParallelFigure,
    PointSeries,
    ScatterFigure,
    TrialLine,
)
from rlexp.reports.drawing.palette import shade

TICKS = 4
MOST_NAMES = 16
"""Maximal number of choices that are all named at their axis."""

APART = 5.5
"""Minimal distance between the names of marked threads, in per cent of the height."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedTrialLine:
    """Layout of the line of one trial.

    Attributes:
        heights: Position on each coordinate, from 0 (low end) to 1 (high end); `None` without a
            value that the coordinate can show.
        shade: Index of the colour among rising colours; `None` without a value.
    """

    thread: TrialLine
    heights: tuple[float | None, ...]
    shade: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelLayout:
    """Layout of parallel coordinates.

    Attributes:
        scales: Scale of each coordinate; `None` for one without any number.
        colour: Scale of the values of the threads; `None` without any value.
        strands: In drawing order: without a value, by rising value, marked ones last.
        left_out: Number of values that their coordinate cannot show.
    """

    scales: tuple[AxisScale | None, ...]
    colour: AxisScale | None
    strands: tuple[PlacedTrialLine, ...]
    left_out: int


def strands(figure: ParallelFigure) -> ParallelLayout | None:
    """Layout of all threads, independent of their order; `None` if none can be drawn.

    Raises:
        ValueError: A thread has more or fewer values than there are coordinates.
    """
    columns = list(zip(*(thread.values for thread in figure.threads), strict=True))
    pairs = zip(figure.coordinates, columns or [()] * len(figure.coordinates), strict=True)
    scales = tuple(coordinate_scale(coordinate, values) for coordinate, values in pairs)
    colour = scale(figure.colour, (thread.value for thread in figure.threads))
    drawn = [_strand(thread, scales, colour) for thread in figure.threads]
    if not any(height is not None for strand in drawn for height in strand.heights):
        return None
    given = sum(value is not None for thread in figure.threads for value in thread.values)
    # Missing values are gaps by intention; only given values that vanish are reported.
    shown = sum(height is not None for strand in drawn for height in strand.heights)
    return ParallelLayout(
        scales=scales,
        colour=colour,
        strands=tuple(sorted(drawn, key=_depth)),
        left_out=given - shown,
    )


def coordinate_scale(coordinate: Coordinate, values: Sequence[float | None]) -> AxisScale | None:
    """Scale of a coordinate between its ends, extended to values beyond them."""
    if coordinate.names:
        # Half a unit of room at both ends, because the axis of a single choice has length 0.
        return AxisScale(-0.5, len(coordinate.names) - 0.5)
    axis = Axis(title=coordinate.title, log=coordinate.log)
    return scale(axis, (*values, coordinate.low, coordinate.high))


def coordinate_ticks(coordinate: Coordinate, axis: AxisScale | None) -> list[Tick]:
    """Ticks of a coordinate: round values, or names of choices."""
    if axis is None:
        return []
    if not coordinate.names:
        return axis.ticks(TICKS)
    every = -(-len(coordinate.names) // MOST_NAMES)
    named = ((axis.at(k) or 0.0, name) for k, name in enumerate(coordinate.names))
    return [Tick(round(100 * at, 3), name) for at, name in list(named)[::every]]


def colour_ends(figure: ParallelFigure, axis: AxisScale) -> tuple[str, str]:
    """Texts at the ends of the colour key, with ≤ or ≥ where values lie beyond them."""
    low, high = tick_texts([axis.low, axis.high])
    at = [position for thread in figure.threads if (position := axis.at(thread.value)) is not None]
    return f"≤ {low}" if min(at) < 0 else low, f"≥ {high}" if max(at) > 1 else high


def choice(coordinate: Coordinate, value: float | None) -> float | str | None:
    """Value on a coordinate as a number, or as the name of a choice."""
    if not coordinate.names or value is None:
        return value
    whole = math.isfinite(value) and value == round(value)
    return coordinate.names[round(value)] if whole and _named(coordinate, value) else None


def parallel_notes(figure: ParallelFigure) -> list[str]:
    """Sentences about threads without a value, and about values that are not shown."""
    drawn = strands(figure)
    if drawn is None:
        return []
    grey = sum(strand.shade is None for strand in drawn.strands)
    said = []
    if grey:
        has = "has" if grey == 1 else "have"
        said.append(f"{grey:,} of {len(drawn.strands):,} {has} no value (grey).")
    if drawn.left_out:
        counted = "1 value is" if drawn.left_out == 1 else f"{drawn.left_out:,} values are"
        said.append(f"{counted} not shown (not finite, or outside its axis).")
    return said


def apart(positions: Sequence[float], least: float = APART) -> list[float]:
    """Positions in per cent, moved as little as possible to a minimal distance.

    Where there is no room for the minimal distance, they are evenly spaced.
    """
    least = min(least, 100 / max(1, len(positions) - 1))
    order = sorted(range(len(positions)), key=lambda k: positions[k])
    moved = list(positions)
    # A pass upwards enforces the distance, a pass downwards pushes names back below 100 %.
    for rank, k in enumerate(order):
        moved[k] = max(moved[k], moved[order[rank - 1]] + least if rank else 0.0)
    for rank, k in enumerate(reversed(order)):
        moved[k] = min(moved[k], moved[order[-rank]] - least if rank else 100.0)
    return [round(at, 2) for at in moved]


def _named(coordinate: Coordinate, value: float) -> bool:
    return 0 <= value < len(coordinate.names)


def _strand(
    thread: TrialLine, scales: Sequence[AxisScale | None], colour: AxisScale | None
) -> PlacedTrialLine:
    at = colour.at(thread.value) if colour else None
    return PlacedTrialLine(
        thread=thread,
        heights=tuple(
            _height(axis, value) for axis, value in zip(scales, thread.values, strict=True)
        ),
        shade=None if at is None else shade(at),
    )


def _height(axis: AxisScale | None, value: float | None) -> float | None:
    at = axis.at(value) if axis else None
    return None if at is None or not 0 <= at <= 1 else at


def _depth(strand: PlacedTrialLine) -> tuple[bool, float, str, tuple[float, ...]]:
    value = -math.inf if strand.shade is None else strand.thread.value or 0.0
    # Tuples with None cannot be compared; -1 is below every height.
    heights = tuple(-1.0 if height is None else height for height in strand.heights)
    return strand.thread.marked, value, strand.thread.name, heights


GOLDEN = (math.sqrt(5) - 1) / 2
WIDEST, FULL = 0.3, 9
"""Maximal distance of points from their tick, and the number of points that reaches it."""

PADDING = 0.04


@dataclass(frozen=True, slots=True)
class PlacedPoint:
    """Position of a point on the axes; `number` is its index in its cloud."""

    number: int
    x: float
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterLayout:
    """Layout of a scatter plot: its scales, and the points of each cloud.

    `left_out` is the number of points that are not shown, because they are not finite, have no
    logarithm, or lie beyond the fixed ends of an axis.
    """

    x: AxisScale
    y: AxisScale
    clouds: tuple[tuple[PlacedPoint, ...], ...]
    left_out: int


def scatter_layout(figure: ScatterFigure) -> ScatterLayout | None:
    """Layout of all points; `None` where there is nothing to draw.

    Points above a named tick are spread to its sides, so that none hides another. The offsets
    follow the golden ratio (Weyl's sequence) in the order of the heights, so the layout does not
    depend on the order of the points.
    """
    shown = list(_shown(figure))
    x, y = _x(figure, shown), _y(figure, shown)
    if x is None or y is None:
        return None
    spread = _spread(figure) if figure.ticks else {}
    clouds = tuple(
        tuple(
            PlacedPoint(n, spread.get((k, n), a), b)
            for n, (a, b) in enumerate(zip(cloud.x, cloud.y, strict=True))
            if _inside(x, a) and _inside(y, b)
        )
        for k, cloud in enumerate(figure.clouds)
    )
    every = sum(len(cloud.x) for cloud in figure.clouds)
    return ScatterLayout(x=x, y=y, clouds=clouds, left_out=every - sum(map(len, clouds)))


def tick_name(figure: ScatterFigure, x: float) -> str | None:
    """Name of the tick of a point; `None` where ticks have no names."""
    if not math.isfinite(x) or not 0 <= round(x) < len(figure.ticks):
        return None
    return figure.ticks[round(x)]


def left_out_note(figure: ScatterFigure) -> str:
    """Sentence with the number of points that are not shown; empty without any."""
    drawn = scatter_layout(figure)
    count = drawn.left_out if drawn else sum(len(cloud.x) for cloud in figure.clouds)
    if not count:
        return ""
    said = "1 point is" if count == 1 else f"{count:,} points are"
    return f"{said} not shown (not finite, or outside the axes)."


def _shown(figure: ScatterFigure) -> Iterator[tuple[float, float]]:
    parts: tuple[PointSeries | FigureLine, ...] = (*figure.clouds, *figure.lines)
    for part in parts:
        for a, b in zip(part.x, part.y, strict=True):
            if b is not None and math.isfinite(a) and math.isfinite(b):
                yield a, b


def _x(figure: ScatterFigure, shown: Sequence[tuple[float, float]]) -> AxisScale | None:
    if figure.ticks:
        return AxisScale(-0.5, len(figure.ticks) - 0.5) if shown else None
    return scale(figure.x, (a for a, _ in shown), padding=PADDING / 2)


def _y(figure: ScatterFigure, shown: Sequence[tuple[float, float]]) -> AxisScale | None:
    marked = [value for _, value in figure.marks] if shown else []
    ends = (v for line in figure.lines for v in _band(line))
    return scale(figure.y, [*(b for _, b in shown), *ends, *marked], padding=PADDING)


def _band(line: FigureLine) -> Iterator[float | None]:
    yield from line.low or ()
    yield from line.high or ()


def _inside(on: AxisScale, value: float) -> bool:
    at = on.at(value)
    return at is not None and 0 <= at <= 1


def _spread(figure: ScatterFigure) -> dict[tuple[int, int], float]:
    """Horizontal position of points near their tick, by cloud and number."""
    above = defaultdict(list)
    for k, cloud in enumerate(figure.clouds):
        for n, (x, y, name) in enumerate(zip(cloud.x, cloud.y, cloud.names, strict=True)):
            if math.isfinite(x) and math.isfinite(y):
                # The name follows the height, so that equal heights have an order too.
                above[x].append((y, name, cloud.label, k, n))
    return {
        (k, n): x + _aside(rank, len(points))
        for x, points in above.items()
        for rank, (*_, k, n) in enumerate(sorted(points))
    }


def _aside(rank: int, count: int) -> float:
    widest = WIDEST * min(1.0, (count - 1) / (FULL - 1))
    return widest * (2 * ((rank + 0.5) * GOLDEN % 1) - 1)
