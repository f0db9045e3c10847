"""Median rule: a trial ends if it is worse than the median of earlier trials."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Interval

from rlexp.protocol.identity import Identity
from rlexp.pruners import PruningPoint
from rlexp.pruners.rungs import finite_or_worst, robust_median


@dataclass(frozen=True, slots=True, kw_only=True)
class MedianPruner:
    """Ends a trial whose value is below the median of earlier trials at the same point.

    Golovin et al. 2017, "Google Vizier: a service for black-box optimization", section 3.2.2,
    with the value at the point itself, as in Optuna, instead of the mean of values up to it.

    Attributes:
        startup_trials: Fewest earlier trials at the same point for a decision.
        warm_up: Share of the budget of a run before which no trial ends.
    """

    identity: ClassVar = Identity("pruner", "median")

    startup_trials: Annotated[int, Ge(1)]
    warm_up: Annotated[float, Interval(ge=0, le=1)]

    def prunes(self, point: PruningPoint) -> str | None:
        """The reason to end the trial here; None to continue."""
        if len(point.peers) < self.startup_trials or point.step < self.warm_up * point.steps:
            return None
        typical = robust_median(point.peers.values())
        if finite_or_worst(point.value) >= typical:
            return None
        return (
            f"its value {point.value:g} at {point.step:,} steps is below the median "
            f"{typical:g} of {len(point.peers)} earlier trials"
        )
