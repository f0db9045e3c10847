"""Curves of imported runs as they are recorded: cut at the budget, in bins, with a final point."""

from collections.abc import Sequence
from dataclasses import replace

from rlexp.exchange.importers.study import Point
from rlexp.protocol.budget import Budget

BINS = 100
"""Points of a curve of training episodes: each holds the episodes that ended since the last."""
TOLERANCE = 0.05
"""The part of the budget that a run may lack, or have beyond it."""


def is_complete(points: Sequence[Point], steps: int) -> bool:
    """Whether a run has come to its end, or so near that its next point would be beyond it."""
    if not points:
        return False
    last = points[-1].step
    before = points[-2].step if len(points) > 1 else 0
    return last >= steps * (1 - TOLERANCE) or (last > before > 0 and 2 * last - before > steps)


def binned(points: Sequence[Point], steps: int) -> list[Point]:
    """Every hundredth of the budget, with all episodes that ended since the point before it.

    Final evaluations are no part of the curve, and stay as they are behind it.
    """
    final = [point for point in points if point.final]
    points = [point for point in points if not point.final]
    bins: dict[int, list[Point]] = {}
    for point in points:
        number = max(1, -(-point.step * BINS // steps))
        bins.setdefault(-(-number * steps // BINS), []).append(point)
    last = points[-1].step if points else 0
    return [*(_bin(own, min(end, last)) for end, own in bins.items()), *final]


def _bin(points: Sequence[Point], step: int) -> Point:
    known = all(point.lengths for point in points)
    return Point(
        step=step,
        returns=tuple(value for point in points for value in point.returns),
        lengths=tuple(n for point in points for n in point.lengths) if known else (),
        time=points[-1].time,
    )


def with_final(points: tuple[Point, ...], budget: Budget) -> tuple[Point, ...]:
    """Points with the final evaluation where the score needs one: the last, unless one is named."""
    curve = tuple(point for point in points if not point.final)
    if budget.score != "final":
        return curve
    final = points[-1:] if len(curve) == len(points) else tuple(p for p in points if p.final)[-1:]
    return (*curve, *(replace(point, final=True) for point in final))
