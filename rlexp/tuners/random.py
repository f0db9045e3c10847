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
    """Independent draws from the space, uniform on each range's own scale.

    The reference that every other tuner has to beat (Bergstra and Bengio, 2012).
    """

    identity: ClassVar = Identity("tuner", "random")

    def open(self, problem: Problem) -> Suggester:
        """Begin to work on a problem; it can always be solved this way."""
        return _Draws(problem)


@dataclass(frozen=True, slots=True)
class _Draws:
    problem: Problem

    def needs(self, number: int) -> int:
        """No trial: draws do not depend on any."""
        del number
        return 0

    def suggest(self, trials: Sequence[Trial], number: int) -> Suggestion:
        """The draw that belongs to the number."""
        del trials
        space = self.problem.space
        return Suggestion(
            space.decode(random_point(len(space.parameters), self.problem.seed, number).tolist())
        )
