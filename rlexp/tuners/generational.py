"""Generational tuners: finished rounds of trials are replayed before the next round is made."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Generic, Protocol, TypeVar

from rlexp.protocol.space import Domain, Integer, Real, Space
from rlexp.records.trial import Trial, TrialState
from rlexp.tuners import Suggestion

MethodState = TypeVar("MethodState")

UnitPoint = tuple[float, ...]
"""A point of the unit cube: a share in [0, 1] for each parameter of the space, active or not."""

MAX_DISCRETE_VALUES = 32
"""A range of integers with more values is searched as if it were continuous."""


@dataclass(frozen=True, slots=True)
class CandidatePoint:
    """A point to evaluate; see `Suggestion` for `steps` and `parent`."""

    point: UnitPoint
    steps: int | None = None
    parent: int | None = None


@dataclass(frozen=True, slots=True)
class EvaluatedPoint:
    """An evaluated point; the trial is None if it failed and the sweep excludes failed trials."""

    number: int
    point: UnitPoint
    trial: Trial | None


class GenerationSchedule(Protocol):
    """Assigns trials to rounds, and states which rounds a round depends on."""

    def locate(self, number: int) -> tuple[int, int]:
        """The round of a trial, from 0, and the position of the trial in the round."""
        ...

    def first(self, index: int) -> int:
        """The number of the first trial of a round."""
        ...

    def reads(self, index: int) -> int:
        """The number of first rounds that must be over before a round can be suggested."""
        ...


class GenerationalMethod(Protocol[MethodState]):
    """A search method in rounds. Its states are immutable values."""

    def begin(self) -> MethodState:
        """The state before the first round."""
        ...

    def ask(self, state: MethodState, index: int) -> Sequence[CandidatePoint]:
        """The trials of a round, from the state after the rounds that it depends on."""
        ...

    def tell(
        self, state: MethodState, index: int, members: Sequence[EvaluatedPoint]
    ) -> MethodState:
        """The state after a round, from the previous state."""
        ...


@dataclass(frozen=True, slots=True)
class Generations:
    """Rounds of equal size after a first round, which begins with the default configuration."""

    initial: int
    size: int

    def locate(self, number: int) -> tuple[int, int]:
        """The generation of a trial, and the position of the trial in the generation."""
        if number < self.initial:
            return 0, number
        index, position = divmod(number - self.initial, self.size)
        return index + 1, position

    def first(self, index: int) -> int:
        """The number of the first trial of a generation."""
        return self.initial + (index - 1) * self.size if index else 0

    def reads(self, index: int) -> int:
        """The number of earlier generations: a generation depends on all of them."""
        return index


@dataclass(slots=True)
class ReplaySuggester(Generic[MethodState]):
    """A suggester that replays the history of trials through a method, round by round.

    States between calls are a cache: they are dropped from the first round on that differs from
    the history.
    """

    space: Space
    schedule: GenerationSchedule
    method: GenerationalMethod[MethodState]
    _states: list[MethodState] = field(default_factory=list)
    _replayed: list[tuple[Trial | None, ...]] = field(default_factory=list)
    _candidates: dict[int, Sequence[CandidatePoint]] = field(default_factory=dict)

    def needs(self, number: int) -> int:
        """The number of first trials that must have ended before trial `number` is suggested."""
        if number < self.schedule.first(0):
            return 0
        rounds = self.schedule.reads(self.schedule.locate(number)[0])
        return self.schedule.first(rounds) if rounds else 0

    def suggest(self, trials: Sequence[Trial], number: int) -> Suggestion | None:
        """Suggest trial `number`; only the first `needs(number)` trials affect the suggestion."""
        index, position = self.schedule.locate(number)
        self._follow({trial.number: trial for trial in trials}, self.schedule.reads(index))
        candidate = self._ask(index)[position]
        return Suggestion(self.space.decode(candidate.point), candidate.steps, candidate.parent)

    def _follow(self, trials: dict[int, Trial], rounds: int) -> None:
        self._states = self._states or [self.method.begin()]
        for index in range(rounds):
            first, end = self.schedule.first(index), self.schedule.first(index + 1)
            ended = tuple(trials.get(number) for number in range(first, end))
            # Trials are compared by value: a history that was read from disk again is the same.
            if index < len(self._replayed) and self._replayed[index] == ended:
                continue
            self._forget(index)
            members = [
                EvaluatedPoint(
                    first + i, evaluated_point(self.space, candidate.point, trial), trial
                )
                for i, (candidate, trial) in enumerate(zip(self._ask(index), ended, strict=True))
            ]
            self._replayed.append(ended)
            self._states.append(self.method.tell(self._states[index], index, members))

    def _ask(self, index: int) -> Sequence[CandidatePoint]:
        if index not in self._candidates:
            state = self._states[self.schedule.reads(index)]
            self._candidates[index] = self.method.ask(state, index)
        return self._candidates[index]

    def _forget(self, rounds: int) -> None:
        """Drop every cached state and candidate that depends on a round after the first `rounds`."""
        # There is one more state than rounds, because state 0 comes before the first round.
        del self._replayed[rounds:], self._states[rounds + 1 :]
        self._candidates = {
            i: c for i, c in self._candidates.items() if self.schedule.reads(i) <= rounds
        }


def evaluated_point(space: Space, point: UnitPoint, trial: Trial | None) -> UnitPoint:
    """The point at which a trial was run.

    A coordinate of the suggested point stays if it decodes to the value of the trial, or if the
    trial has no value; otherwise it becomes the encoded value of the trial.
    """
    if trial is None:
        return point
    pairs = zip(space.parameters, point, space.encode(trial.parameters), strict=True)
    return tuple(
        share
        if trial_share is None or _decodes_to(parameter.domain, share, trial_share)
        else trial_share
        for parameter, share, trial_share in pairs
    )


def _decodes_to(domain: Domain, share: float, trial_share: float) -> bool:
    # Encoding and decoding round: shares that differ by less are the same value.
    back = domain.to_unit(domain.from_unit(share))
    return back is not None and abs(back - trial_share) <= 1e-9


def is_continuous(domain: Domain) -> bool:
    """Whether a domain is real, or an integer range with too many values for a discrete model."""
    match domain:
        case Real():
            return True
        case Integer():
            return domain.high - domain.low >= MAX_DISCRETE_VALUES
        case _:
            return False


def is_complete(trial: Trial | None) -> bool:
    """Whether a trial is complete and all its values are finite."""
    return (
        trial is not None
        and trial.state is TrialState.COMPLETE
        and bool(trial.values)
        and all(map(isfinite, trial.values))
    )


def last_intermediate(trial: Trial | None) -> tuple[int, float] | None:
    """The last step of a pruned trial and its value there; None without a finite value."""
    if trial is None or trial.state is not TrialState.PRUNED or not trial.intermediate:
        return None
    step, value = max(trial.intermediate.items())
    return (step, value) if isfinite(value) else None


def sort_key(trial: Trial | None) -> tuple[int, float, float]:
    """The sort key of a trial with one objective, greater is better.

    Complete trials are sorted by value. Pruned trials follow, by their last step and the value
    there. Failed trials are last and tie.
    """
    if trial is not None and is_complete(trial):
        return 2, trial.values[0], 0.0
    if (given_up := last_intermediate(trial)) is not None:
        return 1, float(given_up[0]), given_up[1]
    return 0, 0.0, 0.0
