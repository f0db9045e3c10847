"""How bad the bad outcomes are: conditional value at risk, difficult runs, failures."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlexp.stats.interval import Interval
from rlexp.stats.threshold import wilson


def tail_mean(outcomes: ArrayLike, share: float) -> float:
    """Mean of the worst share of the outcomes, of which the last one may count in part.

    Conditional value at risk of a discrete distribution, max_c c − E[(c − x)⁺] / share (Rockafellar
    and Uryasev 2000, "Optimization of conditional value-at-risk"; 2002, "Conditional value-at-risk
    for general loss distributions", proposition 8). It falls from the mean, at a share of 1, to the
    worst outcome, at a share of 1/n or less. `rlexp.stats.reliability.risk.cvar` takes whole outcomes up to an
    interpolated quantile instead, as Chan et al. 2020 do.

    Args:
        outcomes: Of shape (n,), n ≥ 1, small ones being bad.
        share: Of the probability, above 0 and at most 1.

    Raises:
        ValueError: There is no outcome, one is not finite, or the share is none.
    """
    ordered = np.sort(np.asarray(outcomes, dtype=np.float64).ravel())
    if not len(ordered) or not np.isfinite(ordered).all():
        raise ValueError("outcomes must be finite numbers, one or more")
    if not 0 < share <= 1:
        raise ValueError(f"a share of {share:g} is none: it must lie above 0 and be at most 1")
    counted = np.clip(share * len(ordered) - np.arange(len(ordered)), 0.0, 1.0)
    # About the worst, so that equal outcomes give themselves.
    excess = counted @ (ordered - ordered[0]) / counted.sum()
    return float(ordered[0] + excess)


Tail = Literal["lower", "upper"]
SHARE = 0.05
"""Of the outcomes that count as worst, as Chan et al. 2020 have it."""
ROUNDING = 1e-9


def worst_count(n: int, share: float = SHARE) -> int:
    """How many of n different outcomes lie at or beyond their quantile of a share.

    With 20 outcomes or fewer, the worst 5 % of them is one.
    """
    return int((n - 1) * share + ROUNDING) + 1


def cvar(outcomes: ArrayLike, share: float = SHARE, tail: Tail = "lower") -> NDArray[np.float64]:
    """Mean of the outcomes at or beyond the quantile of a share, along the last axis.

    Conditional value at risk (Rockafellar and Uryasev 2000, "Optimization of conditional
    value-at-risk"), with the empirical quantile, linearly interpolated, as Chan et al. 2020,
    "Measuring the Reliability of Reinforcement Learning Algorithms", compute it.

    Args:
        outcomes: Of shape (…, n), n ≥ 1.
        share: Of the outcomes, above 0 and at most 1.
        tail: `lower` where small outcomes are bad, `upper` where large ones are.

    Returns:
        Of shape (…).

    Raises:
        ValueError: There is no outcome, one is not finite, or the share is none.
    """
    values = _checked(outcomes, share)
    signed = values if tail == "lower" else -values
    ordered = np.sort(signed, axis=-1)
    quantile = ordered[..., worst_count(values.shape[-1], share) - 1, None]
    worst = ordered <= quantile
    mean = np.where(worst, ordered, 0).sum(axis=-1) / worst.sum(axis=-1)
    # Plus zero, so that no mean of zeros is -0.
    return np.asarray((mean if tail == "lower" else -mean) + 0.0)


def failure_rate(failed: int, n: int, level: float = 0.95) -> Interval:
    """Share of the runs that fail, with Wilson's interval.

    Args:
        failed: Runs that failed.
        n: Runs, all of them, 1 or more.
        level: Of the interval.

    Raises:
        ValueError: There are more failures than runs, fewer than none, or no runs.
    """
    if not 0 <= failed <= n or n < 1:
        raise ValueError(f"{failed} failures of {n} runs make no rate: count all runs")
    return wilson(failed, n, level)


def _checked(outcomes: ArrayLike, share: float) -> NDArray[np.float64]:
    values = np.asarray(outcomes, dtype=np.float64)
    if values.ndim == 0 or values.shape[-1] == 0:
        raise ValueError("there is no outcome: risk needs one or more")
    if not np.isfinite(values).all():
        raise ValueError("an outcome must be a finite number; a failure is no outcome")
    if not 0 < share <= 1:
        raise ValueError(f"a share of {share:g} is none: it must lie above 0 and be at most 1")
    return values
