"""Which scores a task allows at all: no true value lies beyond them, whatever an interval says."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from rlexp.reports.evidence import Cell
from rlexp.reports.scale import Scale
from rlexp.stats.interval import Interval


def possible_scores(
    cells: Sequence[Cell], scale: Mapping[str, Scale | None] | None
) -> tuple[float | None, float | None]:
    """The least and the greatest score of any of the tasks, on their scale if there is one.

    An end is missing where a task does not declare it (`environment.reference.minimum`,
    `.maximum`).
    """
    return _end("minimum", min, cells, scale), _end("maximum", max, cells, scale)


def cut_to(found: Interval, least: float | None, greatest: float | None) -> Interval:
    """An interval without what is impossible, which loses no coverage.

    Where the estimate itself lies beyond an end, the end is declared wrongly: then nothing is cut.
    """
    if found.low is None or found.high is None:
        return found
    low = found.low if least is None else max(found.low, least)
    high = found.high if greatest is None else min(found.high, greatest)
    return replace(found, low=low, high=high) if low <= found.estimate <= high else found


def _end(
    name: str,
    furthest: Callable[[list[float]], float],
    cells: Sequence[Cell],
    scale: Mapping[str, Scale | None] | None,
) -> float | None:
    placed = []
    for cell in cells:
        declared = cell.members[0].configuration.reference.get(name)
        if declared is None:
            return None
        own = scale[cell.task] if scale else None
        score = np.asarray([declared], dtype=np.float64)
        placed.append(float((own.normalised(score) if own else score)[0]))
    return furthest(placed)
