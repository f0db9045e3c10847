"""The lower tail of outcomes that are all equally likely: the expected value of the worst of them."""

import numpy as np
from numpy.typing import ArrayLike


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
