"""Performance profiles: fraction of the runs that score above each threshold."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlexp.stats.standard_error import no_spread
from rlexp.stats.task_scores import TaskScores

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

LATTICE = 2**16
"""Largest number of values of a resampled fraction whose distribution is computed exactly."""
FINENESS = 64
"""Smallest rounded weight of a run: its rounding error is then at most 1 in 128."""
CELLS = 2**20
"""Complex numbers of a product in memory at a time."""
TABLE = 2**22
"""Complex numbers of a table of characteristic functions: 64 MiB."""
ROUNDING = 1e-12
"""Rounding error of a cumulative probability."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Profile:
    """Fractions of runs above thresholds, with a pointwise band.

    The band has no width, and no meaning, at thresholds that all runs or no run exceeds.

    Attributes:
        thresholds: Of shape (T,), in the unit of the scores.
        fractions: Of shape (T,), from 0 to 1.
        low: Of shape (T,); None if no band is possible.
        high: Of shape (T,); None if no band is possible.
        level: Level of the band at each threshold.
        method: Method of the band, with its exactness.
        n: Runs of all tasks.
        tasks: Number of tasks.
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
    """Integer grid on which the values of a resampled fraction lie.

    Attributes:
        sizes: Runs of each task.
        unit: Integer weight of a task whose runs are all above a threshold.
        exact: Whether the unit is a multiple of every size.
    """

    sizes: tuple[int, ...]
    unit: int
    exact: bool

    @property
    def weights(self) -> Integers:
        """Integer weight of one run of each task, of shape (m,)."""
        return np.rint(self.unit / np.asarray(self.sizes)).astype(np.int64)

    @property
    def points(self) -> int:
        """Number of values that the total weight of the runs above a threshold can have."""
        return int(self.weights @ np.asarray(self.sizes)) + 1


def performance_profile(scores: TaskScores, thresholds: ArrayLike, level: float = 0.95) -> Profile:
    """Fraction of the runs that score above each threshold; every task has the same weight.

    The fraction is `run_score_deviation` of Agarwal et al. (2021, "Deep Reinforcement Learning at
    the Edge of the Statistical Precipice", §4.2): strictly above. Its band is the percentile
    interval of the stratified bootstrap in the limit of infinitely many resamples. Of n_j runs
    drawn from task j, the number above the threshold is Binomial(n_j, p_j); the distribution of
    the mean over tasks is the inverse transform of the product of the characteristic functions.
    No seed is needed.

    If the n_j differ so much that the mean has more than `LATTICE` values, the weights of runs
    are rounded by less than 1 %; with very many runs the band is the normal approximation. The
    field `method` names the case. For few runs of one task the band is too narrow, as every
    percentile interval is: a 95 % band covers about 76 % with 3 runs, 84 % with 5, 90 % with 10.

    Args:
        scores: Of shape (N,).
        thresholds: Of shape (T,), in any order.
        level: Level of the band at each threshold.

    Raises:
        ValueError: A threshold is not finite, or the level is not between 0 and 1.
    """
    at = _thresholds(thresholds)
    if not 0 < level < 1:
        raise ValueError(f"the level of a band must be between 0 and 1, not {level}")
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
    # "right" counts equal scores as below: only scores strictly above the threshold count.
    below = [np.searchsorted(np.sort(task), thresholds, "right") for task in scores.by_task()]
    return np.asarray(scores.sizes) - np.stack(below, axis=-1)


def _fractions(above: Integers, sizes: tuple[int, ...]) -> Array:
    """Mean over tasks of the fraction of runs above each of the T thresholds, of shape (T,)."""
    if len(set(sizes)) == 1:
        return np.asarray(above.sum(axis=-1) / sum(sizes))
    # Sorting makes the rounding of the sum independent of the order of the tasks.
    ordered = np.sort(above / np.asarray(sizes), axis=-1)
    return np.asarray(ordered.mean(axis=-1))


def _band(above: Integers, sizes: tuple[int, ...], tail: float) -> tuple[Array, Array, str]:
    """Low and high ends, each of shape (T,), and the method by which they were computed."""
    lattice = _lattice(sizes)
    if lattice is None:
        return (*_normal(above, sizes, tail), "stratified bootstrap, normal approximation")
    # Thresholds between the same two scores have the same runs above and the same band: each
    # distinct row is computed once.
    rows, back = np.unique(above, axis=0, return_inverse=True)
    back = back.reshape(-1)  # NumPy 2.0 returns a column here, every other version a vector.
    ends = _quantiles(rows, lattice, tail) / (lattice.points - 1)
    if lattice.exact:
        return ends[back, 0], ends[back, 1], "exact percentile stratified bootstrap"
    # Rounded weights move the fraction slightly; the band is moved back to the exact fraction.
    shift = _fractions(rows, sizes) - rows @ lattice.weights / (lattice.points - 1)
    low, high = np.clip(ends + shift[:, np.newaxis], 0, 1)[back].T
    return low, high, "percentile stratified bootstrap, weights rounded by less than 1 %"


def _lattice(sizes: tuple[int, ...]) -> Lattice | None:
    """A lattice of bounded size, exact if possible; None if it would be too coarse."""
    functions = sum(n + 1 for n in set(sizes))
    largest = min(LATTICE, 2 * TABLE // functions) // len(sizes)
    unit = math.lcm(*sizes)
    if unit <= largest:
        return Lattice(sizes, unit, exact=True)
    return Lattice(sizes, largest, exact=False) if largest >= FINENESS * max(sizes) else None


def _quantiles(above: Integers, lattice: Lattice, tail: float) -> Integers:
    """Quantiles of both tails: the smallest lattice points that reach them, of shape (T, 2)."""
    points = lattice.points
    tables, rows = _characteristic_functions(lattice)
    index = above + rows
    quantiles = np.empty((len(above), 2), np.int64)
    step = max(1, CELLS // (tables.shape[1] * above.shape[1]))
    for first in range(0, len(above), step):
        product = np.multiply.reduce(tables[index[first : first + step]], axis=1)
        # The number of points is given, because `irfft` would assume an even one.
        cumulative = np.cumsum(np.fft.irfft(product, points, axis=-1), axis=-1)
        for end, probability in enumerate((tail, 1 - tail)):
            # A cumulative probability equal to the tail may be off in its last bits.
            enough = cumulative >= probability - ROUNDING
            quantiles[first : first + step, end] = enough.argmax(axis=-1)
    return quantiles


# All labels with as many runs have the same ones.
@lru_cache(maxsize=2)
def _characteristic_functions(lattice: Lattice) -> tuple[NDArray[np.complex128], Integers]:
    """Characteristic functions of the weight of a task's runs above a threshold.

    Returns:
        A table of shape (sum over distinct sizes of n + 1, points // 2 + 1): a row for each task
        size and each number of runs above; and the first row of each task's size, of shape (m,).
    """
    frequencies = np.arange(lattice.points // 2 + 1)
    tables, starts, start = [], {}, 0
    for n, weight in sorted(set(zip(lattice.sizes, lattice.weights.tolist(), strict=True))):
        # The exponent is reduced modulo the number of points in integers: a large angle would
        # lose its digits in the exponential.
        turn = np.exp(-2j * np.pi * (frequencies * weight % lattice.points) / lattice.points)
        p = np.arange(n + 1)[:, np.newaxis] / n
        tables.append((1 - p + p * turn) ** n)
        starts[n] = start
        start += n + 1
    return np.concatenate(tables), np.asarray([starts[n] for n in lattice.sizes])


def _normal(above: Integers, sizes: tuple[int, ...], tail: float) -> tuple[Array, Array]:
    """Ends of the normal approximation, clipped to 0 and 1."""
    from scipy.special import ndtri

    n = np.asarray(sizes)
    p = above / n
    # Sorted, so that the rounding of the sum does not depend on the order of the tasks.
    variance = np.sort(p * (1 - p) / n, axis=-1).sum(axis=-1) / len(sizes) ** 2
    half = -ndtri(tail) * np.sqrt(variance)
    centre = _fractions(above, sizes)
    return np.clip(centre - half, 0, 1), np.clip(centre + half, 0, 1)
