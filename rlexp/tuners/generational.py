"""Tuners that work in rounds: whole rounds are replayed from the history before the next one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Generic, Protocol, TypeVar

from rlexp.protocol.space import Domain, Integer, Real, Space
from rlexp.records.trial import Trial, TrialState
from rlexp.tuners import Suggestion

State = TypeVar("State")

Point = tuple[float, ...]
"""Of the unit cube: a share in [0, 1] for each parameter of the space, there or not."""

LISTED = 32
"""A range of whole numbers with more values than this is searched as if it were continuous."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is to be tried; see `Suggestion` for `steps` and `parent`."""

    point: Point
    steps: int | None = None
    parent: int | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """What was tried, where it was really run; no trial where it failed and was excluded."""

    number: int
    point: Point
    trial: Trial | None


class Schedule(Protocol):
    """Which round a trial belongs to, and what that round depends on."""

    def locate(self, number: int) -> tuple[int, int]:
        """The round of a trial, from 0, and its position in it."""
        ...

    def first(self, index: int) -> int:
        """The number of the first trial of a round."""
        ...

    def reads(self, index: int) -> int:
        """How many of the first rounds must be over before a round is asked for."""
        ...


class Rounds(Protocol[State]):
    """A method of search. Its states are values: no call changes one."""

    def begin(self) -> State:
        """The state before any result."""
        ...

    def ask(self, state: State, index: int) -> Sequence[Candidate]:
        """The trials of a round, from the state after the rounds that it reads, at least."""
        ...

    def tell(self, state: State, index: int, members: Sequence[Member]) -> State:
        """The state after a round, from the one before it."""
        ...


@dataclass(frozen=True, slots=True)
class Generations:
    """Rounds of equal size behind a first one, which begins with the default configuration."""

    initial: int
    size: int

    def locate(self, number: int) -> tuple[int, int]:
        """The generation of a trial, and its position in it."""
        if number < self.initial:
            return 0, number
        index, position = divmod(number - self.initial, self.size)
        return index + 1, position

    def first(self, index: int) -> int:
        """The number of the first trial of a generation."""
        return self.initial + (index - 1) * self.size if index else 0

    def reads(self, index: int) -> int:
        """All generations before it."""
        return index


@dataclass(slots=True)
class Replay(Generic[State]):
    """A suggester that comes to its state by telling a method round after round.

    What is kept between calls is what the same history would lead to again; a history that
    differs drops the rest of it.
    """

    space: Space
    schedule: Schedule
    method: Rounds[State]
    _states: list[State] = field(default_factory=list)
    _told: list[tuple[Trial | None, ...]] = field(default_factory=list)
    _asked: dict[int, Sequence[Candidate]] = field(default_factory=dict)

    def needs(self, number: int) -> int:
        """How many of the first trials must have ended before trial `number` is suggested."""
        if number < self.schedule.first(0):
            return 0
        rounds = self.schedule.reads(self.schedule.locate(number)[0])
        return self.schedule.first(rounds) if rounds else 0

    def suggest(self, trials: Sequence[Trial], number: int) -> Suggestion | None:
        """Suggest trial `number`; trials beyond those that it needs make no difference."""
        index, position = self.schedule.locate(number)
        self._follow({trial.number: trial for trial in trials}, self.schedule.reads(index))
        chosen = self._ask(index)[position]
        return Suggestion(self.space.decode(chosen.point), chosen.steps, chosen.parent)

    def _follow(self, trials: dict[int, Trial], rounds: int) -> None:
        self._states = self._states or [self.method.begin()]
        for index in range(rounds):
            first, end = self.schedule.first(index), self.schedule.first(index + 1)
            ended = tuple(trials.get(number) for number in range(first, end))
            if index < len(self._told) and self._told[index] == ended:
                continue
            self._forget(index)
            members = [
                Member(first + i, as_run(self.space, candidate.point, trial), trial)
                for i, (candidate, trial) in enumerate(zip(self._ask(index), ended, strict=True))
            ]
            self._told.append(ended)
            self._states.append(self.method.tell(self._states[index], index, members))

    def _ask(self, index: int) -> Sequence[Candidate]:
        if index not in self._asked:
            state = self._states[self.schedule.reads(index)]
            self._asked[index] = self.method.ask(state, index)
        return self._asked[index]

    def _forget(self, rounds: int) -> None:
        """Keep what depends on the first `rounds` rounds only."""
        del self._told[rounds:], self._states[rounds + 1 :]
        self._asked = {i: c for i, c in self._asked.items() if self.schedule.reads(i) <= rounds}


def as_run(space: Space, asked: Point, trial: Trial | None) -> Point:
    """The point at which a trial was run.

    That is where it was asked for, as far as this leads to the values that the trial has; where
    they are others, their own point. A coordinate without a value stays what it was.
    """
    if trial is None:
        return asked
    pairs = zip(space.parameters, asked, space.encode(trial.parameters), strict=True)
    return tuple(
        share if found is None or _leads_to(parameter.domain, share, found) else found
        for parameter, share, found in pairs
    )


def _leads_to(domain: Domain, share: float, found: float) -> bool:
    back = domain.to_unit(domain.from_unit(share))
    return back is not None and abs(back - found) <= 1e-9


def is_continuous(domain: Domain) -> bool:
    """Whether neighbouring values are near each other, and too many to be listed."""
    match domain:
        case Real():
            return True
        case Integer():
            return domain.high - domain.low >= LISTED
        case _:
            return False


def has_values(trial: Trial | None) -> bool:
    """Whether a trial is complete, and all its values are numbers that can be compared."""
    return (
        trial is not None
        and trial.state is TrialState.COMPLETE
        and bool(trial.values)
        and all(map(isfinite, trial.values))
    )


def last_intermediate(trial: Trial | None) -> tuple[int, float] | None:
    """Where a pruned trial was given up and its value there; nothing where it has none."""
    if trial is None or trial.state is not TrialState.PRUNED or not trial.intermediate:
        return None
    step, value = max(trial.intermediate.items())
    return (step, value) if isfinite(value) else None


def standing(trial: Trial | None) -> tuple[int, float, float]:
    """What a trial with one objective is sorted by, greater is better.

    Complete ones by their value, then pruned ones by how far they came and their value there,
    then all that failed, alike.
    """
    if trial is not None and has_values(trial):
        return 2, trial.values[0], 0.0
    if (given_up := last_intermediate(trial)) is not None:
        return 1, float(given_up[0]), given_up[1]
    return 0, 0.0, 0.0
