"""Translation of a sweep's search space and trials into Optuna's distributions and trials."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal

from rlexp.errors import ProtocolError
from rlexp.protocol.identity import canonical
from rlexp.protocol.space import Choice, Domain, Integer, Real, Space

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial


Ranges = Mapping[str, "BaseDistribution"]
"""The distributions of a study, by parameter."""


def ranges(space: Space, default: Mapping[str, Any]) -> Ranges:
    """The distributions of a study, each wide enough for the default value.

    All trials share them: Optuna's importances ignore a parameter whose distributions differ.

    Args:
        space: The search space.
        default: Values of the default configuration, which may lie outside the space.
    """
    result: dict[str, BaseDistribution] = {}
    for parameter in space.parameters:
        distribution = _range(parameter.domain)
        pair = value_and_range(parameter.domain, distribution, default.get(parameter.key))
        result[parameter.key] = distribution if pair is None else pair[1]
    return result


def _range(domain: Domain) -> "BaseDistribution":
    from optuna.distributions import CategoricalDistribution as Categorical
    from optuna.distributions import FloatDistribution as Float
    from optuna.distributions import IntDistribution as Int

    match domain:
        case Real():
            # Optuna has no `flipped_log` scale: such a range is shown as linear.
            return Float(float(domain.low), float(domain.high), log=domain.scale == "log")
        case Integer():
            return Int(domain.low, domain.high, log=domain.log)
        case Choice():
            return Categorical(_labels(domain))


def value_and_range(
    domain: Domain, within: Any, value: Any
) -> tuple[Any, "BaseDistribution"] | None:
    """A value as Optuna stores it, with a distribution that contains it; None if there is none."""
    if isinstance(domain, Choice):
        position = domain.position(value)
        return None if position is None else (within.choices[position], within)
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return None
    if isinstance(domain, Integer) and value != int(value):
        return None
    number = int(value) if isinstance(domain, Integer) else float(value)
    # A logarithmic distribution starts at 1 for integers, and above 0 for floats (5e-324 is the
    # smallest positive one).
    if within.log and number < (1 if isinstance(domain, Integer) else 5e-324):
        return None
    low, high = min(number, within.low), max(number, within.high)
    return number, within if within.low <= number <= within.high else type(within)(
        low, high, log=within.log
    )


def _labels(choice: Choice) -> list[Any]:
    """The choices as Optuna stores them: lists, or all choices if two are equal, as JSON texts."""
    labels = [
        v if v is None or isinstance(v, bool | int | float | str) else canonical(v)
        for v in choice.values
    ]
    # In Python 1 == True == 1.0, which Optuna could not tell apart.
    alike = any(a == b for i, a in enumerate(labels) for b in labels[:i])
    return [canonical(v) for v in choice.values] if alike else labels


OUTSIDE = "outside_space"
"""User attribute with the parameters that no distribution can contain, such as null."""
NUMBER = "rlexp:number"
"""System attribute with a trial's number; marks the trial as written by rlexp."""

