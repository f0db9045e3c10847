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
    Candidate,
    Member,
    Replay,
    has_values,
    last_intermediate,
)
from rlexp.tuners.unit_cube import generator

Points = NDArray[np.float64]

NEEDED = 3
"""Members that rand/1 draws."""


def rand1(first: Points, second: Points, third: Points, factor: float) -> Points:
    """The mutant first + factor · (second − third), which may lie outside the unit cube.

    Args:
        first: Point of shape (d,), as the others.
        second: Where the difference ends.
        third: Where the difference begins.
        factor: The mutation factor F.
    """
    return first + factor * (second - third)


def mutate(pool: Points, parent: Points, factor: float, random: np.random.Generator) -> Points:
    """A mutant of three different members of the pool, none of them the parent.

    Args:
        pool: Points to draw from, of shape (n, d), n ≥ 1; filled up with uniform ones where it
            is too small without the parent.
        parent: Of shape (d,).
        factor: The mutation factor F.
        random: Where the draws come from.

    Returns:
        A point of shape (d,), perhaps outside the unit cube.
    """
    others = _without(pool, parent) if len(pool) > 1 else pool
    if (lacking := NEEDED - len(others)) > 0:
        others = np.concatenate((others, random.uniform(size=(lacking, len(parent)))))
    first, second, third = others[random.choice(len(others), NEEDED, replace=False)]
    return rand1(first, second, third, factor)


def cross(
    parent: Points, mutant: Points, probability: float, random: np.random.Generator
) -> Points:
    """Binomial crossover: each gene is the mutant's with a probability, at least one of them.

    Args:
        parent: Of shape (d,).
        mutant: Of shape (d,).
        probability: The crossover rate CR.
        random: Where the draws come from.
    """
    taken = random.random(len(parent)) < probability
    if not taken.any():
        taken[random.integers(0, len(parent))] = True
    return np.where(taken, mutant, parent)


def redraw_outside(point: Points, random: np.random.Generator) -> Points:
    """The point of shape (d,) with each gene outside [0, 1] drawn anew, uniformly."""
    outside = (point > 1) | (point < 0)
    inside = point.copy()
    inside[outside] = random.uniform(size=int(outside.sum()))
    return inside


def child(
    parent: Points,
    pool: Points,
    everyone: Points,
    *,
    factor: float,
    probability: float,
    random: np.random.Generator,
) -> Points:
    """A child of a parent in the unit cube (Awad, Mallik and Hutter 2021, DEHB).

    Args:
        parent: Of shape (d,).
        pool: Whom the mutant is made of, of shape (n, d); with fewer than three, mutants of
            everyone are added.
        everyone: The members of all subpopulations, of shape (m, d), m ≥ 1.
        factor: The mutation factor F.
        probability: The crossover rate CR.
        random: Where the draws come from.
    """
    if len(pool) < NEEDED:
        count = NEEDED - len(pool) + 1
        added = [mutate(everyone, parent, factor, random) for _ in range(count)]
        pool = np.concatenate((pool, added))
    mutant = mutate(pool, parent, factor, random)
    return redraw_outside(cross(parent, mutant, probability, random), random)


def _without(pool: Points, parent: Points) -> Points:
    same = np.flatnonzero((pool == parent).all(axis=1))
    return np.delete(pool, same[0], axis=0) if len(same) else pool


@dataclass(frozen=True, slots=True)
class Rung:
    """Trials with equally many environment steps that are suggested together.

    Attributes:
        bracket: From 0, counted on for ever.
        position: In its bracket; 0 has the fewest steps.
        fidelity: Index of its environment steps among the fidelities.
        size: How many trials it has.
        first: Number of its first trial.
    """

    bracket: int
    position: int
    fidelity: int
    size: int
    first: int


