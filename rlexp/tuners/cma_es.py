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
    Candidate,
    Generations,
    Member,
    Point,
    Replay,
    has_values,
    is_continuous,
    standing,
)
from rlexp.tuners.unit_cube import random_point


class Distribution(Protocol):
    """Where a generation is drawn from."""

    def sample(self, count: int, seed: int) -> list[Point]:
        """Draw points of the unit cube; the same seed draws the same ones."""
        ...

    def updated(self, points: Sequence[Point], order: Sequence[int], seed: int) -> "Distribution":
        """The next distribution.

        Args:
            points: Where the generation was really run, as it was drawn.
            order: The positions of the points from best to worst.
            seed: That it was drawn with.
        """
        ...

    @property
    def converged(self) -> bool:
        """Whether nothing is to be found any more that was not tried."""
        ...


def distribution(space: Space, mean: Point, sigma: float, population: int) -> Distribution:
    """The first distribution: CMA-ES where all parameters are continuous, CatCMAwM elsewhere.

    Args:
        space: Where to search.
        mean: Where to begin.
        sigma: Standard deviation of each parameter, as a share of its range.
        population: Points of a generation.
    """
    if all(is_continuous(p.domain) for p in space.parameters):
        return Gaussian.begin(mean, sigma, population)
    return Mixed.begin(tuple(p.domain for p in space.parameters), mean, sigma, population)


@dataclass(frozen=True, slots=True)
class Gaussian:
    """CMA-ES (Hansen 2016) in the unit cube; what falls outside is drawn again."""

    optimiser: Any

    @classmethod
    def begin(cls, mean: Point, sigma: float, population: int) -> "Gaussian":
        """With equal standard deviations in all directions."""
        from cmaes import CMA

        bounds = np.array([[0.0, 1.0]] * len(mean))
        start = np.array(mean)
        return cls(CMA(start, sigma, bounds=bounds, seed=0, population_size=population))

    def sample(self, count: int, seed: int) -> list[Point]:
        """Draw points."""
        optimiser = self._copy(seed)
        return [tuple(optimiser.ask().tolist()) for _ in range(count)]

    def updated(self, points: Sequence[Point], order: Sequence[int], seed: int) -> "Gaussian":
        """Only the order of the points counts."""
        optimiser = self._copy(seed)
        optimiser.tell([(np.array(points[i]), float(rank)) for rank, i in enumerate(order)])
        return Gaussian(optimiser)

    @property
    def converged(self) -> bool:
        """As the library judges it."""
        return bool(deepcopy(self.optimiser).should_stop())

    def _copy(self, seed: int) -> Any:
        optimiser = deepcopy(self.optimiser)
        # What is copied leaves its generator behind.
        optimiser.reseed_rng(seed)
        return optimiser


@dataclass(frozen=True, slots=True)
class Mixed:
    """CatCMA with Margin (Hamano, Nomura, Saito, Uchida and Shirakawa 2025).

    A Gaussian over real numbers and whole ones, which keep a probability of changing, and a
    categorical distribution over the choices.

    Attributes:
        optimiser: Of the library.
        domains: Of the parameters.
    """

    optimiser: Any
    domains: tuple[Domain, ...]

    @classmethod
    def begin(
        cls, domains: tuple[Domain, ...], mean: Point, sigma: float, population: int
    ) -> "Mixed":
        """With equal standard deviations, and all choices equally likely."""
        from cmaes import CatCMAwM

        real, whole, choices = _kinds(domains)
        start = np.array([mean[i] for i in (*real, *whole)])
        optimiser = CatCMAwM(
            x_space=[[0.0, 1.0]] * len(real) or None,
            z_space=[listed_shares(domains[i]) for i in whole] or None,
            c_space=[len(_choice(domains[i]).values) for i in choices] or None,
            population_size=population,
            mean=start,
            sigma=sigma,
            cov=np.eye(len(start)),
            seed=0,
        )
        return cls(optimiser, domains)

    def sample(self, count: int, seed: int) -> list[Point]:
        """Draw points."""
        return [self._point(solution) for solution in self._solutions(count, seed)]

    def updated(self, points: Sequence[Point], order: Sequence[int], seed: int) -> "Mixed":
        """Only the order of the points counts.

        A point that was drawn is told as it was before it was moved to the bounds, and to whole
        numbers.
        """
        solutions = [
            drawn if self._point(drawn) == point else self._solution(point)
            for drawn, point in zip(self._solutions(len(points), seed), points, strict=True)
        ]
        optimiser = deepcopy(self.optimiser)
        optimiser.tell([(solutions[i], float(rank)) for rank, i in enumerate(order)])
        return Mixed(optimiser, self.domains)

    @property
    def converged(self) -> bool:
        """As the library judges its Gaussian; choices alone never come to an end."""
        real, whole, _ = _kinds(self.domains)
        return bool(real or whole) and bool(deepcopy(self.optimiser).should_stop())

    def _solutions(self, count: int, seed: int) -> list[Any]:
        optimiser = deepcopy(self.optimiser)
        optimiser.reseed_rng(seed)
        return [optimiser.ask() for _ in range(count)]

    def _point(self, solution: Any) -> Point:
        real, whole, choices = _kinds(self.domains)
        shares: dict[int, float] = {}
        for indices, values in ((real, solution.x), (whole, solution.z)):
            shares.update(zip(indices, () if values is None else values.tolist(), strict=True))
        for row, i in enumerate(choices):
            position = int(solution.c[row].argmax())
            shares[i] = (position + 0.5) / len(_choice(self.domains[i]).values)
        return tuple(shares[i] for i in range(len(self.domains)))

    def _solution(self, point: Point) -> Any:
        """A point that was not drawn, told as if it had been."""
        from cmaes import CatCMAwM

        real, whole, choices = _kinds(self.domains)
        x, z = (np.array([point[i] for i in indices]) for indices in (real, whole))
        most = max((len(_choice(self.domains[i]).values) for i in choices), default=0)
        c = np.zeros((len(choices), most), dtype=bool)
        for row, i in enumerate(choices):
            values = _choice(self.domains[i])
            position = values.position(values.from_unit(point[i]))
            c[row, position] = True
        return CatCMAwM.Solution(x, z, c, np.concatenate((x, z)))


def listed_shares(domain: Domain) -> list[float]:
    """The shares in the middle of each value of a short range of whole numbers, going up."""
    assert isinstance(domain, Integer)
    shares = (domain.to_unit(value) for value in range(domain.low, domain.high + 1))
    return [share for share in shares if share is not None]


def _kinds(domains: Sequence[Domain]) -> tuple[list[int], list[int], list[int]]:
    """Where the continuous ones stand, those of few whole numbers, and the choices."""
    choices = [i for i, domain in enumerate(domains) if isinstance(domain, Choice)]
    real = [i for i, domain in enumerate(domains) if is_continuous(domain)]
    whole = [i for i in range(len(domains)) if i not in choices and i not in real]
    return real, whole, choices


def _choice(domain: Domain) -> Choice:
    assert isinstance(domain, Choice)
    return domain


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
