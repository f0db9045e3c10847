"""CMA-ES: covariance matrix adaptation evolution strategy."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from math import floor, log
from typing import Annotated, Any, ClassVar, Protocol

import numpy as np
from annotated_types import Ge, Interval

from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity
from rlexp.protocol.space import Choice, Domain, Integer, Space
from rlexp.tuners import Problem, Suggester
from rlexp.tuners.generational import (
    CandidatePoint,
    EvaluatedPoint,
    Generations,
    ReplaySuggester,
    UnitPoint,
    is_complete,
    is_continuous,
    sort_key,
)
from rlexp.tuners.unit_cube import random_point


class Distribution(Protocol):
    """A search distribution, from which a generation is drawn."""

    def sample(self, count: int, seed: int) -> list[UnitPoint]:
        """Draw points of the unit cube; equal seeds draw equal points."""
        ...

    def updated(
        self, points: Sequence[UnitPoint], order: Sequence[int], seed: int
    ) -> "Distribution":
        """The distribution of the next generation.

        Args:
            points: The points that were evaluated, in the order in which they were drawn.
            order: The positions of the points from best to worst.
            seed: The seed with which the points were drawn.
        """
        ...

    @property
    def converged(self) -> bool:
        """Whether the distribution is so narrow that the search must restart."""
        ...


def initial_distribution(
    space: Space, mean: UnitPoint, sigma: float, population: int
) -> Distribution:
    """The first distribution: CMA-ES if all parameters are continuous, otherwise CatCMAwM.

    Args:
        space: The search space.
        mean: The mean of the distribution.
        sigma: Standard deviation of each parameter, as a share of its range.
        population: Number of points of a generation.
    """
    if all(is_continuous(p.domain) for p in space.parameters):
        return CmaDistribution.begin(mean, sigma, population)
    return MixedDistribution.begin(
        tuple(p.domain for p in space.parameters), mean, sigma, population
    )


@dataclass(frozen=True, slots=True)
class CmaDistribution:
    """CMA-ES (Hansen 2016) in the unit cube; points outside the cube are drawn again."""

    optimiser: Any

    @classmethod
    def begin(cls, mean: UnitPoint, sigma: float, population: int) -> "CmaDistribution":
        """A distribution with equal standard deviations in all directions."""
        from cmaes import CMA

        bounds = np.array([[0.0, 1.0]] * len(mean))
        start = np.array(mean)
        # Any seed will do, because a copy is seeded again before it draws.
        return cls(CMA(start, sigma, bounds=bounds, seed=0, population_size=population))

    def sample(self, count: int, seed: int) -> list[UnitPoint]:
        """Draw points."""
        optimiser = self._copy(seed)
        return [tuple(optimiser.ask().tolist()) for _ in range(count)]

    def updated(
        self, points: Sequence[UnitPoint], order: Sequence[int], seed: int
    ) -> "CmaDistribution":
        """The distribution after a generation, from the ranks of its points."""
        optimiser = self._copy(seed)
        # The library minimises, so the best point gets the smallest number.
        optimiser.tell([(np.array(points[i]), float(rank)) for rank, i in enumerate(order)])
        return CmaDistribution(optimiser)

    @property
    def converged(self) -> bool:
        """Whether the library considers the distribution converged."""
        # should_stop stores an eigendecomposition in the optimiser, and a state must not change.
        return bool(deepcopy(self.optimiser).should_stop())

    def _copy(self, seed: int) -> Any:
        optimiser = deepcopy(self.optimiser)
        # The library does not copy its random generator.
        optimiser.reseed_rng(seed)
        return optimiser


@dataclass(frozen=True, slots=True)
class MixedDistribution:
    """CatCMA with Margin (Hamano, Nomura, Saito, Uchida and Shirakawa 2025).

    A Gaussian over real numbers and integers, where a margin keeps each integer likely to change,
    and a categorical distribution over the choices.

    Attributes:
        optimiser: The optimiser of the library `cmaes`.
        domains: The domains of the parameters.
    """

    optimiser: Any
    domains: tuple[Domain, ...]

    @classmethod
    def begin(
        cls, domains: tuple[Domain, ...], mean: UnitPoint, sigma: float, population: int
    ) -> "MixedDistribution":
        """A distribution with equal standard deviations and equally likely choices."""
        from cmaes import CatCMAwM

        real, whole, choices = _indices_by_kind(domains)
        start = np.array([mean[i] for i in (*real, *whole)])
        optimiser = CatCMAwM(
            # The library takes None, not an empty list, for a kind that the space does not have.
            x_space=[[0.0, 1.0]] * len(real) or None,
            z_space=[listed_shares(domains[i]) for i in whole] or None,
            c_space=[len(_as_choice(domains[i]).values) for i in choices] or None,
            population_size=population,
            mean=start,
            sigma=sigma,
            cov=np.eye(len(start)),
            seed=0,
        )
        return cls(optimiser, domains)

    def sample(self, count: int, seed: int) -> list[UnitPoint]:
        """Draw points."""
        return [self._point(solution) for solution in self._solutions(count, seed)]

    def updated(
        self, points: Sequence[UnitPoint], order: Sequence[int], seed: int
    ) -> "MixedDistribution":
        """The distribution after a generation, from the ranks of its points.

        A drawn point is passed back as it was before the library moved it to bounds and integers.
        """
        solutions = [
            drawn if self._point(drawn) == point else self._solution(point)
            for drawn, point in zip(self._solutions(len(points), seed), points, strict=True)
        ]
        optimiser = deepcopy(self.optimiser)
        optimiser.tell([(solutions[i], float(rank)) for rank, i in enumerate(order)])
        return MixedDistribution(optimiser, self.domains)

    @property
    def converged(self) -> bool:
        """Whether the library considers the Gaussian converged; choices alone never converge."""
        real, whole, _ = _indices_by_kind(self.domains)
        return bool(real or whole) and bool(deepcopy(self.optimiser).should_stop())

    def _solutions(self, count: int, seed: int) -> list[Any]:
        optimiser = deepcopy(self.optimiser)
        optimiser.reseed_rng(seed)
        return [optimiser.ask() for _ in range(count)]

    def _point(self, solution: Any) -> UnitPoint:
        real, whole, choices = _indices_by_kind(self.domains)
        shares: dict[int, float] = {}
        for indices, values in ((real, solution.x), (whole, solution.z)):
            shares.update(zip(indices, () if values is None else values.tolist(), strict=True))
        for row, i in enumerate(choices):
            position = int(solution.c[row].argmax())
            # The middle of a choice's part of the interval decodes to the choice despite rounding.
            shares[i] = (position + 0.5) / len(_as_choice(self.domains[i]).values)
        return tuple(shares[i] for i in range(len(self.domains)))

    def _solution(self, point: UnitPoint) -> Any:
        """A point in the library's form, for a point that the library did not draw."""
        from cmaes import CatCMAwM

        real, whole, choices = _indices_by_kind(self.domains)
        x, z = (np.array([point[i] for i in indices]) for indices in (real, whole))
        # The library keeps all choices in one matrix, which is as wide as the longest choice.
        most = max((len(_as_choice(self.domains[i]).values) for i in choices), default=0)
        c = np.zeros((len(choices), most), dtype=bool)
        for row, i in enumerate(choices):
            values = _as_choice(self.domains[i])
            position = values.position(values.from_unit(point[i]))
            c[row, position] = True
        return CatCMAwM.Solution(x, z, c, np.concatenate((x, z)))


