"""Search distributions of `cmaes` as values: sampled and updated without being changed."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rlexp.protocol.space import Choice, Domain, Integer, Space
from rlexp.tuners.rounds import Point, is_continuous


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
