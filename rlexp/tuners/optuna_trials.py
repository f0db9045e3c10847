"""Trials and spaces in Optuna's terms. Imports Optuna: import it late."""

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
"""A share of a range, a whole number, or the position of a choice."""

WIDE = 100
"""Steps from which on a range of whole numbers is as good as continuous."""


def distribution(domain: Domain) -> BaseDistribution:
    """Where a sampler searches for a domain's values.

    Ranges become the unit interval, whatever their scale: the samplers are equivariant under
    it, and it knows `flipped_log` as well. Choices become their positions, for they may be lists.
    """
    match domain:
        case Choice():
            return CategoricalDistribution(range(len(domain.values)))
        case Integer() if _is_narrow(domain):
            return IntDistribution(domain.low, domain.high, log=domain.log)
        case _:
            return FloatDistribution(0.0, 1.0)


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """Those of all parameters."""
    return {p.key: distribution(p.domain) for p in space.parameters}


def to_internal(domain: Domain, value: Any) -> Internal | None:
    """A value as `distribution` has it; one outside goes to the nearer end.

    Returns:
        Nothing for what is no choice or no number.
    """
    match domain:
        case Choice():
            return domain.position(value)
        case Integer() if _is_narrow(domain):
            share = domain.to_unit(value)
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
    return domain.high - domain.low < WIDE


def internals(space: Space, values: Mapping[str, Any]) -> dict[str, Internal] | None:
    """The values of the active parameters as the samplers have them.

    Returns:
        Nothing where one of them is missing or has a value that the space does not know.
    """
    found: dict[str, Internal] = {}
    for parameter in space.active(values):
        value = to_internal(parameter.domain, values.get(parameter.key))
        if value is None:
            return None
        found[parameter.key] = value
    return found


def middles(space: Space) -> dict[str, Internal]:
    """The middle of each domain as the samplers have it: stands for what is not there."""
    values = {p.key: to_internal(p.domain, p.domain.from_unit(0.5)) for p in space.parameters}
    return {key: value for key, value in values.items() if value is not None}


def finite_values(trial: Trial) -> tuple[float, ...]:
    """The values of a complete trial; none where one of them is no finite number.

    Such a number is a training that broke, so that the trial counts as failed.
    """
    return trial.values if all(map(isfinite, trial.values)) else ()


@dataclass(slots=True)
class Converted(Generic[T]):
    """Trials in another form, each converted once.

    Attributes:
        convert: Gives the other form of a trial, or nothing where the model leaves it out.
    """

    convert: Callable[[Trial], T | None]
    _known: dict[int, tuple[Trial, T | None]] = field(default_factory=dict)

    def of(self, trials: Sequence[Trial]) -> list[T]:
        """The other forms, in order of the trials' numbers."""
        forms = (self._form(trial) for trial in sorted(trials, key=lambda trial: trial.number))
        return [form for form in forms if form is not None]

    def _form(self, trial: Trial) -> T | None:
        before = self._known.get(trial.number)
        if before is not None and (before[0] is trial or before[0] == trial):
            return before[1]
        form = self.convert(trial)
        self._known[trial.number] = trial, form
        return form


class Finished(FrozenTrial):
    """A trial that has ended."""

    @property
    def constraints(self) -> dict[str, float]:
        """None. Samplers ask each trial for them many times, and searching them takes long."""
        return {}


def frozen(
    number: int,
    params: dict[str, Internal],
    searched: Mapping[str, BaseDistribution],
    *,
    values: Sequence[float] | None = None,
    intermediate: Mapping[int, float] | None = None,
) -> FrozenTrial:
    """A trial as Optuna keeps it: complete if it has values, pruned otherwise."""
    return Finished(
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