def listed_shares(domain: Domain) -> list[float]:
    """The shares of the values of a short range of integers, ascending."""
    assert isinstance(domain, Integer)
    shares = (domain.to_unit(value) for value in range(domain.low, domain.high + 1))
    return [share for share in shares if share is not None]


def _indices_by_kind(domains: Sequence[Domain]) -> tuple[list[int], list[int], list[int]]:
    """The indices of the continuous parameters, the short integer ranges and the choices."""
    choices = [i for i, domain in enumerate(domains) if isinstance(domain, Choice)]
    real = [i for i, domain in enumerate(domains) if is_continuous(domain)]
    whole = [i for i in range(len(domains)) if i not in choices and i not in real]
    return real, whole, choices


def _as_choice(domain: Domain) -> Choice:
    assert isinstance(domain, Choice)
    return domain


@dataclass(frozen=True, slots=True, kw_only=True)
class CMAES:
    """Covariance matrix adaptation (Hansen 2016), starting at the default configuration.

    If the space has choices or short ranges of integers, the method is CatCMA with Margin
    (Hamano, Nomura, Saito, Uchida and Shirakawa 2025), which models them as discrete.
    A generation is suggested after the previous one has ended. Only the ranks of the trials
    matter: pruned trials rank below complete ones, failed trials last.

    Attributes:
        population: Number of trials of a generation; null: 4 + ⌊3 ln(parameters)⌋.
        sigma: Standard deviation of the first generation, as a share of each range.
    """

    identity: ClassVar = Identity("tuner", "cma_es")

    population: Annotated[int, Ge(4)] | None
    sigma: Annotated[float, Interval(gt=0, le=1)]

    def open(self, problem: Problem) -> Suggester:
        """A suggester for a problem.

        Raises:
            ConfigError: The problem has several objectives.
        """
        if problem.objectives > 1:
            raise ConfigError(
                f"tuner=cma_es optimises one objective, and sweep.objective has "
                f"{problem.objectives}: choose tuner=nsga2 or tuner=tpe, or write one objective"
            )
        dimensions = len(problem.space.parameters)
        size = self.population or 4 + floor(3 * log(dimensions))
        strategy = CmaEsMethod(problem.space, self.sigma, size, problem.seed)
        return ReplaySuggester(problem.space, Generations(initial=1, size=size), strategy)


