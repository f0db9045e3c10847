"""DEHB: differential evolution on the rungs of Hyperband."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Interval
from numpy.typing import NDArray

from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity
from rlexp.records.trial import Trial
from rlexp.tuners import Problem, Suggester
from rlexp.tuners.brackets import Brackets, fidelities
from rlexp.tuners.differential_evolution import child
from rlexp.tuners.points import generator
from rlexp.tuners.rounds import (
    Candidate,
    Member,
    Replay,
    has_values,
    last_intermediate,
)


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
