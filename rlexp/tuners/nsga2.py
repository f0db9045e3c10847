"""NSGA-II: a genetic algorithm for several objectives."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Interval

from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity
from rlexp.protocol.space import Space
from rlexp.records.trial import Trial
from rlexp.stats.pareto import crowding_distances, non_dominated_ranks
from rlexp.tuners import Problem, Suggester
from rlexp.tuners.generational import (
    CandidatePoint,
    EvaluatedPoint,
    Generations,
    ReplaySuggester,
    UnitPoint,
    is_complete,
    is_continuous,
    last_intermediate,
)
from rlexp.tuners.unit_cube import random_point, trial_generator

MAX_ATTEMPTS = 20
"""Draws of a child before a duplicate of the population is accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NSGA2:
    """The elitist genetic algorithm of Deb, Pratap, Agarwal and Meyarivan (2002).

    A generation is suggested after the previous one has ended. The default configuration is in
    the first generation; failed trials rank last.

    Attributes:
        population: Number of trials of a generation.
        crossover_probability: How likely a child has two parents, with each parameter from either
            one with probability ½; otherwise the child is a mutant of one parent.
        mutation_probability: How likely each parameter is mutated; null: 1 / parameters.
        mutation_index: η of polynomial mutation: the greater, the smaller the changes. Choices
            and short ranges of integers are drawn uniformly instead.
    """

    identity: ClassVar = Identity("tuner", "nsga2")

    population: Annotated[int, Ge(4)]
    crossover_probability: Annotated[float, Interval(ge=0, le=1)]
    mutation_probability: Annotated[float, Interval(gt=0, le=1)] | None
    mutation_index: Annotated[float, Interval(ge=0, le=1000)]

    def open(self, problem: Problem) -> Suggester:
        """A suggester for a problem.

        Raises:
            ConfigError: The problem has a single objective.
        """
        if problem.objectives < 2:
            raise ConfigError(
                "tuner=nsga2 needs several objectives, and sweep.objective has one: "
                "choose tuner=tpe, or write several objectives"
            )
        # Trial 0 is the default configuration, which the first generation has in addition.
        generations = Generations(initial=1 + self.population, size=self.population)
        method = GeneticMethod(self, generations, problem.space, problem.seed)
        return ReplaySuggester(problem.space, generations, method)


@dataclass(frozen=True, slots=True)
class Individual:
    """A member of the population with its rank.

    Attributes:
        point: The point that was evaluated.
        trial: The trial; None if it failed and the sweep excludes failed trials.
        number: The number of the trial.
        rank: The front of the individual, from 0.
        crowding: The crowding distance in the front.
    """

    point: UnitPoint
    trial: Trial | None
    number: int
    rank: int
    crowding: float

    def precedes(self, other: "Individual") -> bool:
        """Whether the individual is better by the crowded-comparison operator."""
        return (self.rank, -self.crowding) < (other.rank, -other.crowding)


Population = tuple[Individual, ...]


@dataclass(frozen=True, slots=True)
class GeneticMethod:
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
        """An empty population."""
        return ()

    def ask(self, state: Population, index: int) -> Sequence[CandidatePoint]:
        """The candidates of a generation: uniform points in the first one, then children."""
        numbers = range(self.generations.first(index), self.generations.first(index + 1))
        if not state:
            dimensions = len(self.space.parameters)
            points = [random_point(dimensions, self.seed, number) for number in numbers]
            return [CandidatePoint(tuple(point.tolist())) for point in points]
        existing = [self.space.decode(individual.point) for individual in state]
        # One random stream per trial: a child does not depend on how many draws others needed.
        randoms = [trial_generator(self.seed, number) for number in numbers]
        return [CandidatePoint(self._new_child(state, existing, random)) for random in randoms]

    def tell(
        self,
        state: Population,
        index: int,  # noqa: ARG002  all generations are alike
        members: Sequence[EvaluatedPoint],
    ) -> Population:
        """The best individuals of the population and its children."""
        before = [
            EvaluatedPoint(individual.number, individual.point, individual.trial)
            for individual in state
        ]
        return ranked([*before, *members])[: self.settings.population]

    def _new_child(
        self, state: Population, existing: list[dict[str, object]], random: np.random.Generator
    ) -> UnitPoint:
        for _ in range(MAX_ATTEMPTS):
            point = self._child(state, random)
            if self.space.decode(point) not in existing:
                break
        return point

    def _child(self, state: Population, random: np.random.Generator) -> UnitPoint:
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
    """The better of two random individuals; the first one if they tie."""
    first, second = random.choice(len(population), 2, replace=False)
    holder, challenger = population[int(first)], population[int(second)]
    return challenger if challenger.precedes(holder) else holder


def polynomial_mutation(share: float, draw: float, index: float) -> float:
    """A mutated share in [0, 1] (Deb and Agrawal 1999, the variant that respects the bounds).

    Args:
        share: The share before mutation.
        draw: Uniform in [0, 1): below ½ the share decreases, above ½ it increases.
        index: η: the greater, the smaller the change.
    """
    power = index + 1
    if draw < 0.5:
        step: float = (2 * draw + (1 - 2 * draw) * (1 - share) ** power) ** (1 / power) - 1
    else:
        step = 1 - (2 * (1 - draw) + (2 * draw - 1) * share**power) ** (1 / power)
    # Rounding of the powers may leave the interval by a bit.
    return min(max(share + step, 0.0), 1.0)


def ranked(members: Sequence[EvaluatedPoint]) -> Population:
    """All members, best first: by front, then by crowding distance, then by number.

    Pruned trials follow the fronts of complete trials; failed trials are last.
    """
    valued = [m for m in members if is_complete(m.trial)]
    rest = [m for m in members if not is_complete(m.trial)]
    fronts = _fronts(valued)
    behind = 1 + max((individual.rank for individual in fronts), default=-1)
    others = [
        Individual(m.point, m.trial, m.number, behind + (last_intermediate(m.trial) is None), 0.0)
        for m in rest
    ]
    return tuple(sorted([*fronts, *others], key=lambda i: (i.rank, -i.crowding, i.number)))


def _fronts(members: Sequence[EvaluatedPoint]) -> list[Individual]:
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
