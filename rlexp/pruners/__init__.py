"""Pruners: end trials early that are unlikely to be good."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class PruningPoint:
    """The state of a trial at an evaluation, or at the end, of one of its runs.

    Greater numbers are better.

    Attributes:
        number: The number of the trial.
        position: The position of the run's seed among the tuning seeds, from 0. Earlier runs are
            over.
        step: Environment steps, a multiple of `every`; equals `steps` at the end of the run.
        steps: Environment steps of the whole run.
        every: Environment steps between evaluations.
        value: Mean evaluation at this step over the seeds up to this one; at the end, mean score.
        peers: The values of earlier trials that reached the same point, by trial number.
        scores: The scores of the finished runs of this trial.
        best: The scores of the best complete earlier trial, in the same order of seeds; empty if
            there is none.
    """

    number: int
    position: int
    step: int
    steps: int
    every: int
    value: float
    peers: Mapping[int, float]
    scores: tuple[float, ...] = ()
    best: tuple[float, ...] = ()

    @property
    def ends_run(self) -> bool:
        """Whether the run is over; pruning then saves the remaining seeds only."""
        return self.step >= self.steps


class Pruner(Protocol):
    """A rule that ends trials early: the fields are its settings.

    The class variable `identity` (`rlexp.protocol.identity.Identity`) names the pruner in records.
    A class without `identity` is named by its module path.
    """

    def prunes(self, point: PruningPoint) -> str | None:
        """The reason to end the trial here; None to continue. Depends on `point` only."""
        ...
