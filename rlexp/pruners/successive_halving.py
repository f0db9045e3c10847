"""Asynchronous successive halving: at each rung, only the best fraction of trials continues."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge, Interval

from rlexp.protocol.identity import Identity
from rlexp.pruners import PruningPoint
from rlexp.pruners.rungs import rung_at, stops_at_rung


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessiveHalving:
    """Ends a trial that is not among the best 1 / η of the trials that reached a rung.

    Li et al. 2020, "A system for massively parallel hyperparameter tuning" (ASHA), without
    pauses, as in Optuna: a trial that is not promoted at once ends. Rungs lie at minimum · ηᵏ of
    the budget, on the first seed of a trial.

    Attributes:
        minimum: Share of the budget at the first rung.
        eta: Reduction factor η: one in η trials at a rung continues.
    """

    identity: ClassVar = Identity("pruner", "successive_halving")

    minimum: Annotated[float, Interval(gt=0, lt=1)]
    eta: Annotated[int, Ge(2)]

    def prunes(self, point: PruningPoint) -> str | None:
        """The reason to end the trial here; None to continue."""
        rung = rung_at(point, self.minimum, self.eta)
        if rung is None:
            return None
        return stops_at_rung(point, list(point.peers.values()), rung, self.eta)
