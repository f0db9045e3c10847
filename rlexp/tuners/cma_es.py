"""CMA-ES: covariance matrix adaptation evolution strategy."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Interval

from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity
from rlexp.protocol.space import Space
from rlexp.tuners import Problem, Suggester
from rlexp.tuners.evolution_strategies import Distribution, distribution
from rlexp.tuners.points import random_point
from rlexp.tuners.rounds import (
    Candidate,
    Generations,
    Member,
    Point,
    Replay,
    has_values,
    standing,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CMAES:
    """Covariance matrix adaptation (Hansen 2016), begun at the default configuration.

    Where the space holds choices or short ranges of whole numbers it is CatCMA with Margin
    (Hamano, Nomura, Saito, Uchida and Shirakawa 2025), which treats them as what they are.
    A generation is suggested when the one before it is over. Only the order of the trials
    counts: pruned ones come behind complete ones, failed ones last.

    Attributes:
        population: Trials of a generation; null: 4 + ⌊3 ln(parameters)⌋.
        sigma: Standard deviation of the first generation, as a share of each range.
    """

    identity: ClassVar = Identity("tuner", "cma_es")

    population: Annotated[int, Ge(4)] | None
    sigma: Annotated[float, Interval(gt=0, le=1)]

    def open(self, problem: Problem) -> Suggester:
        """Begin to work on a problem.

        Raises:
            ConfigError: It has several objectives.
        """
        if problem.objectives > 1:
            raise ConfigError(
                f"tuner=cma_es optimises one thing, and sweep.objective names "
                f"{problem.objectives}: choose tuner=nsga2 or tuner=tpe, or name one"
            )
        dimensions = len(problem.space.parameters)
        size = self.population or 4 + floor(3 * log(dimensions))
        strategy = Strategy(problem.space, self.sigma, size, problem.seed)
        return Replay(problem.space, Generations(initial=1, size=size), strategy)


@dataclass(frozen=True, slots=True)
class Strategy:
    """CMA-ES on one problem: a state is the distribution of the next generation.

    Attributes:
        space: Where to search.
        sigma: First standard deviation.
        size: Trials of a generation.
        seed: Of everything that is drawn.
    """

    space: Space
    sigma: float
    size: int
    seed: int

    def begin(self) -> Distribution:
        """Around the middle of the space."""
        return self._around((0.5,) * len(self.space.parameters))

    def ask(self, state: Distribution, index: int) -> Sequence[Candidate]:
        """A sample; round 0 is the default configuration, wherever that is."""
        if index == 0:
            return [Candidate((0.5,) * len(self.space.parameters))]
        return [Candidate(point) for point in state.sample(self.size, self._seed(index))]

    def tell(self, state: Distribution, index: int, members: Sequence[Member]) -> Distribution:
        """Move to the default configuration, if that did not fail; then learn from samples."""
        if index == 0:
            return self._around(members[0].point) if has_values(members[0].trial) else state
        standings = [standing(member.trial) for member in members]
        if len(set(standings)) == 1:
            return state
        order = sorted(range(len(members)), key=standings.__getitem__, reverse=True)
        points = [member.point for member in members]
        found = state.updated(points, order, self._seed(index))
        return self._restart(members[0].number) if found.converged else found

    def _restart(self, number: int) -> Distribution:
        mean = random_point(len(self.space.parameters), self.seed, number)
        return self._around(tuple(mean.tolist()))

    def _around(self, mean: Point) -> Distribution:
        return distribution(self.space, mean, self.sigma, self.size)

    def _seed(self, index: int) -> int:
        return int(np.random.SeedSequence([self.seed, index]).generate_state(1)[0])
