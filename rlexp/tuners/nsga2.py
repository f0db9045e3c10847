"""NSGA-II: a genetic algorithm for several objectives."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Interval
from numpy.typing import NDArray

from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity
from rlexp.protocol.space import Space
from rlexp.records.trial import Trial
from rlexp.tuners import Problem, Suggester
from rlexp.tuners.generational import (
    Candidate,
    Generations,
    Member,
    Point,
    Replay,
    has_values,
    is_continuous,
    last_intermediate,
)
from rlexp.tuners.unit_cube import generator, random_point


def non_dominated_ranks(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """The front of each point: 0 for those that none dominates, 1 behind these, and so on.

    A point dominates another if it is nowhere worse and somewhere better.

    Args:
        values: Objectives, greater is better, of shape (n, objectives).

    Returns:
        Of shape (n,).
    """
    no_worse: NDArray[np.bool_] = np.all(values[:, None] >= values[None], axis=2)
    dominates = no_worse & ~no_worse.T
    ranks = np.full(len(values), -1)
    rank = 0
    while (left := ranks < 0).any():
        ranks[left & ~dominates[left].any(axis=0)] = rank
        rank += 1
    return ranks


def crowding_distances(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far the neighbours of each point of one front lie apart, over all objectives.

    The sum over objectives of the distance between the next smaller and the next greater value,
    in units of the front's range; infinite at the ends. An objective in which all are equal
    says nothing.

    Args:
        values: Objectives of shape (n, objectives).

    Returns:
        Of shape (n,).
    """
    distances = np.zeros(len(values))
    for column in values.T:
        order = np.argsort(column, kind="stable")
        spread = column[order[-1]] - column[order[0]]
        if spread > 0:
            gaps = np.full(len(column), inf)
            gaps[1:-1] = (column[order[2:]] - column[order[:-2]]) / spread
            distances[order] += gaps
    return distances


