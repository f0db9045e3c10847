"""Sobol' search."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rlexp.protocol.identity import Identity
from rlexp.records.trial import Trial
from rlexp.tuners import Problem, Suggester, Suggestion
from rlexp.tuners.unit_cube import SobolPoints, check_sobol_point


@dataclass(frozen=True, slots=True, kw_only=True)
class SobolSequence:
    """A scrambled Sobol' sequence, which fills the space more evenly than random points.

    Trial n is point n of the sequence. The seed determines the scrambling (Sobol', 1967; linear
    matrix scrambling and a digital shift, Matoušek, 1998).
    """

    identity: ClassVar = Identity("tuner", "sobol")

    def open(self, problem: Problem) -> Suggester:
        """A suggester for a problem.

        Raises:
            ConfigError: The space has more parameters than the sequence has dimensions.
        """
        check_sobol_point(len(problem.space.parameters), 1)
        return _SobolSuggester(problem, SobolPoints(len(problem.space.parameters), problem.seed))


@dataclass(frozen=True, slots=True)
class _SobolSuggester:
    problem: Problem
    points: SobolPoints

    def needs(self, number: int) -> int:
        """0: points do not depend on trials."""
        del number
        return 0

    def suggest(self, trials: Sequence[Trial], number: int) -> Suggestion:
        """The point of the sequence with this number."""
        del trials
        return Suggestion(self.problem.space.decode(self.points.point(number).tolist()))
