"""Performance profiles: which fraction of the runs scores above each threshold."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlexp.stats.standard_error import no_spread
from rlexp.stats.task_scores import TaskScores

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

LATTICE = 2**16
"""Values of a resampled fraction up to which its distribution is computed exactly."""
FINENESS = 64
"""With rounded weights, values per 1/n_j of a task: no weight is off by more than 1 in 128."""
CELLS = 2**20
"""Complex numbers of a product computed at a time."""
TABLE = 2**22
"""Complex numbers of a table of characteristic functions: 64 MiB."""
ROUNDING = 1e-12
"""What a cumulative probability may be off by."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Profile:
    """Fractions of runs above thresholds, with a pointwise band.

    The band says nothing about thresholds that all runs exceed, or none: it has no width there.

    Attributes:
        thresholds: Of shape (T,), in the unit of the scores.
        fractions: Of shape (T,), from 0 to 1.
        low: Of shape (T,); nothing where no band is possible.
        high: Of shape (T,); nothing where no band is possible.
        level: Of the band at each threshold.
        method: How the band was computed, and how exact it is.
        n: Runs of all tasks.
        tasks: How many there are.
        reason: Why there is no band.
    """

    thresholds: Array
    fractions: Array
    low: Array | None
    high: Array | None
    level: float
    method: str
    n: int
    tasks: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Lattice:
    """Whole numbers in which a resampled fraction is counted.

    Attributes:
        sizes: Runs of each task.
        unit: What a task weighs whose runs are all above a threshold.
        exact: Whether the unit is a multiple of every size.
    """

    sizes: tuple[int, ...]
    unit: int
    exact: bool

    @property
    def weights(self) -> Integers:
        """Of a run of each task, of shape (m,)."""
        return np.rint(self.unit / np.asarray(self.sizes)).astype(np.int64)

    @property
    def points(self) -> int:
        """Values that the weight of the runs above a threshold can take: from 0 to all of it."""
        return int(self.weights @ np.asarray(self.sizes)) + 1


def performance_profile(scores: TaskScores, thresholds: ArrayLike, level: float = 0.95) -> Profile:
    """Fraction of the runs that score above each threshold, every task weighing the same.

    The fraction is `run_score_deviation` of Agarwal et al. (2021, "Deep Reinforcement Learning at
    the Edge of the Statistical Precipice", §4.2): strictly above. Its band is the percentile
    interval of the stratified bootstrap in the limit of infinitely many resamples: of n_j runs
    drawn from task j, those above are Binomial(n_j, p_j), and the distribution of the mean of the
    tasks is the product of their characteristic functions, transformed back. No seed is needed.

    With so many different n_j that the mean takes more than `LATTICE` values, weights of runs are
    rounded by less than 1 %; with very many runs the band is the normal approximation. `method`
    says which. For few runs of one task the band is too narrow, as every percentile interval is
    (95 % means about 76 % with 3 runs, 84 % with 5 and 90 % with 10).

    Args:
        scores: Of shape (N,).
        thresholds: Of shape (T,), in any order.
        level: Of the band at each threshold.

    Raises:
        ValueError: A threshold is not finite, or the level is not between 0 and 1.
    """
    at = _thresholds(thresholds)
    if not 0 < level < 1:
        raise ValueError(f"a level of {level} makes no band: choose one between 0 and 1")
    above = _runs_above(scores, at)
    low, high, method = None, None, "none"
    reason = no_spread(scores)
    if reason is None:
        low, high, method = _band(above, scores.sizes, (1 - level) / 2)
    return Profile(
        thresholds=at,
        fractions=_fractions(above, scores.sizes),
        low=low,
        high=high,
        level=level,
        method=method,
        n=scores.n,
        tasks=len(scores.sizes),
        reason=reason,
    )


def _thresholds(thresholds: ArrayLike) -> Array:
    at = np.asarray(thresholds, dtype=np.float64).ravel()
    if not np.isfinite(at).all():
        raise ValueError("a threshold must be a finite number")
    return at


def _runs_above(scores: TaskScores, thresholds: Array) -> Integers:
    """Runs of each task above each threshold, of shape (T, m)."""
    below = [np.searchsorted(np.sort(task), thresholds, "right") for task in scores.by_task()]
    return np.asarray(scores.sizes) - np.stack(below, axis=-1)


