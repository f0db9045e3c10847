"""Names of the values that a run logs over time, the same for trackers, plots and tables."""

import statistics
from collections.abc import Iterator, Sequence
from contextlib import suppress
from math import fsum, isfinite, isqrt

from rlexp.records.events import Evaluated, Measured

MEAN_RETURN = "eval/mean_reward"
"""Name of the mean return of an evaluation in training."""
ROOT_BITS = 109
"""Bits of a fraction whose root has two bits more than a float."""
OF_EVALUATIONS = ("mean_reward", "std_reward", "mean_ep_length")
"""Values of every evaluation, by the names of stable-baselines3."""
OFFLINE_PREFIX = "offline/"
"""Beginning of the names of metrics of the offline stage."""
OFFLINE_STEPS = f"{OFFLINE_PREFIX}gradient_steps"
"""The metric with the gradient steps of the offline stage so far."""


def logged_values(event: Measured | Evaluated) -> Iterator[tuple[str, float]]:
    """Names and values of an event; a value may be NaN or infinite.

    Metrics of the learner keep the library's names (`train/loss`). Values of evaluations in
    training begin with `eval/`, those of the final evaluation with `final/`.
    """
    if isinstance(event, Measured):
        yield from event.metrics.items()
        return
    # The final evaluation decides the score. Under another prefix it cannot become a point of
    # the learning curve.
    prefix = "final" if event.final else "eval"
    mean = event.mean
    yield f"{prefix}/mean_reward", mean
    yield f"{prefix}/std_reward", _standard_deviation(event, mean)
    if event.lengths:
        yield f"{prefix}/mean_ep_length", statistics.fmean(event.lengths)
    for name in event.measures or {}:
        # An episode without the measure does not hide those of the others.
        if (reported := event.mean_of_reported(name)) is not None:
            yield f"{prefix}/{_apart(name)}", reported


def _apart(measure: str) -> str:
    """The name of a measure, which never replaces a value of the return or the length."""
    return f"measure/{measure}" if measure in OF_EVALUATIONS else measure


def _standard_deviation(event: Evaluated, mean: float) -> float:
    """Standard deviation of the returns, divided by n as in stable-baselines3."""
    if not isfinite(mean) or not all(map(isfinite, event.returns)):
        return float("nan")
    squares = [(d := value - mean) * d for value in event.returns]
    if not all(map(isfinite, squares)):
        return statistics.pstdev(event.returns, mean)
    return exact_root_mean(squares)


def exact_root_mean(values: Sequence[float]) -> float:
    """The square root of the mean of finite values, 0 or more, rounded once.

    It has the bits of `statistics.pstdev`, which adds `Fraction` objects and takes four times as long.

    Args:
        values: Of shape (n,), n ≥ 1.
    """
    ratios = [value.as_integer_ratio() for value in _with_the_same_sum(values)]
    # The denominators of floats are powers of two, so that the largest is a common one.
    common = max(denominator for _, denominator in ratios)
    total = sum(numerator * (common // denominator) for numerator, denominator in ratios)
    return _root_of_fraction(total, common * len(values))


def _with_the_same_sum(values: Sequence[float]) -> Sequence[float]:
    """Two numbers whose sum is exactly that of the values, where there are such; else the values."""
    with suppress(OverflowError):
        total = fsum(values)
        rest = fsum([*values, -total])
        # `fsum` rounds once: it is 0 only if the exact sum is.
        if fsum([*values, -total, -rest]) == 0:
            return total, rest
    return values


def _root_of_fraction(numerator: int, denominator: int) -> float:
    """The square root of a fraction, rounded once: by integers with more bits than a float has."""
    shift = (numerator.bit_length() - denominator.bit_length() - ROOT_BITS) // 2
    if shift >= 0:
        return float(_root_to_odd(numerator, denominator << 2 * shift) << shift)
    return _root_to_odd(numerator << -2 * shift, denominator) / (1 << -shift)


def _root_to_odd(numerator: int, denominator: int) -> int:
    """The integer square root of a fraction; odd where it is not exact (Boldo and Melquiond 2008).

    Rounding to odd keeps the later rounding to a float from rounding twice.
    """
    root = isqrt(numerator // denominator)
    return root | (root * root * denominator != numerator)