ATTEMPTS = 20
"""Children that are drawn before one is accepted that the population holds already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NSGA2:
    """The elitist genetic algorithm of Deb, Pratap, Agarwal and Meyarivan (2002).

    A generation is suggested when the one before it is over. The default configuration is in
    the first one; what failed ranks behind everything else.

    Attributes:
        population: Trials of a generation.
        crossover_probability: How likely a child has two parents, and each parameter from
            either with the same probability; otherwise it is a mutant of one.
        mutation_probability: How likely each parameter is mutated; null: 1 / parameters.
        mutation_index: η of polynomial mutation: the greater, the smaller the changes. Choices
            and short ranges of whole numbers are drawn anew instead.
    """

    identity: ClassVar = Identity("tuner", "nsga2")

    population: Annotated[int, Ge(4)]
    crossover_probability: Annotated[float, Interval(ge=0, le=1)]
    mutation_probability: Annotated[float, Interval(gt=0, le=1)] | None
    mutation_index: Annotated[float, Interval(ge=0, le=1000)]

    def open(self, problem: Problem) -> Suggester:
        """Begin to work on a problem.

        Raises:
            ConfigError: It has one objective only.
        """
        if problem.objectives < 2:
            raise ConfigError(
                "tuner=nsga2 is for several objectives, and sweep.objective names one: "
                "choose tuner=tpe, or name several"
            )
        generations = Generations(initial=1 + self.population, size=self.population)
        method = Genetic(self, generations, problem.space, problem.seed)
        return Replay(problem.space, generations, method)


@dataclass(frozen=True, slots=True)
class Individual:
    """A member of the population, and how it stands there.

    Attributes:
        point: Where it was run.
        trial: Its trial, if it is known.
        number: Of the trial.
        rank: Its front, from 0.
        crowding: Its crowding distance in that front.
    """

    point: Point
    trial: Trial | None
    number: int
    rank: int
    crowding: float

    def precedes(self, other: "Individual") -> bool:
        """Whether it is better by the crowded comparison."""
        return (self.rank, -self.crowding) < (other.rank, -other.crowding)


Population = tuple[Individual, ...]


@dataclass(frozen=True, slots=True)
class Genetic:
    """NSGA-II on one problem: a state is the population, best first.

    Attributes:
        settings: Of the tuner.
        generations: Which trial belongs to which generation.
        space: Where to search.
        seed: Of everything that is drawn.
    """

    settings: NSGA2
    generations: Generations
    space: Space
    seed: int

    def begin(self) -> Population:
        """Nobody."""
        return ()

    def ask(self, state: Population, index: int) -> Sequence[Candidate]:
        """Uniform points at first, then children."""
        numbers = range(self.generations.first(index), self.generations.first(index + 1))
        if not state:
            dimensions = len(self.space.parameters)
            points = [random_point(dimensions, self.seed, number) for number in numbers]
            return [Candidate(tuple(point.tolist())) for point in points]
        known = [self.space.decode(one.point) for one in state]
        randoms = [generator(self.seed, number) for number in numbers]
        return [Candidate(self._unknown_child(state, known, random)) for random in randoms]

    def tell(
        self,
        state: Population,
        index: int,  # noqa: ARG002  all generations are alike
        members: Sequence[Member],
    ) -> Population:
        """The best of the population and its children."""
        before = [Member(one.number, one.point, one.trial) for one in state]
        return ranked([*before, *members])[: self.settings.population]

    def _unknown_child(
        self, state: Population, known: list[dict[str, object]], random: np.random.Generator
    ) -> Point:
        for _ in range(ATTEMPTS):
            point = self._child(state, random)
            if self.space.decode(point) not in known:
                break
        return point

    def _child(self, state: Population, random: np.random.Generator) -> Point:
        parent = tournament(state, random).point
        other = tournament(state, random).point
        point = np.array(parent)
        if random.random() < self.settings.crossover_probability:
            point = np.where(random.random(len(parent)) < 0.5, point, other)
        probability = self.settings.mutation_probability or 1 / len(parent)
        for i in np.flatnonzero(random.random(len(parent)) < probability):
            point[i] = self._mutated(int(i), float(point[i]), float(random.random()))
        return tuple(point.tolist())

    def _mutated(self, i: int, share: float, draw: float) -> float:
        if not is_continuous(self.space.parameters[i].domain):
            return draw
        return polynomial_mutation(share, draw, self.settings.mutation_index)


def tournament(population: Population, random: np.random.Generator) -> Individual:
    """The better of two members; the first drawn where neither is."""
    first, second = random.choice(len(population), 2, replace=False)
    holder, challenger = population[int(first)], population[int(second)]
    return challenger if challenger.precedes(holder) else holder


def polynomial_mutation(share: float, draw: float, index: float) -> float:
    """A share in [0, 1] near another one (Deb and Agrawal 1999, with the bounds respected).

    Args:
        share: What is mutated.
        draw: Uniform in [0, 1): below ½ it goes down, above up.
        index: η: the greater, the nearer.
    """
    power = index + 1
    if draw < 0.5:
        step: float = (2 * draw + (1 - 2 * draw) * (1 - share) ** power) ** (1 / power) - 1
    else:
        step = 1 - (2 * (1 - draw) + (2 * draw - 1) * share**power) ** (1 / power)
    return min(max(share + step, 0.0), 1.0)


def ranked(members: Sequence[Member]) -> Population:
    """All members, best first: by front, then by crowding distance, then by number.

    Behind the fronts of those with values stand the pruned ones, and behind them the failed.
    """
    valued = [m for m in members if has_values(m.trial)]
    rest = [m for m in members if not has_values(m.trial)]
    fronts = _fronts(valued)
    behind = 1 + max((one.rank for one in fronts), default=-1)
    others = [
        Individual(m.point, m.trial, m.number, behind + (last_intermediate(m.trial) is None), 0.0)
        for m in rest
    ]
    return tuple(sorted([*fronts, *others], key=lambda i: (i.rank, -i.crowding, i.number)))


def _fronts(members: Sequence[Member]) -> list[Individual]:
    if not members:
        return []
    values = np.array([m.trial.values for m in members if m.trial is not None])
    ranks = non_dominated_ranks(values)
    crowding = np.zeros(len(members))
    for rank in range(int(ranks.max()) + 1):
        crowding[ranks == rank] = crowding_distances(values[ranks == rank])
    return [
        Individual(m.point, m.trial, m.number, int(rank), float(distance))
        for m, rank, distance in zip(members, ranks, crowding, strict=True)
    ]
