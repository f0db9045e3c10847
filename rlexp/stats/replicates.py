"""Values of statistics on resampled runs, with the same bytes for any number of threads.

Sums of resampled scores are exact: the scores are first rounded to integers of a common unit, and
integer sums do not depend on their order. So the compiled and the NumPy version, one thread or
many, and repeated draws in different orders all give the same bits.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from rlexp.stats.aggregate import (
    CUT_BY_CENTRE,
    Aggregate,
    Cut,
    Statistic,
    aggregate_of,
    pooled_order,
    run_weights,
)
from rlexp.stats.block_threads import keep_freed_memory, run_blocks, worthwhile_threads
from rlexp.stats.bootstrap_indices import (
    Draws,
    Fill,
    blocks,
    distinct_draws,
    draw,
    fill_words,
    rows_of_block,
)
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

BITS = 61
"""Bits of the largest score as an integer: 8 more than a float has.

The weights of all runs sum to 1, so that the sum of all drawn scores stays below 2⁶³.
"""
TYPICAL = 2.0**20
"""Largest allowed ratio of the largest score to the median: 40 bits of typical scores remain."""
LEAST = 2.0**30
"""Largest allowed ratio of the largest score to the smallest: 30 bits of every score remain."""
Integers = NDArray[np.int64]
Array = NDArray[np.float64]
Sums = Callable[..., None]
SIGNATURE = (
    "void(uint32[:,::1], int64[::1], int32[::1], int64[::1], int64[::1], int64, int64[:,::1])"
)
STRIDE = 16
"""Runs whose weight is summed at once on the walk from each end."""
WORTH_COMPILING = 6_000_000
"""Drawn runs from which on the compiled function saves more time than its import takes."""
Evaluation = Callable[[Draws], Array]
Counts = NDArray[np.integer]
MOST_COUNTED = 30_000_000
"""Most drawn runs whose counts are kept: each takes one byte, and two with those of the middle."""
LOW_BITS = 30
"""Bits of the lower part of an integer; products of the parts and counts are exact as floats."""


def exact_sums_possible(scores: TaskScores) -> bool:
    """Whether scores of shape (N,) are similar enough in size for integers of one unit.

    The largest score determines the unit: beside an outlier all others would lose their digits.
    """
    size = np.abs(scores.values)
    # A zero is an integer of every unit. As the smallest score it would forbid exact sums.
    some = size[size > 0]
    if not len(some):
        return True
    return bool(some.max() <= min(TYPICAL * np.median(some), LEAST * some.min()))


@dataclass(frozen=True, slots=True)
class ExactSums:
    """Scores, each weighted by 1/(m n_j), as integers of a tiny unit whose sums are exact.

    Attributes:
        values: Of shape (N,), task by task.
        exponent: Binary exponent of the unit.
    """

    values: Integers
    exponent: int

    @classmethod
    def of(cls, scores: TaskScores) -> "ExactSums":
        """The weighted scores of shape (N,), rounded to integers."""
        runs_beside = len(scores.sizes) * np.repeat(scores.sizes, scores.sizes)
        # The unit is a power of two, so that `ldexp` changes exponents only and rounds nothing.
        exponent = int(np.frexp(np.abs(scores.values).max())[1]) - BITS
        values = np.rint(np.ldexp(scores.values / runs_beside, -exponent))
        return cls(values.astype(np.int64), exponent)

    def mean(self, draws: Draws) -> Array:
        """Mean of the task means, of shape (rows,)."""
        return self.scaled(self.values.take(draws.positions).sum(axis=-1))

    def median(self, draws: Draws) -> Array:
        """Median of the task means, or of the runs of a single task, of shape (rows,)."""
        if len(draws.sizes) == 1:
            runs = self.scaled(self.values.take(draws.positions))
            return np.asarray(np.median(runs, axis=-1) * draws.sizes[0])
        sums = np.add.reduceat(self.values.take(draws.positions), draws.starts, axis=-1)
        # The weights contain 1/m for the mean over m tasks. A median over tasks does not need it.
        return np.asarray(np.median(self.scaled(sums), axis=-1) * len(draws.sizes))

    def middle_of(self, lowest: NDArray[np.intp], highest: NDArray[np.intp]) -> Array:
        """Mean of two runs of a single task by their positions, of shape (rows,)."""
        low, high = (self.scaled(self.values.take(at)) for at in (lowest, highest))
        return np.asarray((low + high) / 2 * len(self.values))

    @property
    def ascending(self) -> bool:
        """Whether the scores are sorted."""
        return bool((self.values[1:] >= self.values[:-1]).all())

    def scaled(self, sums: Integers) -> Array:
        """Integer sums converted to the unit of the scores."""
        return np.asarray(np.ldexp(sums.astype(np.float64), self.exponent))


@cache
def compiled() -> Sums | None:
    """`sum_middle_halves`, compiled; None if numba is missing or does not work."""
    return _compiled_anyhow(sum_middle_halves, SIGNATURE)


@cache
def compiled_words() -> Fill | None:
    """`fill_words`, compiled; None if numba is missing or does not work."""
    return _compiled_anyhow(fill_words, "void(uint64[::1], uint64[::1])")


def _compiled_anyhow(function: Sums, signature: str) -> Sums | None:
    if find_spec("numba") is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # The cache of numba needs a writable folder; without one the second attempt succeeds.
        return _compiled(function, signature, cache=True) or _compiled(
            function, signature, cache=False
        )


@dataclass(frozen=True, slots=True)
class PooledRuns:
    """Runs of all tasks sorted by score, for interquartile means.

    Attributes:
        ranks: Rank of each run, task by task, of shape (N,).
        weights: Integer weights, by rank, of shape (N,).
        sums: Weighted scores, by rank.
        compiled: The compiled function that sums them, or None to use NumPy.
    """

    ranks: NDArray[np.int32]
    weights: Integers
    sums: ExactSums
    compiled: Sums | None

    @classmethod
    def of(cls, scores: TaskScores, compiled: Sums | None, cut: Cut = "exact") -> "PooledRuns":
        """The runs of scores of shape (N,), sorted once for all repetitions."""
        weights = run_weights(scores.sizes, cut)
        order = pooled_order(scores.values, weights)
        # The argsort of a permutation is its inverse: the rank of each run.
        ranks = np.argsort(order).astype(np.int32)
        sums = ExactSums.of(scores)
        return cls(ranks, weights[order], ExactSums(sums.values[order], sums.exponent), compiled)

    def interquartile_mean(self, draws: Draws) -> Array:
        """Interquartile mean of all runs, of shape (rows,)."""
        middle = self._compiled_sums(draws) if self.compiled else self._numpy_sums(draws)
        return self.mean_of_middle(middle)

    def mean_of_middle(self, middle: Integers) -> Array:
        """Interquartile means, of shape (rows,), from the array that `sum_middle_halves` writes."""
        total, low, below, high, above = middle
        kept = total - self._parts(low, below) - self._parts(high, above)
        weight = int(self.weights.sum())
        # Where whole runs are cut, the kept share of the total can be above one half.
        return np.asarray(self.sums.scaled(kept) / ((weight - 2 * self.quarter) / weight))

    @property
    def quarter(self) -> int:
        """Weight that is cut at each end, a whole number."""
        return int(self.weights.sum()) // 4

    def _parts(self, ranks: Integers, cut: Integers) -> Integers:
        """Weighted scores of the cut parts of the runs at some ranks, of shape (rows,)."""
        shares = cut / self.weights.take(ranks)
        # Rounding to an integer keeps the total an integer sum, exact in any order.
        return np.rint(shares * self.sums.values.take(ranks)).astype(np.int64)

    def _compiled_sums(self, draws: Draws) -> Integers:
        sums = np.empty((5, len(draws.bits)), np.int64)
        sizes = np.asarray(draws.sizes, np.int64)
        assert self.compiled is not None
        self.compiled(
            draws.bits, sizes, self.ranks, self.weights, self.sums.values, self.quarter, sums
        )
        return sums

    def _numpy_sums(self, draws: Draws) -> Integers:
        """The array that `sum_middle_halves` writes, of shape (5, rows), computed by NumPy."""
        ranks = self.ranks.take(draws.positions)
        ranks.sort(axis=-1)
        if len(set(draws.sizes)) > 1:
            return self._weighted_sums(ranks)
        # With equal weights the same sorted positions are cut in every resample.
        whole, part = divmod(self.quarter, int(self.weights[0]))
        middle = ranks[:, whole : len(self.weights) - whole]
        sums = np.empty((5, len(ranks)), np.int64)
        sums[0] = self.sums.values.take(middle).sum(axis=-1)
        sums[1], sums[3] = middle[:, 0], middle[:, -1]
        sums[2] = sums[4] = part
        return sums

    def _weighted_sums(self, ranks: NDArray[np.int32]) -> Integers:
        """The same array for runs with different weights; sorted ranks of shape (rows, N)."""
        weights = self.weights.take(ranks)
        above = np.cumsum(weights, axis=-1) - self.quarter
        below = self.weights.sum() - 2 * self.quarter - above + weights
        inside = (above > 0) & (below > 0)
        total = (self.sums.values.take(ranks) * inside).sum(axis=-1)
        rows = np.arange(len(ranks))
        low = (rows, inside.argmax(axis=-1))
        # `argmax` finds the first True of a row. In the reversed row this is the last one.
        high = (rows, inside.shape[1] - 1 - inside[:, ::-1].argmax(axis=-1))
        cut = (weights - above)[low], (weights - below)[high]
        return np.stack([total, ranks[low], cut[0], ranks[high], cut[1]])


def sum_middle_halves(
    bits: NDArray[np.uint32],
    sizes: Integers,
    ranks: NDArray[np.int32],
    weights: Integers,
    contributions: Integers,
    quarter: int,
    sums: Integers,
) -> None:
    """Sum the middle half of the runs that each row draws, into `sums`.

    The runs are sorted once. Each row counts how often it draws each run, and walks the counts from
    both ends until the quarter is cut. No row is sorted, and integer sums are exact in any order.

    Args:
        bits: Random 32-bit words, of shape (rows, N); each draws a run of its task.
        sizes: Runs of each task, of shape (m,).
        ranks: Rank of each run, task by task, of shape (N,).
        weights: Integer weights, by rank, of shape (N,).
        contributions: Weighted scores as integers, by rank, of shape (N,).
        quarter: Weight that is cut at each end.
        sums: Output, of shape (5, rows): the sum of the runs that are not cut completely; the rank
            of the lowest of them and the part of its weight that is cut; the same of the highest.
    """
    # Small counts take less of the first-level cache. No run is drawn 2³¹ times.
    counts, last = np.zeros(len(ranks), np.int32), len(ranks) - 1
    # Unsigned indices: numba then leaves out the test for negative ones in the inner loops.
    for row in range(len(bits)):
        counts[:] = 0
        drawn = bits[row]
        start = np.uint64(0)
        for size in sizes:
            end = start + np.uint64(size)
            for cell in range(start, end):
                run = start + ((np.uint64(drawn[cell]) * np.uint64(size)) >> np.uint64(32))
                counts[ranks[run]] += 1
            start = end
        for side in range(2):
            step, rank, room = 1 - 2 * side, side * last, quarter
            # The compiler sums a stride at once; the last one is walked run by run.
            while 0 <= rank + step * STRIDE <= last:
                weight = 0
                first = np.uint64(rank - side * (STRIDE - 1))
                for k in range(first, first + np.uint64(STRIDE)):
                    weight += counts[k] * weights[k]
                if weight > room:
                    break
                room -= weight
                rank += step * STRIDE
            while counts[rank] * weights[rank] <= room:
                room -= counts[rank] * weights[rank]
                rank += step
            # Of a run that is drawn several times, some copies can be cut, and one in part.
            counts[rank] -= room // weights[rank]
            sums[1 + 2 * side, row], sums[2 + 2 * side, row] = rank, room % weights[rank]
        total = np.int64(0)
        for k in range(np.uint64(sums[1, row]), np.uint64(sums[3, row] + 1)):
            total += counts[k] * contributions[k]
        sums[0, row] = total


def kernel(cells: int) -> Sums | None:
    """The compiled `sum_middle_halves` if it is available and saves time for so many drawn runs."""
    return compiled() if cells >= WORTH_COMPILING else None


def _compiled(function: Sums, signature: str, *, cache: bool) -> Sums | None:
    try:
        from numba import njit

        # With a signature numba compiles here, and not at the first call outside of this `try`.
        made: Sums = njit(signature, nogil=True, cache=cache)(function)
    except Exception:  # noqa: BLE001 - numba raises many types on platforms it does not support
        return None
    return made


def replicates(
    scores: TaskScores,
    statistics: Mapping[str, Statistic],
    resampling: Resampling,
    *,
    threads: int | None = None,
) -> dict[str, Array]:
    """Values of statistics on resamples of the runs, drawn with replacement within each task.

    Tasks are fixed (stratified bootstrap: Agarwal et al. 2021). All statistics use the same
    resamples. The memory needed is that of one block of resamples per thread.

    Args:
        scores: Of shape (N,).
        statistics: Statistics by name.
        resampling: Number of repetitions and seed.
        threads: Number of threads; by default one per core if there is enough work.

    Returns:
        An array of shape (repetitions,) for each statistic, in their order.
    """
    # Draws of the same runs in another order give the same bits only if sums are exact.
    if all(_is_exact(statistic, scores) for statistic in statistics.values()):
        few = distinct_draws(scores.sizes, resampling)
        if few is not None:
            return {
                k: _evaluation(s, scores, None)(few.draws)[few.index]
                for k, s in statistics.items()
            }
    cells = resampling.repetitions * scores.n
    counted = {name: _of_counted_ranks(s, scores, resampling) for name, s in statistics.items()}
    values = {name: of_all for name, of_all in counted.items() if of_all is not None}
    if len(values) == len(statistics):
        return values
    sums = kernel(cells)
    others = {name: s for name, s in statistics.items() if name not in values}
    evaluations = {name: _evaluation(s, scores, sums) for name, s in others.items()}
    values |= {name: np.empty(resampling.repetitions) for name in others}
    fill_compiled = compiled_words() if sums else None
    rows = rows_of_block(scores.n)
    keep_freed_memory()

    def fill(block: int) -> None:
        draws = draw(scores.sizes, resampling, block, fill_compiled)
        for name, evaluate in evaluations.items():
            values[name][block * rows : (block + 1) * rows] = evaluate(draws)

    run_blocks(fill, blocks(scores.n, resampling), threads or worthwhile_threads(cells))
    return {name: values[name] for name in statistics}


def _of_counted_ranks(
    statistic: Statistic, scores: TaskScores, resampling: Resampling
) -> Array | None:
    """The values of a statistic of sorted runs of one task, by draws that all labels share.

    They have the same bits as those that are computed draw by draw. None for other statistics and
    scores, and where the counts would take too much memory.
    """
    aggregate = aggregate_of(statistic)
    several = len(scores.sizes) > 1 or scores.n * resampling.repetitions > MOST_COUNTED
    if aggregate is None or several or not _is_exact(aggregate, scores):
        return None
    capped = aggregate.capped(scores)
    sums = ExactSums.of(capped)
    if not sums.ascending:
        return None
    if aggregate.centre == "mean":
        values = sums.scaled(counted_ranks(scores.n, resampling).sums(sums.values))
    elif aggregate.centre == "median":
        middle = middle_ranks(scores.n, resampling, (scores.n - 1) // 2)
        values = sums.middle_of(middle.lowest, middle.highest)
    else:
        runs = PooledRuns.of(capped, None, CUT_BY_CENTRE[aggregate.centre])
        cut, part = divmod(runs.quarter, int(runs.weights[0]))
        middle = middle_ranks(scores.n, resampling, cut)
        total, parts = middle.counts.sums(sums.values), np.full(resampling.repetitions, part)
        values = runs.mean_of_middle(
            np.stack([total, middle.lowest, parts, middle.highest, parts])
        )
    return values if aggregate.cap is None else np.asarray(aggregate.cap - values)


def _evaluation(statistic: Statistic, scores: TaskScores, sums: Sums | None) -> Evaluation:
    """The function that computes a statistic of draws."""
    aggregate = aggregate_of(statistic)
    # The choice depends on the scores only. If it depended on installed packages or on threads,
    # the bits of the result would too.
    if aggregate is None or not _is_exact(aggregate, scores):
        return lambda draws: statistic(TaskScores(scores.values[draws.positions], scores.sizes))
    centre = _centre(aggregate, sums)(aggregate.capped(scores))
    cap = aggregate.cap
    return centre if cap is None else lambda draws: cap - centre(draws)


def _is_exact(statistic: Statistic, scores: TaskScores) -> bool:
    """Whether a statistic is summed in integers, so that the order of draws is irrelevant."""
    aggregate = aggregate_of(statistic)
    return aggregate is not None and exact_sums_possible(aggregate.capped(scores))


def _centre(aggregate: Aggregate, sums: Sums | None) -> Callable[[TaskScores], Evaluation]:
    if aggregate.centre == "mean":
        return lambda scores: ExactSums.of(scores).mean
    if aggregate.centre == "median":
        return lambda scores: ExactSums.of(scores).median
    cut = CUT_BY_CENTRE[aggregate.centre]
    return lambda scores: PooledRuns.of(scores, sums, cut).interquartile_mean


@dataclass(frozen=True, slots=True)
class CountedRanks:
    """How often each repetition counts each of n sorted runs.

    A statistic of sorted runs depends on the ranks that a resample draws, whichever scores the runs have.
    So the ranks are drawn and counted once, and sums of scores over all resamples are products of matrices.

    Attributes:
        blocks: The counts, in blocks of shape (n, rows).
    """

    blocks: tuple[Counts, ...]

    def sums(self, values: Integers) -> Integers:
        """The sum of the counted values of each repetition, of shape (repetitions,).

        Args:
            values: Of shape (n,), with sizes that sum to less than 2⁶² in each repetition.
        """
        # A count of at most n and a part of at most 31 bits: no sum reaches 2⁵³ below 2²² runs.
        parts = np.stack([values >> LOW_BITS, values & ((1 << LOW_BITS) - 1)]).astype(np.float64)
        room = np.empty(self.blocks[0].shape)
        sums = []
        for counts in self.blocks:
            counted = room[:, : counts.shape[1]]
            np.copyto(counted, counts)
            sums.append(parts @ counted)
        high, low = np.hstack(sums).astype(np.int64)
        return np.asarray((high << LOW_BITS) + low)


@dataclass(frozen=True, slots=True)
class MiddleRanks:
    """What is left of each repetition where a number of its drawn runs is cut at each end.

    Attributes:
        counts: How often each run is among the others.
        lowest: The rank of the lowest of the others, of shape (repetitions,).
        highest: The rank of the highest of them, of shape (repetitions,).
    """

    counts: CountedRanks
    lowest: NDArray[np.intp]
    highest: NDArray[np.intp]


@lru_cache(maxsize=2)
def counted_ranks(n: int, resampling: Resampling) -> CountedRanks:
    """How often each repetition draws each of n sorted runs of a task, by the draws of `draw`."""

    def count(block: int) -> Counts:
        drawn = draw((n,), resampling, block)
        rows = len(drawn.bits)
        cells = drawn.positions * rows + np.arange(rows)[:, np.newaxis]
        return np.bincount(cells.ravel(), minlength=n * rows).reshape(n, rows)

    return _counted(n, resampling, count)


@lru_cache(maxsize=4)
def middle_ranks(n: int, resampling: Resampling, cut: int) -> MiddleRanks:
    """The runs that are left where `cut` of the n drawn runs are cut at each end.

    Args:
        n: Runs of the task.
        resampling: Repetitions and seed.
        cut: Number of drawn runs below n / 2.
    """
    drawn = counted_ranks(n, resampling).blocks
    lowest, highest = (np.empty(resampling.repetitions, np.intp) for _ in range(2))
    rows = rows_of_block(n)
    # A signed type that holds n, as small as possible.
    kind = np.min_scalar_type(-n - 1)

    def middle(block: int) -> Counts:
        reached = np.cumsum(drawn[block], axis=0, dtype=kind)
        part = slice(block * rows, block * rows + reached.shape[1])
        lowest[part] = (reached <= cut).sum(axis=0)
        highest[part] = (reached < n - cut).sum(axis=0)
        kept = np.clip(reached, cut, n - cut)
        return np.asarray(np.diff(kept, axis=0, prepend=kind.type(cut)))

    return MiddleRanks(_counted(n, resampling, middle), lowest, highest)


def _counted(n: int, resampling: Resampling, count: Callable[[int], Counts]) -> CountedRanks:
    """The counts of all blocks, in as few bytes as hold them."""
    numbers = blocks(n, resampling)
    counted: dict[int, Counts] = {}

    def fill(block: int) -> None:
        counts = count(block)
        counted[block] = counts.astype(np.min_scalar_type(counts.max()))

    run_blocks(fill, numbers, worthwhile_threads(n * resampling.repetitions))
    return CountedRanks(tuple(counted[block] for block in numbers))
