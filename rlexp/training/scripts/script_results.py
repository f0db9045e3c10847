"""Reads the results file of an external training script and turns its lines into events."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlexp.errors import did_you_mean
from rlexp.protocol.budget import Budget
from rlexp.protocol.units import ENVIRONMENT_STEPS, unit_text
from rlexp.protocol.vector_scores import (
    BEST,
    COMPONENT,
    HYPERVOLUME,
    NO_VECTORS,
    POLICIES,
    REFERENCE_POINT,
    RETURN_OF,
    VectorScores,
)
from rlexp.records.events import Continued, Evaluated, Failure, Measured
from rlexp.records.scored_measure import lacking_measure
from rlexp.text import join_names

EVALUATION_KEYS = ("returns", "front", "lengths", "seconds", "measures", "final")
CONTINUES = "continues"
"""Key of a first line: the attempt whose checkpoint the script continues from."""
KEYS = ("step", "metrics", *EVALUATION_KEYS, CONTINUES)
LEAST, MOST = 0.9, 2.0
"""Allowed final step as a factor of the budget; scripts that train in whole rollouts miss it."""
LONGEST_LINE = 1 << 24
"""Longest line of the results file, in bytes."""
ScriptEvent = Continued | Measured | Evaluated
MOST_POLICIES = 1_000
"""Policies of a front, at most: an exact hypervolume of more takes long."""
Columns = dict[str, list[float]]
"""Numbers of each episode, by name."""


class ScriptFault(Exception):  # noqa: N818
    """A script crashed, or did not write valid results."""

    def __init__(self, failure: Failure, reason: str) -> None:
        super().__init__(reason)
        self.failure = failure


@dataclass(slots=True)
class Tail:
    """Reads a file as it grows, line by line."""

    path: Path
    _offset: int = 0
    _rest: bytes = b""

    def read(self, *, whole: bool = False) -> list[bytes]:
        """Return new complete lines; with `whole`, also an unterminated last line.

        Raises:
            ScriptFault: The file was truncated or removed, or a line is too long.
        """
        try:
            if self.path.stat().st_size < self._offset:
                raise ScriptFault(Failure.USER, "the results file was cut: append to it")
            with self.path.open("rb") as file:
                file.seek(self._offset)
                content = file.read()
        except FileNotFoundError as error:
            raise ScriptFault(
                Failure.USER, "the results file was removed: append to it"
            ) from error
        self._offset += len(content)
        *lines, self._rest = (self._rest + content).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            raise ScriptFault(
                Failure.USER, f"a line of the results file exceeds {LONGEST_LINE:,} bytes"
            )
        if whole:
            lines.append(self._rest)
        return [line for line in lines if line.strip()]


@dataclass(frozen=True, slots=True)
class EarlierAttempt:
    """What an earlier attempt of a run recorded, from which its script may continue.

    Attributes:
        moments: Steps of its events with the seconds of training until then, in order.
        evaluations: Steps of its evaluations during training, of those it continued from included.
        unrecorded: Evaluations in its results file that its journal lacks: it was killed before they were read.
    """

    moments: Sequence[tuple[int, float]]
    evaluations: Sequence[int]
    unrecorded: Sequence[Evaluated] = ()

    def seconds_until(self, step: int) -> float:
        """Seconds of training until the last event up to `step`."""
        return max((seconds for moment, seconds in self.moments if moment <= step), default=0.0)


@dataclass(slots=True)
class Results:
    """Turns lines of a results file into events, and refuses invalid lines.

    Attributes:
        budget: The budget that steps and numbers of episodes are checked against.
        now: Returns seconds since 1970.
        unit: The unit of steps.
        vectors: What the environment declares about vectors of returns.
        step: The step of the last line.
        evaluations: Steps of the evaluations so far, without the final one.
        final: Whether the final evaluation was read.
        logged: The last step of the event files of the script.
        earlier: Earlier attempts of the run by number, if the script may continue from them.
        earlier_seconds: Seconds of the training that the script continued.
    """

    budget: Budget
    now: Callable[[], float]
    unit: str = ENVIRONMENT_STEPS
    vectors: VectorScores = NO_VECTORS
    step: int = 0
    evaluations: list[int] = field(default_factory=list)
    final: bool = False
    logged: int = 0
    earlier: Mapping[int, EarlierAttempt] = field(default_factory=dict)
    earlier_seconds: float = 0.0
    _number: int = 0

    @property
    def largest_step(self) -> int:
        """The largest step that the budget allows."""
        return int(MOST * self.budget.steps)

    @property
    def furthest_step(self) -> int:
        """The furthest step of the results and the event files; the final evaluation decides."""
        return self.step if self.final else max(self.step, self.logged)

    def read(self, line: bytes) -> list[ScriptEvent]:
        """Return the events of a line; a line with only a step is a heartbeat and gives no event.

        Raises:
            ScriptFault: The line is invalid; the message says why.
        """
        self._number += 1
        entry = self._parsed(line)
        if self.final:
            raise self._fault("no line may follow the final evaluation")
        self.step = self.checked_step(entry.get("step"))
        events: list[ScriptEvent] = []
        if CONTINUES in entry:
            events += self._continued(entry[CONTINUES])
        if "metrics" in entry:
            metrics = self._numbers(entry["metrics"], "metrics")
            events.append(Measured(time=self.now(), step=self.step, metrics=metrics))
        if "returns" in entry or "front" in entry:
            events.append(self._evaluated(entry))
        elif orphans := [key for key in EVALUATION_KEYS if key in entry]:
            raise self._fault(f"{orphans[0]} needs returns in the same line")
        return events

    def _continued(self, number: Any) -> list[ScriptEvent]:
        """Take over what the attempt `number` recorded or wrote up to the step of this line."""
        if self._number != 1:
            raise self._fault(f"{CONTINUES} belongs in the first line")
        earlier = self.earlier.get(number) if type(number) is int else None
        if earlier is None:
            allowed = ", ".join(map(str, self.earlier)) or "none: set algorithm.continues=true"
            raise self._fault(
                f"{CONTINUES}={number!r} is no earlier attempt of this run (there are: {allowed})"
            )
        unrecorded = [event for event in earlier.unrecorded if event.step <= self.step]
        self.evaluations = [step for step in earlier.evaluations if step <= self.step]
        self.evaluations += [event.step for event in unrecorded]
        self.earlier_seconds = earlier.seconds_until(self.step)
        return [Continued(time=self.now(), step=self.step, attempt=number), *unrecorded]

    def check_whole(self) -> None:
        """Refuse results without the evaluations that the score needs.

        Raises:
            ScriptFault: An evaluation is missing; the message says which.
        """
        if not self.final:
            raise ScriptFault(
                Failure.USER,
                f"the script ended at step {self.step} without a final evaluation: the last line "
                'needs "returns" and "final": true',
            )
        if self.budget.reads_curve and not self.evaluations:
            raise ScriptFault(
                Failure.USER,
                f"budget.score={self.budget.score} reads the evaluations during training, and the "
                "script wrote none",
            )

    def _parsed(self, line: bytes) -> Mapping[str, Any]:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise self._fault(f"it is not JSON: {_quoted(line)}") from error
        if not isinstance(entry, Mapping):
            raise self._fault(f"it is not a JSON object: {_quoted(line)}")
        for key in entry:
            if key not in KEYS:
                raise self._fault(
                    f"unknown key {key!r}{did_you_mean(key, KEYS)} (there are: {', '.join(KEYS)})"
                )
        return entry

    def checked_step(self, step: Any) -> int:
        """The step of a line; refuses one that goes back or is far beyond the budget."""
        if type(step) is not int or step < 0:
            raise self._fault(f"step={step!r} is no number of {unit_text(self.unit)}")
        if step < self.step:
            raise self._fault(f"step {step} goes back behind step {self.step}")
        if step > self.largest_step:
            raise self._fault(f"step {step} is far beyond budget.steps={self.budget.steps}")
        return step

    def _evaluated(self, entry: Mapping[str, Any]) -> Evaluated:
        final = entry.get("final", False)
        if type(final) is not bool:
            raise self._fault(f"final={final!r} is neither true nor false")
        seconds = entry.get("seconds", 0.0)
        if not _is_number(seconds) or not 0 <= seconds < math.inf:
            raise self._fault(f"seconds={seconds!r} is no duration")
        try:
            returns, vector = self._scores(entry, final=final)
            measures = self._measures(joined(entry.get("measures"), vector))
            more = {} if measures is None else {"measures": measures}
            event = Evaluated(
                time=self.now(),
                step=self.step,
                returns=returns,
                lengths=self._lengths(entry.get("lengths"), len(returns)),
                seconds=float(seconds),
                final=final,
                **more,
            )
        except ValueError as error:
            raise self._fault(str(error)) from error
        if reason := lacking_measure(event, self.budget.score):
            raise self._fault(reason)
        self._note_evaluation(final=final)
        return event

    def _note_evaluation(self, *, final: bool) -> None:
        """Note an evaluation; refuse an early final one and a second one at the same step."""
        if final:
            self.final = True
            if self.step < LEAST * self.budget.steps:
                raise self._fault(
                    f"the final evaluation is at step {self.step}, well before "
                    f"budget.steps={self.budget.steps}: train for the whole budget"
                )
            return
        if self.evaluations and self.evaluations[-1] == self.step:
            raise self._fault(f"step {self.step} has two evaluations")
        self.evaluations.append(self.step)

    def _scores(
        self, entry: Mapping[str, Any], *, final: bool
    ) -> tuple[tuple[float, ...], dict[str, list[float]]]:
        """The returns of an evaluation, and the measures that its vectors become."""
        episodes = getattr(self.budget, _episodes_setting(final=final))
        if "front" not in entry:
            returns, vector = split_returns(entry["returns"], self.vectors, episodes)
            return self._returns(returns, final=final), vector
        if excess := [key for key in ("returns", "lengths") if key in entry]:
            raise self._fault(f"a front has no {excess[0]}: leave them out")
        vector = front_measures(entry["front"], self.vectors, episodes)
        # A journal needs a return of each episode, and a front has none.
        return tuple(vector[HYPERVOLUME]), vector

    def _returns(self, values: Any, *, final: bool) -> tuple[float, ...]:
        name = _episodes_setting(final=final)
        expected = getattr(self.budget, name)
        if not isinstance(values, list) or not all(map(_is_number, values)):
            raise self._fault("returns must be a list of numbers, one for each episode")
        if len(values) != expected:
            raise self._fault(f"{len(values)} returns, where budget.{name}={expected}")
        if not all(map(math.isfinite, values)):
            raise ScriptFault(Failure.NAN, f"a return is no finite number at step {self.step}")
        return tuple(map(float, values))

    def _lengths(self, values: Any, episodes: int) -> tuple[int, ...]:
        if values is None:
            return ()
        # `type(n) is int` because JSON's true would pass as an int.
        is_valid = isinstance(values, list) and all(type(n) is int and n > 0 for n in values)
        if not is_valid or len(values) != episodes:
            raise self._fault("lengths must be a list of whole numbers, one for each episode")
        return tuple(values)

    def _measures(self, values: Any) -> dict[str, tuple[float, ...]] | None:
        if values is None:
            return None
        if not isinstance(values, Mapping):
            raise self._fault("measures must be a mapping from names to lists of numbers")
        measures = {}
        for name, column in values.items():
            if not isinstance(column, list) or not all(n is None or _is_number(n) for n in column):
                raise self._fault(f"measures.{name} must be a list of numbers and nulls")
            measures[name] = tuple(math.nan if n is None else float(n) for n in column)
        return measures

    def _numbers(self, values: Any, what: str) -> dict[str, float]:
        if not isinstance(values, Mapping) or not all(map(_is_number, values.values())):
            raise self._fault(f"{what} must be a mapping from names to numbers")
        return {name: float(value) for name, value in values.items()}

    def _fault(self, reason: str) -> ScriptFault:
        return ScriptFault(Failure.USER, f"line {self._number} of the results file: {reason}")


def _episodes_setting(*, final: bool) -> str:
    """The setting of the budget with the number of episodes of an evaluation."""
    return "final_episodes" if final else "evaluation_episodes"


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        # JSON has whole numbers that are too large for a float.
        float(value)
    except OverflowError:
        return False
    return True


def _quoted(line: bytes) -> str:
    text = line.decode(errors="replace").strip()
    return repr(text if len(text) <= 80 else f"{text[:80]}…")


def evaluations_in(
    path: Path, budget: Budget, now: Callable[[], float], vectors: VectorScores = NO_VECTORS
) -> list[Evaluated]:
    """The evaluations during training in the results file of an attempt that was killed, in order.

    The last line may be cut, and what follows an invalid line does not count.
    """
    results, evaluations = Results(budget, now, vectors=vectors), list[Evaluated]()
    with suppress(ScriptFault):
        for line in Tail(path).read():
            entry = json.loads(line) if CONTINUES.encode() in line else None
            if isinstance(entry, Mapping) and CONTINUES in entry:
                # Which attempt it continued is known from its journal.
                results.step = results.checked_step(entry.get("step"))
                continue
            evaluations += [e for e in results.read(line) if isinstance(e, Evaluated)]
    return [event for event in evaluations if not event.final]


def split_returns(returns: Any, declared: VectorScores, episodes: int) -> tuple[Any, Columns]:
    """The returns of the run, and those of every component as measures.

    Args:
        returns: The value of `returns`: numbers, or a list of numbers for each component.
        declared: What the environment declares.
        episodes: The number of episodes that the budget asks for.

    Raises:
        ValueError: The returns are not as declared; the message says why.
    """
    if declared.reference_point is not None:
        raise ValueError(
            f"environment.{REFERENCE_POINT} declares a front of policies: write front, not returns"
        )
    if not isinstance(returns, Mapping):
        if declared.return_of is not None:
            raise ValueError(
                f"environment.{RETURN_OF}={declared.return_of} names a component, and returns are a list: "
                f'write {{"{declared.return_of}": [numbers], …}}'
            )
        return returns, {}
    if declared.return_of not in returns:
        # The script decides the names, so that no plan can know them.
        names = join_names(returns) or "nothing"
        said = f" ({declared.return_of} is none of them)" if declared.return_of else ""
        raise ValueError(
            f"returns are those of {names}{said}: environment.{RETURN_OF}=NAME says which of them is "
            "the return of the run"
        )
    for name, column in returns.items():
        _check_column(column, f"returns.{name}", episodes)
    named = {f"{COMPONENT}{name}": column for name, column in returns.items()}
    return returns[declared.return_of], named


def front_measures(front: Any, declared: VectorScores, episodes: int) -> Columns:
    """The measures of a front of policies, the same for every episode.

    They are the hypervolume of the mean returns of the policies above the declared reference point, the
    number of policies that no other one dominates, and the best mean return in each objective.

    Args:
        front: A list of policies: for each objective, the returns of the episodes.
        declared: What the environment declares.
        episodes: The number of episodes that the budget asks each policy to play.

    Raises:
        ValueError: The front is not as declared; the message says why.
    """
    # NumPy is imported where a front is read.
    from rlexp.stats.pareto import front_of, hypervolume

    reference = declared.reference_point
    if reference is None:
        raise ValueError(
            f"a front needs a reference point: environment.{REFERENCE_POINT}='{{OBJECTIVE: NUMBER, …}}'"
        )
    # The order of the objectives must not change the last digit of the volume.
    objectives = sorted(reference)
    means = _means(front, objectives, episodes)
    volume = hypervolume(means, [float(reference[name]) for name in objectives])
    values = {HYPERVOLUME: volume, POLICIES: float(len(front_of(means)))}
    values |= {f"{BEST}{n}": max(m[k] for m in means) for k, n in enumerate(objectives)}
    return {name: [value] * episodes for name, value in values.items()}


def _means(front: Any, objectives: Sequence[str], episodes: int) -> list[list[float]]:
    """The mean returns of each policy, in the order of the objectives."""
    if not isinstance(front, list) or not 0 < len(front) <= MOST_POLICIES:
        raise ValueError(f"front must be a list of 1 to {MOST_POLICIES:,} policies")
    means = []
    for number, policy in enumerate(front):
        if not isinstance(policy, Mapping) or set(policy) != set(objectives):
            raise ValueError(
                f"policy {number} of the front must have returns of {join_names(objectives)}, the objectives "
                f"of environment.{REFERENCE_POINT}"
            )
        for name in objectives:
            _check_column(policy[name], f"policy {number} of the front: {name}", episodes)
        means.append([math.fsum(policy[name]) / episodes for name in objectives])
    return means


def _check_column(column: Any, what: str, episodes: int) -> None:
    """Refuse what is not one finite number for each episode."""
    is_valid = isinstance(column, list) and all(
        type(n) in {int, float} and math.isfinite(n) for n in column
    )
    if not is_valid or len(column) != episodes:
        raise ValueError(
            f"{what} must be a list of {episodes} finite numbers, one for each episode"
        )


def joined(first: Mapping[str, Any] | None, second: Columns) -> dict[str, Any] | None:
    """The measures of a line with those of its vectors; None where there are none.

    Raises:
        ValueError: A measure is there twice.
    """
    if twice := [name for name in second if name in (first or {})]:
        raise ValueError(
            f"measures.{twice[0]} is a component of the vector, too: leave it out there"
        )
    return {**(first or {}), **second} or None
