"""Median rule: a trial ends where it is worse than half of those before it."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Interval

from rlexp.protocol.identity import Identity
from rlexp.pruners import Point
from rlexp.pruners.rungs import middle, or_worst


@dataclass(frozen=True, slots=True, kw_only=True)
class Median:
    """Ends a trial whose value is below the median of earlier trials at the same point.

    Golovin et al. 2017, "Google Vizier: a service for black-box optimization", section 3.2.2,
    with the value at the point itself, as Optuna's rule has it, instead of the mean up to it.

    Attributes:
        startup_trials: Earlier trials at the same point that it takes.
        warm_up: Share of the budget of a run before which nothing is given up.
    """

    identity: ClassVar = Identity("pruner", "median")

    startup_trials: Annotated[int, Ge(1)]
    warm_up: Annotated[float, Interval(ge=0, le=1)]

    def prunes(self, point: Point) -> str | None:
        """Why the trial ends here, or nothing where it goes on."""
        if len(point.peers) < self.startup_trials or point.step < self.warm_up * point.steps:
            return None
        typical = middle(point.peers.values())
        if or_worst(point.value) >= typical:
            return None
        return (
            f"its value {point.value:g} at {point.step:,} steps is below the median "
            f"{typical:g} of {len(point.peers)} earlier trials"
        )
