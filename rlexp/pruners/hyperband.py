"""Hyperband: brackets of successive halving that begin to prune later and later."""

from dataclasses import dataclass
from functools import cache
from typing import Annotated, ClassVar

from annotated_types import Ge, Interval

from rlexp.protocol.identity import Identity
from rlexp.pruners import Point
from rlexp.pruners.rungs import rung_at, rungs, stops_at_rung


@dataclass(frozen=True, slots=True, kw_only=True)
class Hyperband:
    """Deals the trials out to brackets, each of which halves from a later rung on.

    Li et al. 2018, "Hyperband: a novel bandit-based approach to hyperparameter optimization".
    Bracket b leaves out the first b rungs, and its trials are compared among themselves only.
    Trial numbers decide the bracket, in the shares that Optuna has, but in a fixed cycle and not
    by a hash of the study's name.

    Attributes:
        minimum: Share of the budget at which the first rung of the first bracket lies.
        eta: Reduction factor η: of the trials at a rung one in so many goes on.
    """

    identity: ClassVar = Identity("pruner", "hyperband")

    minimum: Annotated[float, Interval(gt=0, lt=1)]
    eta: Annotated[int, Ge(2)]

    @property
    def weights(self) -> tuple[int, ...]:
        """Trials of each bracket in a cycle: ⌈B ηˢ / (s + 1)⌉ with s = B − 1 … 0."""
        brackets = len(rungs(self.minimum, self.eta))
        return tuple(-(-brackets * self.eta**s // (s + 1)) for s in range(brackets - 1, -1, -1))

    def bracket(self, number: int) -> int:
        """The bracket of a trial, from 0, which prunes first."""
        cycle = interleaved(self.weights)
        return cycle[number % len(cycle)]

    def prunes(self, point: Point) -> str | None:
        """Why the trial ends here, or nothing where it goes on."""
        bracket = self.bracket(point.number)
        rung = rung_at(point, self.minimum, self.eta, skipped=bracket)
        if rung is None:
            return None
        peers = [value for n, value in point.peers.items() if self.bracket(n) == bracket]
        reason = stops_at_rung(point, peers, rung, self.eta)
        return reason and f"{reason} of bracket {bracket}"


@cache
def interleaved(weights: tuple[int, ...]) -> tuple[int, ...]:
    """A cycle in which each position stands as often as its weight, spread evenly.

    Each turn goes to the one that is furthest behind its share, the first of equals.
    """
    total = sum(weights)
    had = [0] * len(weights)
    cycle = []
    for turn in range(1, total + 1):
        behind = [
            weight * turn - total * count for weight, count in zip(weights, had, strict=True)
        ]
        chosen = behind.index(max(behind))
        had[chosen] += 1
        cycle.append(chosen)
    return tuple(cycle)
