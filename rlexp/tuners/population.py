"""Populations: members that are trained in generations, and copy better members between them.

A trial is one part of a member's training, between two generations. Its run continues the run of its
parent, which is the same member or the one that it copies. All of it is a function of the trials of
earlier generations and of the trial's number, so that kills and the number of workers change nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Annotated, Any, ClassVar, Protocol

import numpy as np
from annotated_types import Ge, Interval
from numpy.typing import NDArray

from rlexp.errors import ConfigError
from rlexp.protocol.space import Choice, Space
from rlexp.protocol.value_schedule import EarlierValues
from rlexp.records.trial import Trial
from rlexp.tuners import Problem, Suggestion
from rlexp.tuners.generational import is_complete
from rlexp.tuners.unit_cube import random_point, trial_generator


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """How many members are trained for how many generations, and the numbers of their trials.

    Attributes:
        size: Number of members.
        generations: Number of generations.
        steps: Environment steps of a whole training.
        fixed: Whether the configurations of the first generation are trained to the end as well,
            unchanged: the best of them is the best fixed configuration at equal cost.
    """

    size: int
    generations: int
    steps: int
    fixed: bool

    def __post_init__(self) -> None:
        """Refuse generations of unequal length."""
        if self.steps % self.generations:
            near = self.steps // self.generations * self.generations or self.generations
            raise ConfigError(
                f"tuner.generations={self.generations} does not divide budget.steps={self.steps}: "
                f"set budget.steps={near}, or another number of generations",
                key="tuner.generations",
            )

    @property
    def interval(self) -> int:
        """Environment steps of one generation."""
        return self.steps // self.generations

    @property
    def trials(self) -> int:
        """The number of trials, with the default configuration."""
        return 1 + self.size * (self.generations + self.fixed)

    def locate(self, number: int) -> tuple[int, int]:
        """The generation of a trial and its member, both from 0; the last may be the fixed ones."""
        return divmod(number - 1, self.size)

    def members(self, generation: int) -> range:
        """The numbers of the trials of a generation."""
        first = 1 + generation * self.size
        return range(first, first + self.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class PopulationTuner:
    """The settings that all tuners of populations have.

    Attributes:
        population: Number of members.
        generations: Number of generations; it divides `budget.steps`.
        quantile: Share of the members that are replaced after a generation.
        fixed: Whether the first configurations are trained to the end as well, unchanged.
    """

    lengthens: ClassVar = True

    population: Annotated[int, Ge(2)]
    generations: Annotated[int, Ge(2)]
    quantile: Annotated[float, Interval(gt=0, le=0.5)]
    fixed: bool

    def members(self, steps: int) -> Population:
        """The population for trainings of so many environment steps.

        Raises:
            ConfigError: The generations do not divide the steps.
        """
        return Population(
            size=self.population, generations=self.generations, steps=steps, fixed=self.fixed
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """What an explorer may know when it chooses the next values of a member that was replaced.

    Attributes:
        space: The search space.
        population: The population.
        history: The complete trials of earlier generations, by number.
        generation: The generation that begins.
        source: The trial that is copied.
        random: The generator of the member in this generation.
        parents: The trial that each trial of earlier generations continues, or None.
        assigned: Returns the values of the members before this one in the generation that begins.
    """

    space: Space
    population: Population
    history: Mapping[int, Trial]
    generation: int
    source: Trial
    random: np.random.Generator
    parents: Callable[[int], int | None]
    assigned: Callable[[], Sequence[Mapping[str, Any]]]


class Explorer(Protocol):
    """How a copied configuration is changed."""

    def explore(self, exploration: Exploration) -> dict[str, Any]:
        """The values with which the copy is trained on."""
        ...


@dataclass(slots=True)
class PopulationSuggester:
    """Truncation selection between generations (Jaderberg et al. 2017, arXiv:1711.09846).

    Attributes:
        problem: The search problem.
        population: The population.
        quantile: Share of the members that are replaced by copies of as many best ones.
        explorer: Changes the copied values.
        shares: Whether the transitions of all members enter the replay buffers of the next generation.
    """

    problem: Problem
    population: Population
    quantile: float
    explorer: Explorer
    shares: bool = False
    _history: Mapping[int, Trial] = field(default_factory=dict)
    _parts: dict[int, Suggestion] = field(default_factory=dict)
    """Suggestions of the generation that follows `_history`: a cache."""

    def place(self, number: int) -> str | None:
        """The generation and member of a trial, in words; None for the default configuration."""
        generation, member = self.population.locate(number)
        if generation < 0:
            return None
        if generation == self.population.generations:
            return f"member {member + 1} unchanged to the end"
        return f"generation {generation + 1} of {self.population.generations}, member {member + 1}"

    def trained_steps(self, number: int) -> int:
        """Environment steps that a run of a trial trains itself, where it continues its parent's run.

        The last rollout of the parent, which is trained again, comes on top.
        """
        generation, _ = self.population.locate(number)
        if generation < 0:
            return self.population.steps
        if generation == self.population.generations:
            return self.population.steps - self.population.interval
        return self.population.interval

    def needs(self, number: int) -> int:
        """The trials of all earlier generations: generations are barriers."""
        generation, _ = self.population.locate(number)
        return self.population.members(generation).start if generation > 0 else 0

    def suggest(self, trials: Sequence[Trial], number: int) -> Suggestion | None:
        """The next part of a member's training; None after the last trial."""
        if number >= self.population.trials:
            return None
        generation, member = self.population.locate(number)
        by_number = {trial.number: trial for trial in trials if trial.number < self.needs(number)}
        if generation == self.population.generations:
            return self._fixed(by_number, 1 + member)
        history = {n: trial for n, trial in by_number.items() if is_complete(trial)}
        if history != self._history:
            self._history, self._parts = history, {}
        return self._part(history, number)

    def _fixed(self, by_number: Mapping[int, Trial], first: int) -> Suggestion:
        """The configuration of a member of the first generation, trained to the end."""
        trial = by_number.get(first)
        parameters = self._draw(first) if trial is None else trial.parameters
        parent = first if is_complete(trial) else None
        return Suggestion(parameters, self.population.steps, parent)

    def _part(self, history: Mapping[int, Trial], number: int) -> Suggestion:
        if number not in self._parts:
            self._parts[number] = self._made(history, number)
        return self._parts[number]

    def _made(self, history: Mapping[int, Trial], number: int) -> Suggestion:
        generation, _ = self.population.locate(number)
        steps = (generation + 1) * self.population.interval
        parent = self._parent(history, number)
        if parent is None:
            return Suggestion(self._draw(number), steps)
        parameters = self._values(history, number, parent)
        before = self.population.members(generation - 1)
        shared = tuple(n for n in before if n in history) if self.shares else ()
        earlier = self._earlier(history, number)
        return Suggestion(parameters, steps, parent, earlier=earlier, shared=shared)

    def _draw(self, number: int) -> dict[str, Any]:
        space = self.problem.space
        point = random_point(len(space.parameters), self.problem.seed, number)
        return space.decode(point.tolist())

    def _values(self, history: Mapping[int, Trial], number: int, parent: int) -> dict[str, Any]:
        """The values of a member in a later generation."""
        generation, member = self.population.locate(number)
        if parent == self.population.members(generation - 1)[member]:
            return dict(history[parent].parameters)
        before = range(self.population.members(generation).start, number)
        random = trial_generator(self.problem.seed, number)
        # The first draw chose the parent.
        random.random()
        exploration = Exploration(
            space=self.problem.space,
            population=self.population,
            history=history,
            generation=generation,
            source=history[parent],
            random=random,
            parents=lambda n: self._parent(history, n),
            assigned=lambda: [self._part(history, n).parameters for n in before],
        )
        return self.explorer.explore(exploration)

    def _parent(self, history: Mapping[int, Trial], number: int) -> int | None:
        """The trial that a trial continues: of the same member, or of the one that it copies.

        None in the first generation, and where every member of the generation before has failed.
        """
        generation, member = self.population.locate(number)
        if generation == 0:
            return None
        numbers = self.population.members(generation - 1)
        complete = [n for n in numbers if n in history]
        ranked = sorted(complete, key=lambda n: (-history[n].values[0], n))
        if not ranked:
            return None
        replaced = min(ceil(self.quantile * len(numbers)), len(numbers) // 2)
        if numbers[member] in ranked[: len(numbers) - replaced]:
            return numbers[member]
        best = ranked[:replaced]
        drawn = trial_generator(self.problem.seed, number).random()
        return best[int(drawn * len(best))]

    def _earlier(self, history: Mapping[int, Trial], number: int) -> EarlierValues:
        """The values of the parts before a trial, along its parents."""
        parts: list[tuple[int, Mapping[str, Any]]] = []
        parent = self._parent(history, number)
        while parent is not None:
            generation, _ = self.population.locate(parent)
            ends = (generation + 1) * self.population.interval
            parts.append((ends, history[parent].parameters))
            parent = self._parent(history, parent)
        return tuple(reversed(parts))


def check_problem(name: str, problem: Problem, *, choices: bool) -> None:
    """Refuse a problem that a population cannot solve.

    Args:
        name: The name of the tuner.
        problem: The problem.
        choices: Whether the tuner takes choices.

    Raises:
        ConfigError: There are several objectives, conditions, or choices for a tuner of numbers.
    """
    if problem.objectives > 1:
        raise ConfigError(
            f"tuner={name} optimises one objective, and sweep.objective has {problem.objectives}: "
            "choose tuner=nsga2 or tuner=tpe, or write one objective"
        )
    for parameter in problem.space.parameters:
        if parameter.when or parameter.is_switch:
            raise ConfigError(
                f"sweep.space.{parameter.key} has conditions, and all members of tuner={name} have "
                "the same parameters: remove its 'when', or take it out of the space",
                key=f"sweep.space.{parameter.key}",
            )
        if isinstance(parameter.domain, Choice) and not choices:
            raise ConfigError(
                f"sweep.space.{parameter.key} is a choice, and tuner={name} models numbers: write "
                "an interval, or choose tuner=pbt",
                key=f"sweep.space.{parameter.key}",
            )


def unit_values(space: Space, values: Mapping[str, Any]) -> NDArray[np.float64]:
    """Values as a point of the unit cube, of shape (d,)."""
    return np.array([np.nan if share is None else share for share in space.encode(values)])