OptunaTrialState = Literal["running", "complete", "pruned", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredTrial:
    """A trial as it is written to the study.

    Attributes:
        number: From 0, the default configuration.
        parameters: Values of its hyperparameters, without inactive ones.
        state: A trial that may still get other values must be `running`: Optuna never changes a
            finished trial, so the whole study would have to be written again.
        values: One for each objective, in the objective's unit; empty unless complete or pruned.
        intermediate: Values of the first objective by environment steps.
        attributes: Further JSON values to show: seeds, scores per seed, run ids, …
        started: Seconds since 1970, if known.
        ended: Seconds since 1970, if known.
    """

    number: int
    parameters: Mapping[str, Any]
    state: OptunaTrialState
    values: tuple[float, ...] = ()
    intermediate: Mapping[int, float] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    started: float | None = None
    ended: float | None = None

    def __post_init__(self) -> None:
        """Refuse missing, unexpected and non-finite values."""
        if self.state == "complete" and not self.values:
            raise ProtocolError(f"trial {self.number} is complete: it needs its values")
        if self.state in {"running", "failed"} and self.values:
            raise ProtocolError(f"trial {self.number} is {self.state}: it has no values")
        if not all(map(isfinite, self.values)):
            raise ProtocolError(
                f"trial {self.number} has a value that is not finite: its state must be failed"
            )


@dataclass(frozen=True, slots=True)
class MirroredSweep:
    """A sweep as it is written to the study.

    Attributes:
        trials: All trials in any order, numbered from 0 without a gap.
        attributes: JSON values by name, which may change at any time.
        notes: Markdown that Optuna's dashboard shows beside trials, by number, and beside the study,
            by None. Notes may change after a trial has ended.
    """

    trials: Sequence[MirroredTrial]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[int | None, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TrialContent:
    """The content of an Optuna trial as JSON texts, in which NaN equals NaN.

    Attributes:
        state: Optuna's name of the state.
        values: One for each objective.
        parameters: The values and ranges.
        attributes: User attributes.
        intermediate: Intermediate values by step.
    """

    state: str
    values: str
    parameters: str
    attributes: Mapping[str, str]
    intermediate: Mapping[int, str]

    def leads_to(self, other: "TrialContent") -> bool:
        """Whether this trial can become the other one: Optuna only adds to a running trial."""
        return self == other or (
            self.state == "RUNNING"
            and self.parameters == other.parameters
            and self.attributes.keys() <= other.attributes.keys()
            and self.intermediate.keys() <= other.intermediate.keys()
        )


def to_optuna(trial: MirroredTrial, space: Space, study: Ranges) -> "FrozenTrial":
    """The trial as an Optuna trial; the study that it is added to gives it its number.

    Args:
        trial: The trial.
        space: The search space.
        study: The distributions of the study, from `ranges`.
    """
    from optuna.trial import create_trial

    values, distributions, outside = _parameters(trial.parameters, space, study)
    attributes = {**trial.attributes, **({OUTSIDE: outside} if outside else {})}
    made = create_trial(
        state=_state(trial.state),
        values=list(trial.values) or None,
        params=values,
        distributions=distributions,
        # As the storage returns them: in JSON, tuples are lists and keys are texts.
        user_attrs=json.loads(json.dumps(attributes)),
        system_attrs={NUMBER: trial.number},
        intermediate_values={int(s): float(v) for s, v in sorted(trial.intermediate.items())},
    )
    made.datetime_start = _time(trial.started, trial.ended)
    made.datetime_complete = (
        None if trial.state == "running" else _time(trial.ended, trial.started)
    )
    return made


def content(trial: "FrozenTrial") -> TrialContent:
    """The content of an Optuna trial, without its times."""
    from optuna.distributions import distribution_to_json

    kept = {k: [trial.params[k], distribution_to_json(d)] for k, d in trial.distributions.items()}
    return TrialContent(
        state=trial.state.name,
        values=json.dumps(trial.values),
        parameters=json.dumps(kept, sort_keys=True),
        attributes={k: json.dumps(v, sort_keys=True) for k, v in trial.user_attrs.items()},
        intermediate={k: json.dumps(v) for k, v in trial.intermediate_values.items()},
    )


class TranslatedTrials:
    """The trials translated for Optuna; only changed trials are translated again."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self._ranges: Ranges = {}
        self._trials: list[MirroredTrial] = []
        self._made: list[tuple[FrozenTrial, TrialContent]] = []

    @property
    def made(self) -> Sequence[tuple["FrozenTrial", TrialContent]]:
        """Each Optuna trial with its content, by number."""
        return self._made

    def take(self, trials: Sequence[MirroredTrial]) -> None:
        """Translate these trials, in any order.

        Raises:
            ProtocolError: A number is missing or repeated.
        """
        ordered = sorted(trials, key=lambda trial: trial.number)
        if [trial.number for trial in ordered] != list(range(len(ordered))):
            raise ProtocolError("the trials of a mirror must be numbered from 0, each number once")
        study = ranges(self.space, ordered[0].parameters if ordered else {})
        previous = self._trials if study == self._ranges else []
        same = [a == b for a, b in zip(previous, ordered, strict=False)]
        same += [False] * (len(ordered) - len(same))
        self._made = [
            self._made[trial.number] if kept else self._translate(trial, study)
            for trial, kept in zip(ordered, same, strict=True)
        ]
        self._trials, self._ranges = ordered, study

    def _translate(
        self, trial: MirroredTrial, study: Ranges
    ) -> tuple["FrozenTrial", TrialContent]:
        made = to_optuna(trial, self.space, study)
        return made, content(made)


def _state(state: OptunaTrialState) -> Any:
    from optuna.trial import TrialState

    return {
        "running": TrialState.RUNNING,
        "complete": TrialState.COMPLETE,
        "pruned": TrialState.PRUNED,
        "failed": TrialState.FAIL,
    }[state]


def _time(*candidates: float | None) -> datetime:
    seconds = next((s for s in candidates if s is not None), None)
    return datetime.now(UTC) if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _parameters(
    parameters: Mapping[str, Any], space: Space, study: Ranges
) -> tuple[dict[str, Any], dict[str, "BaseDistribution"], dict[str, Any]]:
    """Values and distributions that Optuna can store, and the other parameters."""
    domains = {p.key: p.domain for p in space.parameters}
    pairs = {
        key: value_and_range(domains[key], study[key], value) if key in domains else None
        for key, value in sorted(parameters.items())
    }
    return (
        {key: pair[0] for key, pair in pairs.items() if pair is not None},
        {key: pair[1] for key, pair in pairs.items() if pair is not None},
        {key: parameters[key] for key, pair in pairs.items() if pair is None},
    )
