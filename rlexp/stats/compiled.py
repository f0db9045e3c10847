"""Resampled interquartile means by one compiled kernel, where numba is installed and pays."""

import warnings
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Sums = Callable[..., None]

SIGNATURE = (
    "void(uint32[:,::1], int64[::1], int32[::1], int64[::1], int64[::1], int64, int64[:,::1])"
)

WORTH_COMPILING = 6_000_000
"""Drawn runs from which on the kernel soon saves the time that it takes to import and compile."""


def count_and_walk(
    words: NDArray[np.uint32],
    sizes: Integers,
    ranks: NDArray[np.int32],
    weights: Integers,
    contributions: Integers,
    quarter: int,
    sums: Integers,
) -> None:
    """Sum the middle half of the runs that each row draws.

    The runs are sorted once. Each row counts how often it draws each of them, and walks the counts
    from both ends until the next run weighs more than is left of the quarter to cut: no row is
    sorted, and whole numbers sum to the same in any order.

    Args:
        words: Of shape (rows, N): random 32-bit words; each draws a run of its task.
        sizes: Of shape (m,): runs of each task.
        ranks: Of shape (N,): place of each run, task by task, in the order of scores.
        weights: Of shape (N,), in the order of scores.
        contributions: Of shape (N,), in the order of scores: weighted scores.
        quarter: What is cut at each end weighs this.
        sums: Of shape (5, rows), written: contributions of the runs that are not cut whole, the
            place of the lowest of them and what of its weight is cut, and those of the highest.
    """
    counts = np.zeros(len(ranks), np.int64)
    for row in range(len(words)):
        counts[:] = 0
        drawn = words[row]
        start = np.uint64(0)
        for size in sizes:
            end = start + np.uint64(size)
            for cell in range(start, end):
                run = start + ((np.uint64(drawn[cell]) * np.uint64(size)) >> np.uint64(32))
                counts[ranks[run]] += 1
            start = end
        low, room = np.uint64(0), quarter
        while counts[low] * weights[low] <= room:
            room -= counts[low] * weights[low]
            low += np.uint64(1)
        counts[low] -= room // weights[low]
        sums[1, row], sums[2, row] = np.int64(low), room % weights[low]
        high, room = np.uint64(len(counts) - 1), quarter
        while counts[high] * weights[high] <= room:
            room -= counts[high] * weights[high]
            high -= np.uint64(1)
        counts[high] -= room // weights[high]
        sums[3, row], sums[4, row] = np.int64(high), room % weights[high]
        total = np.int64(0)
        for place in range(low, high + np.uint64(1)):
            total += counts[place] * contributions[place]
        sums[0, row] = total


def kernel(cells: int) -> Sums | None:
    """The compiled `count_and_walk`, where there is one and so many drawn runs are worth it."""
    return compiled() if cells >= WORTH_COMPILING else None


@cache
def compiled() -> Sums | None:
    """`count_and_walk`, compiled; nothing where numba is missing or does not work here."""
    if find_spec("numba") is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # The second time without a cache: no folder for it may be writable.
        return _compiled(cache=True) or _compiled(cache=False)


def _compiled(*, cache: bool) -> Sums | None:
    try:
        from numba import njit

        made: Sums = njit(SIGNATURE, nogil=True, cache=cache)(count_and_walk)
    except Exception:  # noqa: BLE001 - numba refuses what it does not know in many ways
        return None
    return made
