"""Risk measures: conditional value at risk of outcomes, and the failure rate of runs."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlexp.stats.interval import Interval
from rlexp.stats.threshold import wilson


def tail_mean(outcomes: ArrayLike, share: float) -> float:
    """Conditional value at risk of a discrete distribution: mean of the worst share of outcomes.

    max_c c − E[(c − x)⁺] / share (Rockafellar and Uryasev 2000, "Optimization of conditional
    value-at-risk"; 2002, "Conditional value-at-risk for general loss distributions", proposition
    8). The last outcome may count in part: the value falls from the mean, for a share of 1, to
    the worst outcome, for a share of 1/n or less. `cvar` uses whole outcomes up to an interpolated
    quantile instead, as in Chan et al. 2020.

    Args:
        outcomes: Of shape (n,), n ≥ 1; small outcomes are bad.
        share: Fraction of the probability, above 0 and at most 1.

    Raises:
        ValueError: There is no outcome, one is not finite, or the share is out of range.
    """
    ordered = np.sort(np.asarray(outcomes, dtype=np.float64).ravel())
    if not len(ordered) or not np.isfinite(ordered).all():
        raise ValueError("outcomes must be finite numbers, at least one")
    if not 0 < share <= 1:
        raise ValueError(f"the share must be above 0 and at most 1, not {share:g}")
    counted = np.clip(share * len(ordered) - np.arange(len(ordered)), 0.0, 1.0)
    # The mean is computed relative to the worst outcome: equal outcomes then give exactly their
    # value.
    excess = counted @ (ordered - ordered[0]) / counted.sum()
    return float(ordered[0] + excess)


Tail = Literal["lower", "upper"]
SHARE = 0.05
"""Fraction of the outcomes that count as worst, as in Chan et al. 2020."""
ROUNDING = 1e-9
"""Rounding error of a position among the outcomes, (n - 1) times the share."""


def worst_count(n: int, share: float = SHARE) -> int:
    """Number of n distinct outcomes that are at or beyond the quantile of a share.

    The worst 5 % of 20 outcomes or fewer are a single outcome.
    """
    # The product can be a whole number less a rounding error, which `int` would cut off.
    return int((n - 1) * share + ROUNDING) + 1


def cvar(outcomes: ArrayLike, share: float = SHARE, tail: Tail = "lower") -> NDArray[np.float64]:
    """Conditional value at risk: mean of the outcomes at or beyond a quantile, along the last axis.

    Rockafellar and Uryasev 2000, "Optimization of conditional value-at-risk", with the linearly
    interpolated empirical quantile, as in Chan et al. 2020, "Measuring the Reliability of
    Reinforcement Learning Algorithms".

    Args:
        outcomes: Of shape (…, n), n ≥ 1.
        share: Fraction of the outcomes, above 0 and at most 1.
        tail: `lower` if small outcomes are bad, `upper` if large ones are.

    Returns:
        Of shape (…).

    Raises:
        ValueError: There is no outcome, one is not finite, or the share is out of range.
    """
    values = _checked(outcomes, share)
    signed = values if tail == "lower" else -values
    ordered = np.sort(signed, axis=-1)
    quantile = ordered[..., worst_count(values.shape[-1], share) - 1, None]
    worst = ordered <= quantile
    mean = np.where(worst, ordered, 0).sum(axis=-1) / worst.sum(axis=-1)
    # Adding zero turns -0.0 into 0.0.
    return np.asarray((mean if tail == "lower" else -mean) + 0.0)


def failure_rate(failed: int, n: int, level: float = 0.95) -> Interval:
    """Fraction of the runs that fail, with Wilson's interval.

    Args:
        failed: Runs that failed.
        n: Number of all runs, 1 or more.
        level: Level of the interval.

    Raises:
        ValueError: The failures are not between 0 and n, or n is below 1.
    """
    if not 0 <= failed <= n or n < 1:
        raise ValueError(
            f"{failed} failures of {n} runs are impossible: n must count all runs, at least 1"
        )
    return wilson(failed, n, level)


def _checked(outcomes: ArrayLike, share: float) -> NDArray[np.float64]:
    values = np.asarray(outcomes, dtype=np.float64)
    if values.ndim == 0 or values.shape[-1] == 0:
        raise ValueError("there is no outcome: a risk needs at least one")
    if not np.isfinite(values).all():
        raise ValueError("an outcome must be a finite number: leave out failed runs")
    if not 0 < share <= 1:
        raise ValueError(f"the share must be above 0 and at most 1, not {share:g}")
    return values
