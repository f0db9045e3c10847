"""DEHB: differential evolution on the rungs of Hyperband."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from math import floor, inf, log
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Interval
from numpy.typing import NDArray

from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity
from rlexp.records.trial import Trial
from rlexp.tuners import Problem, Suggester
from rlexp.tuners.generational import (
    CandidatePoint,
    EvaluatedPoint,
    ReplaySuggester,
    is_complete,
    last_intermediate,
)
from rlexp.tuners.unit_cube import trial_generator

FloatArray = NDArray[np.float64]

MUTANT_PARENTS = 3
"""Number of different members in a rand/1 mutant."""


def rand1(first: FloatArray, second: FloatArray, third: FloatArray, factor: float) -> FloatArray:
    """The mutant first + factor · (second − third), which may lie outside the unit cube.

    Args:
        first: The base point, of shape (d,) like the others.
        second: The end of the difference vector.
        third: The beginning of the difference vector.
        factor: The mutation factor F.
    """
    return first + factor * (second - third)


def mutate(
    pool: FloatArray, parent: FloatArray, factor: float, random: np.random.Generator
) -> FloatArray:
    """A mutant of three different members of the pool without the parent.

    Args:
        pool: Points to draw from, of shape (n, d), n ≥ 1. If fewer than three remain without
            the parent, uniform points are added.
        parent: The parent, of shape (d,).
        factor: The mutation factor F.
        random: The random generator.

    Returns:
        A point of shape (d,), which may lie outside the unit cube.
    """
    others = _without(pool, parent) if len(pool) > 1 else pool
    if (lacking := MUTANT_PARENTS - len(others)) > 0:
        others = np.concatenate((others, random.uniform(size=(lacking, len(parent)))))
    first, second, third = others[random.choice(len(others), MUTANT_PARENTS, replace=False)]
    return rand1(first, second, third, factor)


def cross(
    parent: FloatArray, mutant: FloatArray, probability: float, random: np.random.Generator
) -> FloatArray:
    """Binomial crossover: each gene comes from the mutant with a probability, at least one does.

    Args:
        parent: The parent, of shape (d,).
        mutant: The mutant, of shape (d,).
        probability: The crossover rate CR.
        random: The random generator.
    """
    taken = random.random(len(parent)) < probability
    if not taken.any():
        taken[random.integers(0, len(parent))] = True
    return np.where(taken, mutant, parent)


def redraw_outside(point: FloatArray, random: np.random.Generator) -> FloatArray:
    """The point of shape (d,) where each gene outside [0, 1] is drawn again, uniformly."""
    outside = (point > 1) | (point < 0)
    inside = point.copy()
    inside[outside] = random.uniform(size=int(outside.sum()))
    return inside


def make_child(
    parent: FloatArray,
    pool: FloatArray,
    everyone: FloatArray,
    *,
    factor: float,
    probability: float,
    random: np.random.Generator,
) -> FloatArray:
    """A child of a parent in the unit cube (Awad, Mallik and Hutter 2021, DEHB).

    Args:
        parent: The parent, of shape (d,).
        pool: The points of which the mutant is made, of shape (n, d). If there are fewer than
            three, mutants of all members are added.
        everyone: The members of all subpopulations, of shape (m, d), m ≥ 1.
        factor: The mutation factor F.
        probability: The crossover rate CR.
        random: The random generator.
    """
    if len(pool) < MUTANT_PARENTS:
        # One more than needed, because `mutate` leaves out the parent if it is in the pool.
        count = MUTANT_PARENTS - len(pool) + 1
        added = [mutate(everyone, parent, factor, random) for _ in range(count)]
        pool = np.concatenate((pool, added))
    mutant = mutate(pool, parent, factor, random)
    return redraw_outside(cross(parent, mutant, probability, random), random)


def _without(pool: FloatArray, parent: FloatArray) -> FloatArray:
    # Only one copy is removed: the pool may hold the same point several times.
    same = np.flatnonzero((pool == parent).all(axis=1))
    return np.delete(pool, same[0], axis=0) if len(same) else pool


@dataclass(frozen=True, slots=True)
class Rung:
    """Trials with equally many environment steps that are suggested together.

    Attributes:
        bracket: Number of the bracket, from 0, over all cycles.
        position: Position in the bracket; 0 has the fewest steps.
        fidelity: Index of the environment steps among the fidelities.
        size: Number of trials.
        first: Number of the first trial.
    """

    bracket: int
    position: int
    fidelity: int
    size: int
    first: int


def bracket_sizes(rungs: int, eta: int) -> list[list[int]]:
    """The number of configurations of each rung of each bracket in one cycle.

    From Awad, Mallik and Hutter 2021 (DEHB), computed like the reference implementation 0.1.2:
    bracket i has s + 1 rungs, s = M − 1 − i, and begins with ⌊M / (s + 1)⌋ · η^s configurations.

    Args:
        rungs: M, the number of fidelities.
        eta: η, the factor by which a rung has fewer configurations than the rung below.
    """
    return [
        [max(rungs // (s + 1) * eta**s // eta**j, 1) for j in range(s + 1)]
        for s in reversed(range(rungs))
    ]


def fidelities(steps: int, minimum: float, eta: int) -> tuple[int, ...]:
    """Environment steps of the rungs, ascending integers; the last one is `steps`.

    Args:
        steps: The full budget.
        minimum: The smallest share of the budget.
        eta: The factor between two rungs.

    Raises:
        ConfigError: There are fewer than two rungs, or two rungs have equal steps.
    """
    # A user types 1/27 as 0.037037, which is a little less or more: the tolerance keeps its rung.
    rungs = floor(log(1 / minimum) / log(eta) + 1e-6) + 1
    if rungs < 2:
        raise ConfigError(
            f"tuner.minimum = {minimum:g} leaves one rung, the full budget: set tuner.minimum to "
            f"1 / tuner.eta = {1 / eta:g} or less, or choose another tuner"
        )
    steps_of_rungs = tuple(round(steps / eta ** (rungs - 1 - k)) for k in range(rungs))
    if steps_of_rungs[0] < 1 or any(low >= high for low, high in pairwise(steps_of_rungs)):
        raise ConfigError(
            f"{steps} environment steps are too few for {rungs} rungs of dehb: "
            "raise budget.steps or tuner.minimum"
        )
    return steps_of_rungs


@dataclass(frozen=True)
class Brackets:
    """The schedule of all trials from number 1. Trial 0 is the default configuration.

    Attributes:
        rungs: M, the number of fidelities.
        eta: η, the factor between two rungs.
    """

    rungs: int
    eta: int

    @cached_property
    def cycle(self) -> tuple[Rung, ...]:
        """The rungs of the first M brackets, which are repeated without end."""
        sizes = bracket_sizes(self.rungs, self.eta)
        flat = [(b, j, n) for b, bracket in enumerate(sizes) for j, n in enumerate(bracket)]
        ends = accumulate(n for _, _, n in flat)
        return tuple(
            Rung(bracket=b, position=j, fidelity=b + j, size=n, first=end - n + 1)
            for (b, j, n), end in zip(flat, ends, strict=True)
        )

    @cached_property
    def members(self) -> tuple[int, ...]:
        """The number of members of each fidelity's subpopulation: the size of its largest rung."""
        return tuple(max(r.size for r in self.cycle if r.fidelity == k) for k in range(self.rungs))

    @cached_property
    def trials(self) -> int:
        """The number of trials of a cycle."""
        return sum(rung.size for rung in self.cycle)

    def rung(self, index: int) -> Rung:
        """The rung of a round."""
        cycles, position = divmod(index, len(self.cycle))
        rung = self.cycle[position]
        return Rung(
            bracket=cycles * self.rungs + rung.bracket,
            position=rung.position,
            fidelity=rung.fidelity,
            size=rung.size,
            first=cycles * self.trials + rung.first,
        )

    def locate(self, number: int) -> tuple[int, int]:
        """The round of a trial, from number 1, and its slot in that rung."""
        cycles, left = divmod(number - 1, self.trials)
        position = next(i for i, r in enumerate(self.cycle) if left < r.first - 1 + r.size)
        return cycles * len(self.cycle) + position, left - self.cycle[position].first + 1

    def first(self, index: int) -> int:
        """The number of the first trial of a round."""
        return self.rung(index).first

    def promotes(self, index: int) -> bool:
        """Whether a rung runs configurations of the rung below again, as Hyperband does."""
        rung = self.rung(index)
        return rung.position > 0 and rung.bracket < self.rungs

    def reads(self, index: int) -> int:
        """The number of first rounds that must be over before a round can be suggested.

        The lowest rung of a bracket reads its own subpopulation only, if that is large enough
        for a mutant. It does not wait for rungs with more steps.
        """
        rung = self.rung(index)
        if rung.position > 0 or rung.size < 3:
            return index
        # Wait for the last round that changed this subpopulation, and for no later one.
        before = reversed(range(index))
        return next((i + 1 for i in before if self.rung(i).fidelity == rung.fidelity), 0)

    def parents(self, index: int) -> list[int]:
        """The members that the trials of a round may replace: cyclically, one after another."""
        cycles, position = divmod(index, len(self.cycle))
        rung = self.cycle[position]
        same = [r.size for r in self.cycle if r.fidelity == rung.fidelity]
        earlier = [r.size for r in self.cycle[:position] if r.fidelity == rung.fidelity]
        begin = cycles * sum(same) + sum(earlier)
        return [(begin + slot) % self.members[rung.fidelity] for slot in range(rung.size)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DEHB:
    """Differential evolution and Hyperband (Awad, Mallik and Hutter 2021), in synchronous rungs.

    The fidelity is the number of environment steps. In the first brackets, the best trials of a
    rung are run again with more steps. In later brackets, the members of each fidelity evolve
    from the best of the fidelity below.

    Attributes:
        minimum: The smallest share of the budget of a trial.
        eta: The factor by which a rung has more steps and fewer trials than the rung below.
        mutation_factor: The factor F of rand/1.
        crossover_probability: The rate CR: how likely a parameter comes from the mutant.
    """

    identity: ClassVar = Identity("tuner", "dehb")
    lengthens: ClassVar = True

    minimum: Annotated[float, Interval(gt=0, lt=1)]
    eta: Annotated[int, Ge(2)]
    mutation_factor: Annotated[float, Interval(gt=0, le=2)]
    crossover_probability: Annotated[float, Interval(ge=0, le=1)]

    def open(self, problem: Problem) -> Suggester:
        """A suggester for a problem.

        Raises:
            ConfigError: The problem has several objectives, or too few environment steps.
        """
        if problem.objectives > 1:
            raise ConfigError(
                f"tuner=dehb optimises one objective, and sweep.objective has "
                f"{problem.objectives}: choose tuner=nsga2 or tuner=tpe, or write one objective"
            )
        steps = fidelities(problem.steps, self.minimum, self.eta)
        brackets = Brackets(rungs=len(steps), eta=self.eta)
        evolution = Evolution(self, brackets, steps, len(problem.space.parameters), problem.seed)
        return ReplaySuggester(problem.space, brackets, evolution)


@dataclass(frozen=True, slots=True)
class Subpopulation:
    """The members of one fidelity.

    Attributes:
        points: The members, of shape (n, d).
        fitness: Their fitness, of shape (n,); greater is better, −inf if never evaluated.
        numbers: The numbers of their trials, of shape (n,); −1 if never evaluated.
    """

    points: NDArray[np.float64]
    fitness: NDArray[np.float64]
    numbers: NDArray[np.int64]

    def order(self) -> NDArray[np.int64]:
        """The positions of the members from best to worst; ties keep their order."""
        return np.argsort(-self.fitness, kind="stable")

    def put(self, position: int, member: EvaluatedPoint, fitness: float) -> "Subpopulation":
        """A copy of the subpopulation with a new member at a position."""
        points, values, numbers = self.points.copy(), self.fitness.copy(), self.numbers.copy()
        points[position], values[position] = member.point, fitness
        numbers[position] = member.number
        return Subpopulation(points, values, numbers)


Populations = tuple[Subpopulation, ...]


@dataclass(frozen=True, slots=True)
class Evolution:
    """DEHB on one problem. A state has one subpopulation for each fidelity.

    Attributes:
        settings: The settings of the tuner.
        brackets: The schedule of the trials.
        steps: Environment steps of the fidelities.
        dimensions: The number of parameters of the space.
        seed: The seed of all random draws.
    """

    settings: DEHB
    brackets: Brackets
    steps: tuple[int, ...]
    dimensions: int
    seed: int

    def begin(self) -> Populations:
        """Random members, which are parents only and are never evaluated."""
        # Trial 0 is never suggested, so its random stream is free for the first members.
        random = trial_generator(self.seed, 0)
        return tuple(
            Subpopulation(
                random.uniform(size=(size, self.dimensions)),
                np.full(size, -inf),
                np.full(size, -1),
            )
            for size in self.brackets.members
        )

    def ask(self, state: Populations, index: int) -> Sequence[CandidatePoint]:
        """The trials of a rung: promoted members, then children for the remaining slots."""
        promoted = self._promoted(state, index) if self.brackets.promotes(index) else []
        parents = self.brackets.parents(index)
        return promoted + [
            self._child(state, index, slot, parent)
            for slot, parent in enumerate(parents)
            if slot >= len(promoted)
        ]

    def tell(
        self, state: Populations, index: int, members: Sequence[EvaluatedPoint]
    ) -> Populations:
        """The populations after a round: a trial replaces its parent unless it is worse or failed."""
        fidelity = self.brackets.rung(index).fidelity
        for parent, member in zip(self.brackets.parents(index), members, strict=True):
            value = trial_fitness(member.trial)
            # Ties replace the parent, as in the reference implementation; −inf is a failed trial.
            if value > -inf and value >= state[fidelity].fitness[parent]:
                changed = state[fidelity].put(parent, member, value)
                state = (*state[:fidelity], changed, *state[fidelity + 1 :])
        return state

    def _promoted(self, state: Populations, index: int) -> list[CandidatePoint]:
        """The best members of the fidelity below that the fidelity of the rung does not have."""
        rung = self.brackets.rung(index)
        below, target = state[rung.fidelity - 1], state[rung.fidelity]
        new = [
            i
            for i in below.order()
            if below.fitness[i] > -inf and not (target.points == below.points[i]).all(axis=1).any()
        ]
        return [
            CandidatePoint(
                tuple(below.points[i].tolist()), self.steps[rung.fidelity], int(below.numbers[i])
            )
            for i in new[: rung.size]
        ]

    def _child(self, state: Populations, index: int, slot: int, parent: int) -> CandidatePoint:
        rung = self.brackets.rung(index)
        source = state[rung.fidelity - 1] if rung.position else state[rung.fidelity]
        point = make_child(
            state[rung.fidelity].points[parent],
            source.points[source.order()[: rung.size]],
            np.concatenate([population.points for population in state]),
            factor=self.settings.mutation_factor,
            probability=self.settings.crossover_probability,
            random=trial_generator(self.seed, rung.first + slot),
        )
        return CandidatePoint(tuple(point.tolist()), self.steps[rung.fidelity])


def trial_fitness(trial: Trial | None) -> float:
    """The fitness of a trial at its fidelity; −inf if the trial failed.

    The fitness of a pruned trial is its last intermediate value.
    """
    if trial is not None and is_complete(trial):
        return trial.values[0]
    given_up = last_intermediate(trial)
    return -inf if given_up is None else given_up[1]
