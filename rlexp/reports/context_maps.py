"""Where contexts stand on the axes of a map, and what was reached in each of its cells."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rlexp.reports.analysis.generalisation import over_runs
from rlexp.reports.analysis.scale import possible_scores
from rlexp.reports.context_tests import LEVEL, ContextTests, PlayedContexts
from rlexp.reports.drawing.axes import tick_step, tick_texts
from rlexp.reports.settings import Settings
from rlexp.stats.interval import Interval

Array = NDArray[np.float64]

MOST = 12
"""Values of a parameter that have a cell each; more of them share bins."""
MOST_POINTS = 100
"""Values of a parameter alone that have a point each on a line, where all runs have them."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where values of a parameter stand: at values of their own, or in bins between `edges`.

    Attributes:
        at: Values, or middles of bins, of shape (places,), rising.
        edges: Of the bins, one more than there are; nothing where there are none.
    """

    parameter: str
    at: tuple[float, ...]
    edges: tuple[float, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """A value (`9.8`), or the ends of a bin (`9 to 10`), in words."""
        if not self.edges:
            return tuple(f"{value:.6g}".replace("-", "−") for value in self.at)
        return tuple(f"{a} to {b}" for a, b in pairwise(tick_texts(list(self.edges))))

    def of(self, values: Array) -> NDArray[np.int64]:
        """The place of each value, of shape (values,)."""
        if not self.edges:
            return np.searchsorted(self.at, values).astype(np.int64)
        found = np.searchsorted(self.edges, values, side="right") - 1
        return np.clip(found, 0, len(self.at) - 1).astype(np.int64)


def varied(tests: Sequence[ContextTests]) -> tuple[str, ...]:
    """Parameters that an axis could show: quantities with several values in the tests of a task."""
    names = dict.fromkeys(name for own in tests for name in own.parameters)
    return tuple(n for n in sorted(names) if n != LEVEL and len(np.unique(_values(tests, n))) > 1)


def places(tests: Sequence[ContextTests], names: Sequence[str], bins: int) -> list[Places]:
    """The places of parameters, common to all labels of a task."""
    alone = len(names) == 1
    fixed = all(own.same and (alone or len(own.runs) > 1) for own in tests)
    most = MOST_POINTS if fixed and alone else MOST
    return [_places(name, tests, most, bins, fixed=fixed) for name in names]


def cells(
    tests: ContextTests, axes: Sequence[Places], settings: Settings
) -> dict[tuple[int, ...], Interval]:
    """The mean return over the runs in each cell where one was played, by its places.

    Of each run, the contexts in the cell weigh the same.
    """
    found: dict[tuple[int, ...], list[float]] = {}
    columns = [tests.parameters.index(axis.parameter) for axis in axes]
    for run in tests.runs:
        for cell, value in _means(run, columns, axes).items():
            found.setdefault(cell, []).append(value)
    ends = possible_scores([tests.cell], None)
    return {
        cell: over_runs(found[cell], settings, ends, resampling=settings.curve_resampling)
        for cell in sorted(found)
    }


def _means(
    run: PlayedContexts, columns: Sequence[int], axes: Sequence[Places]
) -> dict[tuple[int, ...], float]:
    placed = [axis.of(run.contexts[:, k]) for k, axis in zip(columns, axes, strict=True)]
    gathered: dict[tuple[int, ...], list[float]] = {}
    for cell, value in zip(zip(*placed, strict=True), run.means, strict=True):
        gathered.setdefault(tuple(map(int, cell)), []).append(float(value))
    return {cell: math.fsum(values) / len(values) for cell, values in gathered.items()}


def _places(
    name: str, tests: Sequence[ContextTests], most: int, bins: int, *, fixed: bool
) -> Places:
    own = np.unique(_values(tests, name))
    if len(own) <= most and (fixed or all(_repeats(name, one) for one in tests)):
        return Places(name, tuple(own.tolist()))
    step = tick_step(float(own[-1] - own[0]) / bins)
    first, last = math.floor(own[0] / step + 1e-9), math.ceil(own[-1] / step - 1e-9)
    edges = tuple(step * k for k in range(first, last + 1))
    return Places(name, tuple((a + b) / 2 for a, b in pairwise(edges)), edges)


def _repeats(name: str, own: ContextTests) -> bool:
    """Whether contexts share values; those of a sample do not, and each would have a cell."""
    return name not in own.parameters or len(np.unique(_values([own], name))) < len(own.contexts)


def _values(tests: Sequence[ContextTests], name: str) -> Array:
    """A parameter's value in every context of every label."""
    every = [t.contexts[:, t.parameters.index(name)] for t in tests if name in t.parameters]
    return np.concatenate(every)
