"""The evidence of a front: what each of its policies reached on every seed, and hypervolumes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlexp.protocol.sweep import oriented

Vector = tuple[float, ...]
"""The value of each objective, in its units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontPolicy:
    """A trial that ran on selection or test seeds, or is on the front so far.

    Attributes:
        trial: The number of the trial.
        name: Its name, such as `tuned (trial 7)`.
        on_front: Whether it is on the front; finalists that another one dominates are not.
        values: The objectives of each run that has all of them, by phase and seed; NaN for the spread over
            seeds, which no single run has.
        whole: The objectives aggregated over these runs, by phase.
        planned: Number of planned runs by phase.
        chosen_by: The objectives that the choice compared: on selection seeds, or on tuning seeds
            where there was no choice by selection seeds.
    """

    trial: int
    name: str
    on_front: bool
    values: Mapping[str, Mapping[int, Vector]]
    whole: Mapping[str, Vector]
    planned: Mapping[str, int]
    chosen_by: Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontEvidence:
    """The front of a sweep of several objectives.

    Attributes:
        objectives: The names of the objectives.
        minimised: Those whose lower values are better.
        reference: The point from which hypervolumes are measured.
        reference_rule: Where this point comes from, in words.
        frozen: Whether the front was written down with the choice; before, it may still change.
        searched: The objectives of each trial on the seeds on which every trial runs, by number.
        searched_seeds: Number of these seeds.
        volumes: The hypervolume of the trials up to each one, on these seeds, by number.
        policies: The finalists, and the default configuration.
        known: The known values of each objective, such as its smallest possible value.
        weights: The declared weights of the expected utility; None for evenly spaced ones.
        utility: Whether an expected utility is reported: of returns of a vector reward, and with declared
            weights.
    """

    objectives: tuple[str, ...]
    minimised: frozenset[str]
    reference: Vector
    reference_rule: str
    frozen: bool
    searched: Mapping[int, Vector]
    searched_seeds: int
    volumes: Mapping[int, float]
    policies: tuple[FrontPolicy, ...]
    known: Mapping[str, Mapping[str, Any]]
    weights: tuple[tuple[float, ...], ...] | None
    utility: bool

    @property
    def front(self) -> tuple[FrontPolicy, ...]:
        """The policies of the front."""
        return tuple(policy for policy in self.policies if policy.on_front)

    def oriented(self, values: Sequence[float]) -> Vector:
        """Values of the objectives with signs such that greater is better."""
        return oriented(values, self.objectives, self.minimised)
