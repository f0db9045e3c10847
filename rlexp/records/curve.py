"""Scores that are read off the evaluation curve of a run."""

from collections.abc import Sequence
from itertools import pairwise

from rlexp.records.events import Evaluated

WINDOW = 0.1
"""The part of training, at its end, that the score `last_window` averages."""


def area_under_curve(evaluations: Sequence[Evaluated]) -> float | None:
    """Mean height of the evaluation curve by the trapezoidal rule, in units of the return."""
    if not evaluations:
        return None
    first, last = evaluations[0], evaluations[-1]
    if first.step == last.step:
        return last.mean
    area = sum((b.step - a.step) * (a.mean + b.mean) / 2 for a, b in pairwise(evaluations))
    return area / (last.step - first.step)


def last_window(evaluations: Sequence[Evaluated], steps: int) -> float | None:
    """Mean return of the evaluations in the last tenth of `steps`, or of the last one."""
    window = [e for e in evaluations if e.step > steps * (1 - WINDOW)] or list(evaluations[-1:])
    return sum(e.mean for e in window) / len(window) if window else None
