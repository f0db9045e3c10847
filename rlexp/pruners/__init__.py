"""Pruners: whether a trial is worth its remaining environment steps."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Where a trial stands: at an evaluation of one of its runs, or at the end of one.

    All numbers are such that greater is better.

    Attributes:
        number: Of the trial.
        position: Of the run's seed among the tuning seeds, from 0. The runs before it are over.
        step: Environment steps, a multiple of `every`; `steps` at the end of the run.
        steps: Environment steps of the whole run.
        every: Environment steps between evaluations.
        value: Mean evaluation at this step over the seeds up to this one; at the end, mean score.
        peers: The same of earlier trials that came to the same point, by number.
        scores: Own scores of the runs that are over.
        best: Scores of the best earlier trial that is complete, in the same order of the seeds;
            empty where there is none.
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
        """Whether the run is over, so that only further seeds can be saved."""
        return self.step >= self.steps


class Pruner(Protocol):
    """A rule by which trials are given up: its fields are its settings.

    Its class variable `identity` (`rlexp.protocol.identity.Identity`) names it in records. A class
    without one is named by its module path.
    """

    def prunes(self, point: Point) -> str | None:
        """Why the trial ends here, or nothing where it goes on. A function of `point` alone."""
        ...
