"""Hyperband: brackets of successive halving; each bracket begins to prune later than the one before."""

from dataclasses import dataclass
from functools import cache
from typing import Annotated, ClassVar

from annotated_types import Ge, Interval

from rlexp.protocol.identity import Identity
from rlexp.pruners import PruningPoint
from rlexp.pruners.rungs import rung_at, rungs, stops_at_rung


@dataclass(frozen=True, slots=True, kw_only=True)
class Hyperband:
    """Assigns each trial to a bracket of successive halving.

    Li et al. 2018, "Hyperband: a novel bandit-based approach to hyperparameter optimization".
    Bracket b skips the first b rungs, and compares its trials with each other only. The trial
    number determines the bracket, with the same shares as in Optuna, but in a fixed cycle instead
    of a hash of the study's name.

    Attributes:
        minimum: Share of the budget at the first rung of the first bracket.
        eta: Reduction factor η: one in η trials at a rung continues.
    """

    identity: ClassVar = Identity("pruner", "hyperband")

    minimum: Annotated[float, Interval(gt=0, lt=1)]
    eta: Annotated[int, Ge(2)]

    @property
    def weights(self) -> tuple[int, ...]:
        """Number of trials of each bracket in a cycle: ⌈B ηˢ / (s + 1)⌉ with s = B − 1 … 0."""
        brackets = len(rungs(self.minimum, self.eta))
        # Two signs make a ceiling of the floor division, without any rounding of floats.
        return tuple(-(-brackets * self.eta**s // (s + 1)) for s in range(brackets - 1, -1, -1))

    def bracket(self, number: int) -> int:
        """The bracket of a trial, from 0; bracket 0 prunes earliest."""
        cycle = interleaved(self.weights)
        return cycle[number % len(cycle)]

    def prunes(self, point: PruningPoint) -> str | None:
        """The reason to end the trial here; None to continue."""
        bracket = self.bracket(point.number)
        rung = rung_at(point, self.minimum, self.eta, skipped=bracket)
        if rung is None:
            return None
        peers = [value for n, value in point.peers.items() if self.bracket(n) == bracket]
        reason = stops_at_rung(point, peers, rung, self.eta)
        return reason and f"{reason} of bracket {bracket}"


@cache
def interleaved(weights: tuple[int, ...]) -> tuple[int, ...]:
    """A cycle that has each index as often as its weight, spread evenly.

    Each turn goes to the index that is furthest behind its share; ties go to the first index.
    """
    # Integer arithmetic: float shares would drift over a long cycle.
    total = sum(weights)
    counts = [0] * len(weights)
    cycle = []
    for turn in range(1, total + 1):
        deficits = [
            weight * turn - total * count for weight, count in zip(weights, counts, strict=True)
        ]
        chosen = deficits.index(max(deficits))
        counts[chosen] += 1
        cycle.append(chosen)
    return tuple(cycle)
