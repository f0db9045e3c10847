"""Does the work of the blocks of a resampling on threads; no number depends on how many there are."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np

from rlexp.stats.bootstrap_indices import BLOCK

WORTH_THREADS = 2_000_000
"""Drawn runs from which on threads save more time than their start takes."""


def run_blocks(work: Callable[[int], None], numbers: range, threads: int) -> None:
    """Do the work of every block, on threads: NumPy and compiled code release the GIL."""
    stopped = Event()

    def each(members: range) -> None:
        try:
            for number in members:
                if stopped.is_set():
                    return
                work(number)
        except BaseException:
            stopped.set()
            raise

    if threads == 1 or len(numbers) == 1:
        each(numbers)
        return
    with ThreadPoolExecutor(threads) as pool:
        # One future per thread, not per block: a block may take less time than a future.
        try:
            for _ in pool.map(each, [numbers[first::threads] for first in range(threads)]):
                pass
        finally:
            # After Ctrl-C the pool would otherwise wait until all blocks are computed.
            stopped.set()


def keep_freed_memory() -> None:
    """Make the C library keep freed memory for the next block.

    glibc returns large freed arrays to the system, which then maps new pages for every block; that
    can double the time. Freeing one larger array raises the threshold of glibc.
    """
    np.empty(64 * BLOCK, np.uint8)


def worthwhile_threads(cells: int) -> int:
    """Number of cores that this process may use; 1 if the work is too small for threads."""
    if cells < WORTH_THREADS or not hasattr(os, "sched_getaffinity"):
        return 1
    # A batch system may restrict a process to some cores, which `os.cpu_count` ignores.
    return len(os.sched_getaffinity(0))