@dataclass(frozen=True, slots=True)
class CmaEsMethod:
    """CMA-ES on one problem. A state is the distribution of the next generation.

    Attributes:
        space: The search space.
        sigma: The first standard deviation.
        size: Number of trials of a generation.
        seed: The seed of all random draws.
    """

    space: Space
    sigma: float
    size: int
    seed: int

    def begin(self) -> Distribution:
        """The distribution around the middle of the space."""
        return self._around((0.5,) * len(self.space.parameters))

    def ask(self, state: Distribution, index: int) -> Sequence[CandidatePoint]:
        """A sample of the distribution; round 0 is the default configuration."""
        if index == 0:
            return [CandidatePoint((0.5,) * len(self.space.parameters))]
        return [CandidatePoint(point) for point in state.sample(self.size, self._seed(index))]

    def tell(
        self, state: Distribution, index: int, members: Sequence[EvaluatedPoint]
    ) -> Distribution:
        """The distribution after a round.

        Round 0 moves the mean to the default configuration, unless that failed.
        """
        if index == 0:
            return self._around(members[0].point) if is_complete(members[0].trial) else state
        standings = [sort_key(member.trial) for member in members]
        # A generation of ties has no order: an update would be arbitrary.
        if len(set(standings)) == 1:
            return state
        order = sorted(range(len(members)), key=standings.__getitem__, reverse=True)
        points = [member.point for member in members]
        updated = state.updated(points, order, self._seed(index))
        # The number of the trial seeds the new mean, so that every restart begins elsewhere.
        return self._restart(members[0].number) if updated.converged else updated

    def _restart(self, number: int) -> Distribution:
        mean = random_point(len(self.space.parameters), self.seed, number)
        return self._around(tuple(mean.tolist()))

    def _around(self, mean: UnitPoint) -> Distribution:
        return initial_distribution(self.space, mean, self.sigma, self.size)

    def _seed(self, index: int) -> int:
        return int(np.random.SeedSequence([self.seed, index]).generate_state(1)[0])