def _fractions(above: Integers, sizes: tuple[int, ...]) -> Array:
    """Mean over tasks of the fractions of their runs, of shape (T,)."""
    if len(set(sizes)) == 1:
        return np.asarray(above.sum(axis=-1) / sum(sizes))
    ordered = np.sort(above / np.asarray(sizes), axis=-1)
    return np.asarray(ordered.mean(axis=-1))


def _band(above: Integers, sizes: tuple[int, ...], tail: float) -> tuple[Array, Array, str]:
    """Low and high ends, each of shape (T,), and how they were found."""
    lattice = _lattice(sizes)
    if lattice is None:
        return (*_normal(above, sizes, tail), "stratified bootstrap, normal approximation")
    # Thresholds between the same scores have the same runs above, and the same band.
    rows, back = np.unique(above, axis=0, return_inverse=True)
    back = back.reshape(-1)  # NumPy 2.0 returns a column here, every other version a vector.
    ends = _quantiles(rows, lattice, tail) / (lattice.points - 1)
    if lattice.exact:
        return ends[back, 0], ends[back, 1], "exact percentile stratified bootstrap"
    shift = _fractions(rows, sizes) - rows @ lattice.weights / (lattice.points - 1)
    low, high = np.clip(ends + shift[:, np.newaxis], 0, 1)[back].T
    return low, high, "percentile stratified bootstrap, weights rounded by less than 1 %"


def _lattice(sizes: tuple[int, ...]) -> Lattice | None:
    """A lattice of bounded size, exact where possible; nothing where it would be too coarse."""
    functions = sum(n + 1 for n in set(sizes))
    largest = min(LATTICE, 2 * TABLE // functions) // len(sizes)
    unit = math.lcm(*sizes)
    if unit <= largest:
        return Lattice(sizes, unit, exact=True)
    return Lattice(sizes, largest, exact=False) if largest >= FINENESS * max(sizes) else None


def _quantiles(above: Integers, lattice: Lattice, tail: float) -> Integers:
    """Smallest lattice points with at least a probability of the tails below, of shape (T, 2)."""
    points = lattice.points
    tables, rows = _characteristic_functions(lattice)
    index = above + rows
    found = np.empty((len(above), 2), np.int64)
    step = max(1, CELLS // (tables.shape[1] * above.shape[1]))
    for first in range(0, len(above), step):
        product = np.multiply.reduce(tables[index[first : first + step]], axis=1)
        cumulative = np.cumsum(np.fft.irfft(product, points, axis=-1), axis=-1)
        for end, probability in enumerate((tail, 1 - tail)):
            enough = cumulative >= probability - ROUNDING
            found[first : first + step, end] = enough.argmax(axis=-1)
    return found


def _characteristic_functions(lattice: Lattice) -> tuple[NDArray[np.complex128], Integers]:
    """Of the weight of the runs above, for each task size and each number above in the data.

    Returns:
        A table of shape (sum over different sizes of n + 1, points // 2 + 1), and the row of the
        table at which each task's size begins, of shape (m,).
    """
    frequencies = np.arange(lattice.points // 2 + 1)
    tables, starts, start = [], {}, 0
    for n, weight in sorted(set(zip(lattice.sizes, lattice.weights.tolist(), strict=True))):
        turn = np.exp(-2j * np.pi * (frequencies * weight % lattice.points) / lattice.points)
        p = np.arange(n + 1)[:, np.newaxis] / n
        tables.append((1 - p + p * turn) ** n)
        starts[n] = start
        start += n + 1
    return np.concatenate(tables), np.asarray([starts[n] for n in lattice.sizes])


def _normal(above: Integers, sizes: tuple[int, ...], tail: float) -> tuple[Array, Array]:
    """Ends of the normal approximation, within 0 and 1."""
    from scipy.special import ndtri

    n = np.asarray(sizes)
    p = above / n
    variance = np.sort(p * (1 - p) / n, axis=-1).sum(axis=-1) / len(sizes) ** 2
    half = -ndtri(tail) * np.sqrt(variance)
    centre = _fractions(above, sizes)
    return np.clip(centre - half, 0, 1), np.clip(centre + half, 0, 1)
