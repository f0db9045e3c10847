"""Conversion of trials and spaces to Optuna's types. Imports Optuna: import it late."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Generic, TypeVar

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial
from optuna.trial import TrialState as State

from rlexp.protocol.space import Choice, Domain, Integer, Space
from rlexp.records.trial import Trial

T = TypeVar("T")
Internal = int | float
"""A value in Optuna's form: a share of a range, an integer, or the position of a choice."""

MIN_CONTINUOUS_WIDTH = 100
"""A range of integers with this many steps or more is searched as continuous."""


def distribution(domain: Domain) -> BaseDistribution:
    """The distribution of Optuna for a domain.

    Ranges of every scale become the unit interval, because Optuna has no `flipped_log` scale.
    Choices become their positions, because values may be lists.
    """
    match domain:
        case Choice():
            return CategoricalDistribution(range(len(domain.values)))
        case Integer() if _is_narrow(domain):
            return IntDistribution(domain.low, domain.high, log=domain.log)
        case _:
            return FloatDistribution(0.0, 1.0)


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """The distributions of all parameters, by key."""
    return {p.key: distribution(p.domain) for p in space.parameters}


def to_internal(domain: Domain, value: Any) -> Internal | None:
    """A value in the form of `distribution`; a value outside a range becomes the nearer end.

    Returns:
        None for a value that is not among the choices, or not a number.
    """
    match domain:
        case Choice():
            return domain.position(value)
        case Integer() if _is_narrow(domain):
            share = domain.to_unit(value)
            # To the unit interval and back, which moves a value outside of the range to its end.
            return None if share is None else domain.from_unit(share)
        case _:
            return domain.to_unit(value)


def from_internal(domain: Domain, value: Internal) -> Any:
    """The inverse of `to_internal`."""
    match domain:
        case Choice():
            return domain.values[int(value)]
        case Integer() if _is_narrow(domain):
            return int(value)
        case _:
            return domain.from_unit(float(value))


def _is_narrow(domain: Integer) -> bool:
    return domain.high - domain.low < MIN_CONTINUOUS_WIDTH


def internal_values(space: Space, values: Mapping[str, Any]) -> dict[str, Internal] | None:
    """The values of the active parameters in Optuna's form.

    Returns:
        None if a value is missing or outside the choices of the space.
    """
    result: dict[str, Internal] = {}
    for parameter in space.active(values):
        value = to_internal(parameter.domain, values.get(parameter.key))
        if value is None:
            return None
        result[parameter.key] = value
    return result


def middle_values(space: Space) -> dict[str, Internal]:
    """The middle of each domain in Optuna's form, a substitute for inactive parameters."""
    values = {p.key: to_internal(p.domain, p.domain.from_unit(0.5)) for p in space.parameters}
    return {key: value for key, value in values.items() if value is not None}


def finite_values(trial: Trial) -> tuple[float, ...]:
    """The values of a complete trial; empty if a value is not finite.

    A value that is not finite comes from a diverged training: the trial counts as failed.
    """
    return trial.values if all(map(isfinite, trial.values)) else ()


@dataclass(slots=True)
class ConvertedTrials(Generic[T]):
    """A cache of converted trials: each trial is converted once.

    Attributes:
        convert: Converts a trial; None if the model must ignore the trial.
    """

    convert: Callable[[Trial], T | None]
    _known: dict[int, tuple[Trial, T | None]] = field(default_factory=dict)

    def of(self, trials: Sequence[Trial]) -> list[T]:
        """The converted trials, in order of their numbers."""
        forms = (self._form(trial) for trial in sorted(trials, key=lambda trial: trial.number))
        return [form for form in forms if form is not None]

    def _form(self, trial: Trial) -> T | None:
        # Identity first: comparing every value of every trial again would dominate the time.
        before = self._known.get(trial.number)
        if before is not None and (before[0] is trial or before[0] == trial):
            return before[1]
        form = self.convert(trial)
        self._known[trial.number] = trial, form
        return form


class FinishedTrial(FrozenTrial):
    """A trial that has ended."""

    @property
    def constraints(self) -> dict[str, float]:
        """No constraints."""
        # Samplers read this property of every trial many times; Optuna's own version is slow.
        return {}


def frozen_trial(
    number: int,
    params: dict[str, Internal],
    searched: Mapping[str, BaseDistribution],
    *,
    values: Sequence[float] | None = None,
    intermediate: Mapping[int, float] | None = None,
) -> FrozenTrial:
    """A finished trial of Optuna: complete if it has values, otherwise pruned."""
    return FinishedTrial(
        number=number,
        trial_id=number,
        state=State.PRUNED if values is None else State.COMPLETE,
        value=None,
        values=values,
        datetime_start=None,
        datetime_complete=None,
        params=params,
        distributions={key: searched[key] for key in params},
        user_attrs={},
        system_attrs={},
        intermediate_values=dict(intermediate or {}),
    )
