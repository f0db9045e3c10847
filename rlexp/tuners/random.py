"""Random search."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rlexp.protocol.identity import Identity
from rlexp.records.trial import Trial
from rlexp.tuners import Problem, Suggester, Suggestion
from rlexp.tuners.unit_cube import random_point


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomSearch:
    """Independent draws from the space, uniform on the scale of each range.

    Random search is the baseline for every other tuner (Bergstra and Bengio, 2012).
    """

    identity: ClassVar = Identity("tuner", "random")

    def open(self, problem: Problem) -> Suggester:
        """A suggester for a problem; every problem is accepted."""
        return _RandomSuggester(problem)


@dataclass(frozen=True, slots=True)
class _RandomSuggester:
    problem: Problem

    def needs(self, number: int) -> int:
        """0: draws do not depend on trials."""
        del number
        return 0

    def suggest(self, trials: Sequence[Trial], number: int) -> Suggestion:
        """The draw with this number."""
        del trials
        space = self.problem.space
        return Suggestion(
            space.decode(random_point(len(space.parameters), self.problem.seed, number).tolist())
        )
