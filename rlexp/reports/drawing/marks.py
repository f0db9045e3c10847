"""Where the points of a scatter plot stand: the same on the page and in print."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rlexp.reports.drawing.axes import Scale, scale
from rlexp.reports.drawing.blocks import Cloud, Line, Scatter

GOLDEN = (math.sqrt(5) - 1) / 2
WIDEST, FULL = 0.3, 9
"""How far points leave their tick at most, and how many there must be for that."""

PADDING = 0.04


@dataclass(frozen=True, slots=True)
class Place:
    """Where a point stands on its axes; `number` is its place in its cloud."""

    number: int
    x: float
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The axes of a scatter plot, and on them the points of each cloud.

    `left_out` counts points that are not shown: they are no numbers, have no logarithm, or lie
    beyond the ends that an axis names.
    """

    x: Scale
    y: Scale
    clouds: tuple[tuple[Place, ...], ...]
    left_out: int


def places(figure: Scatter) -> Places | None:
    """Place every point; nothing where there is nothing to draw.

    Points above a named tick are spread to its sides, so that none hides another: in the order of
    their heights, by the golden ratio (Weyl's sequence), whatever their order in the figure.
    """
    shown = list(_shown(figure))
    x, y = _x(figure, shown), _y(figure, shown)
    if x is None or y is None:
        return None
    spread = _spread(figure) if figure.ticks else {}
    clouds = tuple(
        tuple(
            Place(n, spread.get((k, n), a), b)
            for n, (a, b) in enumerate(zip(cloud.x, cloud.y, strict=True))
            if _inside(x, a) and _inside(y, b)
        )
        for k, cloud in enumerate(figure.clouds)
    )
    every = sum(len(cloud.x) for cloud in figure.clouds)
    return Places(x=x, y=y, clouds=clouds, left_out=every - sum(map(len, clouds)))


def tick_name(figure: Scatter, x: float) -> str | None:
    """The name of the tick that a point belongs to, where ticks have names."""
    if not math.isfinite(x) or not 0 <= round(x) < len(figure.ticks):
        return None
    return figure.ticks[round(x)]


def left_out_words(figure: Scatter) -> str:
    """How many points a figure does not show, in a sentence; empty where it shows all."""
    drawn = places(figure)
    count = drawn.left_out if drawn else sum(len(cloud.x) for cloud in figure.clouds)
    if not count:
        return ""
    said = "1 point is" if count == 1 else f"{count:,} points are"
    return f"{said} not shown, for want of a place on these axes."


def _shown(figure: Scatter) -> Iterator[tuple[float, float]]:
    parts: tuple[Cloud | Line, ...] = (*figure.clouds, *figure.lines)
    for part in parts:
        for a, b in zip(part.x, part.y, strict=True):
            if b is not None and math.isfinite(a) and math.isfinite(b):
                yield a, b


def _x(figure: Scatter, shown: Sequence[tuple[float, float]]) -> Scale | None:
    if figure.ticks:
        return Scale(-0.5, len(figure.ticks) - 0.5) if shown else None
    return scale(figure.x, (a for a, _ in shown), padding=PADDING / 2)


def _y(figure: Scatter, shown: Sequence[tuple[float, float]]) -> Scale | None:
    marked = [value for _, value in figure.marks] if shown else []
    ends = (v for line in figure.lines for v in _band(line))
    return scale(figure.y, [*(b for _, b in shown), *ends, *marked], padding=PADDING)


def _band(line: Line) -> Iterator[float | None]:
    yield from line.low or ()
    yield from line.high or ()


def _inside(on: Scale, value: float) -> bool:
    at = on.at(value)
    return at is not None and 0 <= at <= 1


def _spread(figure: Scatter) -> dict[tuple[int, int], float]:
    """Where points stand beside their tick, by cloud and number."""
    above = defaultdict(list)
    for k, cloud in enumerate(figure.clouds):
        for n, (x, y, name) in enumerate(zip(cloud.x, cloud.y, cloud.names, strict=True)):
            if math.isfinite(x) and math.isfinite(y):
                above[x].append((y, name, cloud.label, k, n))
    return {
        (k, n): x + _aside(rank, len(points))
        for x, points in above.items()
        for rank, (*_, k, n) in enumerate(sorted(points))
    }


def _aside(rank: int, count: int) -> float:
    widest = WIDEST * min(1.0, (count - 1) / (FULL - 1))
    return widest * (2 * ((rank + 0.5) * GOLDEN % 1) - 1)
