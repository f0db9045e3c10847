"""What can be said of a rate when nothing of the kind was seen in any run."""

from collections.abc import Sequence

from rlexp.protocol.measures import CATASTROPHE
from rlexp.text import format_count, format_percentage


def largest_rate(n: int, level: float) -> float:
    """The rate that n runs without a case leave possible, at a confidence level.

    If the mean of a run's share is p, the chance that a run has the share 0 is at most 1 - p, for any
    distribution of shares between 0 and 1. All of n runs have the share 0 with a chance of at most
    (1 - p)^n, which is below 1 - level for every p above the returned one. For shares that are 0 or 1
    this is the exact interval of Clopper and Pearson 1934, The use of confidence or fiducial limits
    illustrated in the case of the binomial, with one side.

    Args:
        n: Number of runs, at least 1.
        level: Confidence level, between 0 and 1.
    """
    return float(1.0 - (1.0 - level) ** (1.0 / n))


def none_seen(measure: str, shares: Sequence[float], level: float) -> str | None:
    """What runs without a single catastrophe leave possible; None for any other measure or share.

    Args:
        measure: The name of the measure.
        shares: Its mean in each run.
        level: The confidence level of the intervals beside it.
    """
    if measure != CATASTROPHE or not shares or any(shares):
        return None
    rate = largest_rate(len(shares), level)
    return (
        f"no catastrophe in {format_count(len(shares), 'run')}: a mean rate up to {rate:.2g} is "
        f"possible at {format_percentage(level)} confidence (1 − {1 - level:.2g}^(1/{len(shares)}))"
    )
