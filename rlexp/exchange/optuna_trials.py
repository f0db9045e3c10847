"""Trials of a sweep as Optuna keeps them: their ranges, their values, and what can still change."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal

from rlexp.errors import ProtocolError
from rlexp.protocol.space import Space

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial
from typing import TYPE_CHECKING

from rlexp.protocol.identity import canonical
from rlexp.protocol.space import Choice, Domain, Integer, Real

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

Ranges = Mapping[str, "BaseDistribution"]
"""Of a study, by parameter."""


def ranges(space: Space, default: Mapping[str, Any]) -> Ranges:
    """The ranges of a study, each wide enough for the default value.

    All trials have the same: Optuna's importances leave a parameter out whose ranges differ.

    Args:
        space: What is searched.
        default: The values of the default configuration, which may lie outside.
    """
    found: dict[str, BaseDistribution] = {}
    for parameter in space.parameters:
        plain = _range(parameter.domain)
        placed = value_and_range(parameter.domain, plain, default.get(parameter.key))
        found[parameter.key] = plain if placed is None else placed[1]
    return found


def _range(domain: Domain) -> "BaseDistribution":
    from optuna.distributions import CategoricalDistribution as Categorical
    from optuna.distributions import FloatDistribution as Float
    from optuna.distributions import IntDistribution as Int

    match domain:
        case Real():
            return Float(float(domain.low), float(domain.high), log=domain.scale == "log")
        case Integer():
            return Int(domain.low, domain.high, log=domain.log)
        case Choice():
            return Categorical(_labels(domain))


def value_and_range(
    domain: Domain, within: Any, value: Any
) -> tuple[Any, "BaseDistribution"] | None:
    """A value as Optuna writes it, with a range that holds it; nothing if there is none."""
    if isinstance(domain, Choice):
        position = domain.position(value)
        return None if position is None else (within.choices[position], within)
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return None
    if isinstance(domain, Integer) and value != int(value):
        return None
    number = int(value) if isinstance(domain, Integer) else float(value)
    if within.log and number < (1 if isinstance(domain, Integer) else 5e-324):
        return None
    low, high = min(number, within.low), max(number, within.high)
    return number, within if within.low <= number <= within.high else type(within)(
        low, high, log=within.log
    )


def _labels(choice: Choice) -> list[Any]:
    """The choices as Optuna keeps them: JSON text for lists, and for all where two look alike."""
    labels = [
        v if v is None or isinstance(v, bool | int | float | str) else canonical(v)
        for v in choice.values
    ]
    alike = any(a == b for i, a in enumerate(labels) for b in labels[:i])
    return [canonical(v) for v in choice.values] if alike else labels


OUTSIDE = "outside_space"
"""User attribute with the parameters that no range of Optuna's can hold: a default of null, say."""
NUMBER = "rlexp:number"
"""System attribute that marks a trial as ours, with its number."""

State = Literal["running", "complete", "pruned", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredTrial:
    """A trial as the mirror shows it.

    Attributes:
        number: From 0, which is the default configuration.
        parameters: The values that it sets; those that are not there for it are left out.
        state: Where it stands. One that may still get other values must be `running`: Optuna
            never changes a finished trial, so the whole study would be written anew.
        values: One for each objective, in its own unit; only where it is complete or pruned.
        intermediate: The first objective by environment steps.
        attributes: What else is shown, as JSON values: seeds, scores per seed, run ids, …
        started: Seconds since 1970, if it is known.
        ended: Seconds since 1970, if it is known.
    """

    number: int
    parameters: Mapping[str, Any]
    state: State
    values: tuple[float, ...] = ()
    intermediate: Mapping[int, float] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    started: float | None = None
    ended: float | None = None

    def __post_init__(self) -> None:
        """Refuse a score that is none, and one where there cannot be any."""
        if self.state == "complete" and not self.values:
            raise ProtocolError(f"trial {self.number} is complete: it needs its values")
        if self.state in {"running", "failed"} and self.values:
            raise ProtocolError(f"trial {self.number} is {self.state}: it has no values")
        if not all(map(isfinite, self.values)):
            raise ProtocolError(
                f"trial {self.number} has a value that is not finite: it is failed, not complete"
            )


@dataclass(frozen=True, slots=True)
class TrialContent:
    """What a trial of Optuna's says, as text, so that NaN equals NaN.

    Attributes:
        state: Optuna's name of it.
        values: One for each objective.
        parameters: The values and ranges.
        attributes: User attributes.
        intermediate: By step.
    """

    state: str
    values: str
    parameters: str
    attributes: Mapping[str, str]
    intermediate: Mapping[int, str]

    def leads_to(self, other: "TrialContent") -> bool:
        """Whether Optuna can still make the wanted trial of this one: it only ever adds."""
        return self == other or (
            self.state == "RUNNING"
            and self.parameters == other.parameters
            and self.attributes.keys() <= other.attributes.keys()
            and self.intermediate.keys() <= other.intermediate.keys()
        )


def to_optuna(trial: MirroredTrial, space: Space, study: Ranges) -> "FrozenTrial":
    """The trial as Optuna keeps it; its number is given by the study that it is added to.

    Args:
        trial: Any.
        space: What is searched.
        study: The ranges of the study, from `ranges`.
    """
    from optuna.trial import create_trial

    values, distributions, outside = _parameters(trial.parameters, space, study)
    attributes = {**trial.attributes, **({OUTSIDE: outside} if outside else {})}
    made = create_trial(
        state=_state(trial.state),
        values=list(trial.values) or None,
        params=values,
        distributions=distributions,
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
    """What a trial of Optuna's says, however it was made; times are left out."""
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
    """The trials as Optuna should keep them; only what changed is translated again."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self._ranges: Ranges = {}
        self._trials: list[MirroredTrial] = []
        self._made: list[tuple[FrozenTrial, TrialContent]] = []

    @property
    def made(self) -> Sequence[tuple["FrozenTrial", TrialContent]]:
        """Each trial, and what it says, by number."""
        return self._made

    def take(self, trials: Sequence[MirroredTrial]) -> None:
        """Translate these trials, in any order.

        Raises:
            ProtocolError: A number is missing or twice there.
        """
        ordered = sorted(trials, key=lambda trial: trial.number)
        if [trial.number for trial in ordered] != list(range(len(ordered))):
            raise ProtocolError("the trials of a mirror are numbered from 0, each number once")
        study = ranges(self.space, ordered[0].parameters if ordered else {})
        known = self._trials if study == self._ranges else []
        same = [a == b for a, b in zip(known, ordered, strict=False)]
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


def _state(state: State) -> Any:
    from optuna.trial import TrialState

    return {
        "running": TrialState.RUNNING,
        "complete": TrialState.COMPLETE,
        "pruned": TrialState.PRUNED,
        "failed": TrialState.FAIL,
    }[state]


def _time(*known: float | None) -> datetime:
    seconds = next((s for s in known if s is not None), None)
    return datetime.now(UTC) if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _parameters(
    parameters: Mapping[str, Any], space: Space, study: Ranges
) -> tuple[dict[str, Any], dict[str, "BaseDistribution"], dict[str, Any]]:
    """Values and ranges of what Optuna can hold, and the rest."""
    domains = {p.key: p.domain for p in space.parameters}
    placed = {
        key: value_and_range(domains[key], study[key], value) if key in domains else None
        for key, value in sorted(parameters.items())
    }
    return (
        {key: one[0] for key, one in placed.items() if one is not None},
        {key: one[1] for key, one in placed.items() if one is not None},
        {key: parameters[key] for key, one in placed.items() if one is None},
    )