def bracket_sizes(rungs: int, eta: int) -> list[list[int]]:
    """How many configurations each rung of each bracket has, in one cycle.

    From Awad, Mallik and Hutter 2021 (DEHB) as its reference implementation 0.1.2 computes it:
    bracket i has s + 1 rungs, s = M − 1 − i, and begins with ⌊M / (s + 1)⌋ · η^s.

    Args:
        rungs: M, the number of fidelities.
        eta: η, by which a rung is narrower than the one below it.
    """
    return [
        [max(rungs // (s + 1) * eta**s // eta**j, 1) for j in range(s + 1)]
        for s in reversed(range(rungs))
    ]


def fidelities(steps: int, minimum: float, eta: int) -> tuple[int, ...]:
    """Environment steps of the rungs, whole numbers that go up; the last one is `steps`.

    Args:
        steps: The full budget.
        minimum: Share of it below which no rung lies.
        eta: By which factor they grow.

    Raises:
        ConfigError: There are fewer than two rungs, or too few steps to tell them apart.
    """
    # 1/27 as it is typed is a little less or more than that.
    rungs = floor(log(1 / minimum) / log(eta) + 1e-6) + 1
    if rungs < 2:
        raise ConfigError(
            f"tuner.minimum = {minimum:g} leaves one rung, the full budget: it must be at most "
            f"1 / tuner.eta = {1 / eta:g}, or choose another tuner"
        )
    found = tuple(round(steps / eta ** (rungs - 1 - k)) for k in range(rungs))
    if found[0] < 1 or any(low >= high for low, high in pairwise(found)):
        raise ConfigError(
            f"{steps} environment steps are too few for {rungs} rungs of dehb: "
            "raise the budget or tuner.minimum"
        )
    return found


@dataclass(frozen=True)
class Brackets:
    """The schedule of all trials, from number 1; number 0 is the default configuration.

    Attributes:
        rungs: M, the number of fidelities.
        eta: η.
    """

    rungs: int
    eta: int

    @cached_property
    def cycle(self) -> tuple[Rung, ...]:
        """The rungs of the first M brackets, which come again for ever, further on."""
        sizes = bracket_sizes(self.rungs, self.eta)
        flat = [(b, j, n) for b, bracket in enumerate(sizes) for j, n in enumerate(bracket)]
        ends = accumulate(n for _, _, n in flat)
        return tuple(
            Rung(bracket=b, position=j, fidelity=b + j, size=n, first=end - n + 1)
            for (b, j, n), end in zip(flat, ends, strict=True)
        )

    @cached_property
    def members(self) -> tuple[int, ...]:
        """How many members the subpopulation of each fidelity has: its widest rung."""
        return tuple(max(r.size for r in self.cycle if r.fidelity == k) for k in range(self.rungs))

    @cached_property
    def trials(self) -> int:
        """How many trials a cycle has."""
        return sum(rung.size for rung in self.cycle)

    def rung(self, index: int) -> Rung:
        """The rung of a round."""
        cycles, place = divmod(index, len(self.cycle))
        rung = self.cycle[place]
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
        place = next(i for i, r in enumerate(self.cycle) if left < r.first - 1 + r.size)
        return cycles * len(self.cycle) + place, left - self.cycle[place].first + 1

    def first(self, index: int) -> int:
        """The number of the first trial of a round."""
        return self.rung(index).first

    def promotes(self, index: int) -> bool:
        """Whether a rung takes up configurations of the one below it, as plain Hyperband does."""
        rung = self.rung(index)
        return rung.position > 0 and rung.bracket < self.rungs

    def reads(self, index: int) -> int:
        """How many of the first rounds must be over before a round is asked for.

        The lowest rung of a bracket reads its own subpopulation only, if that is large enough
        for a mutant, and need not wait for what goes on with more steps.
        """
        rung = self.rung(index)
        if rung.position > 0 or rung.size < 3:
            return index
        before = reversed(range(index))
        return next((i + 1 for i in before if self.rung(i).fidelity == rung.fidelity), 0)

    def parents(self, index: int) -> list[int]:
        """The members that the trials of a round compete with: each in turn, round and round."""
        cycles, place = divmod(index, len(self.cycle))
        rung = self.cycle[place]
        same = [r.size for r in self.cycle if r.fidelity == rung.fidelity]
        earlier = [r.size for r in self.cycle[:place] if r.fidelity == rung.fidelity]
        begin = cycles * sum(same) + sum(earlier)
        return [(begin + slot) % self.members[rung.fidelity] for slot in range(rung.size)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DEHB:
    """Differential evolution and Hyperband (Awad, Mallik and Hutter 2021), in synchronous rungs.

    Fidelity is environment steps. With the first brackets the best of a rung are run again with
    more steps; later ones evolve the members of each fidelity from the best of the one below.

    Attributes:
        minimum: Share of the budget below which no trial is run.
        eta: By which factor a rung has more steps and fewer trials than the one below it.
        mutation_factor: F of rand/1.
        crossover_probability: CR: how likely a parameter is the mutant's.
    """

    identity: ClassVar = Identity("tuner", "dehb")

    minimum: Annotated[float, Interval(gt=0, lt=1)]
    eta: Annotated[int, Ge(2)]
    mutation_factor: Annotated[float, Interval(gt=0, le=2)]
    crossover_probability: Annotated[float, Interval(ge=0, le=1)]

    def open(self, problem: Problem) -> Suggester:
        """Begin to work on a problem.

        Raises:
            ConfigError: It has several objectives, or too few environment steps for the rungs.
        """
        if problem.objectives > 1:
            raise ConfigError(
                f"tuner=dehb optimises one thing, and sweep.objective names {problem.objectives}: "
                "choose tuner=nsga2 or tuner=tpe, or name one"
            )
        steps = fidelities(problem.steps, self.minimum, self.eta)
        brackets = Brackets(rungs=len(steps), eta=self.eta)
        evolution = Evolution(self, brackets, steps, len(problem.space.parameters), problem.seed)
        return Replay(problem.space, brackets, evolution)


@dataclass(frozen=True, slots=True)
class Subpopulation:
    """The members of one fidelity.

    Attributes:
        points: Of shape (n, d).
        fitness: Of shape (n,), greater is better, −inf where never evaluated.
        numbers: The trials that evaluated them, of shape (n,), −1 where there is none.
    """

    points: NDArray[np.float64]
    fitness: NDArray[np.float64]
    numbers: NDArray[np.int64]

    def order(self) -> NDArray[np.int64]:
        """The members from best to worst; of equal ones the first comes first."""
        return np.argsort(-self.fitness, kind="stable")

    def put(self, position: int, member: Member, fitness: float) -> "Subpopulation":
        """The subpopulation with a member at a position."""
        points, values, numbers = self.points.copy(), self.fitness.copy(), self.numbers.copy()
        points[position], values[position] = member.point, fitness
        numbers[position] = member.number
        return Subpopulation(points, values, numbers)


Populations = tuple[Subpopulation, ...]


@dataclass(frozen=True, slots=True)
class Evolution:
    """DEHB on one problem: a state is a subpopulation for each fidelity.

    Attributes:
        settings: Of the tuner.
        brackets: Which trial is run where.
        steps: Environment steps of the fidelities.
        dimensions: How many parameters the space has.
        seed: Of everything that is drawn.
    """

    settings: DEHB
    brackets: Brackets
    steps: tuple[int, ...]
    dimensions: int
    seed: int

    def begin(self) -> Populations:
        """Random members, which are parents and are never evaluated themselves."""
        # Trial 0 is never suggested, so that its stream is free for this.
        random = generator(self.seed, 0)
        return tuple(
            Subpopulation(
                random.uniform(size=(size, self.dimensions)),
                np.full(size, -inf),
                np.full(size, -1),
            )
            for size in self.brackets.members
        )

    def ask(self, state: Populations, index: int) -> Sequence[Candidate]:
        """The trials of a rung: promoted ones, and children for the slots that are left."""
        promoted = self._promoted(state, index) if self.brackets.promotes(index) else []
        parents = self.brackets.parents(index)
        return promoted + [
            self._child(state, index, slot, parent)
            for slot, parent in enumerate(parents)
            if slot >= len(promoted)
        ]

    def tell(self, state: Populations, index: int, members: Sequence[Member]) -> Populations:
        """Let each trial take its parent's place, if it is not worse (and did not fail)."""
        fidelity = self.brackets.rung(index).fidelity
        for parent, member in zip(self.brackets.parents(index), members, strict=True):
            value = fitness_of(member.trial)
            if value > -inf and value >= state[fidelity].fitness[parent]:
                changed = state[fidelity].put(parent, member, value)
                state = (*state[:fidelity], changed, *state[fidelity + 1 :])
        return state

    def _promoted(self, state: Populations, index: int) -> list[Candidate]:
        """The best of the fidelity below that the rung's own one does not hold yet."""
        rung = self.brackets.rung(index)
        below, own = state[rung.fidelity - 1], state[rung.fidelity]
        fresh = [
            i
            for i in below.order()
            if below.fitness[i] > -inf and not (own.points == below.points[i]).all(axis=1).any()
        ]
        return [
            Candidate(
                tuple(below.points[i].tolist()), self.steps[rung.fidelity], int(below.numbers[i])
            )
            for i in fresh[: rung.size]
        ]

    def _child(self, state: Populations, index: int, slot: int, parent: int) -> Candidate:
        rung = self.brackets.rung(index)
        source = state[rung.fidelity - 1] if rung.position else state[rung.fidelity]
        point = child(
            state[rung.fidelity].points[parent],
            source.points[source.order()[: rung.size]],
            np.concatenate([population.points for population in state]),
            factor=self.settings.mutation_factor,
            probability=self.settings.crossover_probability,
            random=generator(self.seed, rung.first + slot),
        )
        return Candidate(tuple(point.tolist()), self.steps[rung.fidelity])


def fitness_of(trial: Trial | None) -> float:
    """What a trial is worth at its fidelity; −inf where it failed.

    A pruned one counts as what it came to before it was given up.
    """
    if trial is not None and has_values(trial):
        return trial.values[0]
    given_up = last_intermediate(trial)
    return -inf if given_up is None else given_up[1]
