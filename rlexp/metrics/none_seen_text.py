"""The sentence about a share that is 0 in every run, for which there is no interval."""

from collections.abc import Sequence

from rlexp.stats.none_seen import largest_rate
from rlexp.text import format_count, format_percentage

CATASTROPHE = "catastrophe"
"""The measure whose share of 0 calls for the sentence: a rare case may only be unseen."""


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
