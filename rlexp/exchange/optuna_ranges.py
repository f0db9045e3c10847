"""A search space as Optuna's distributions, and values as they hold them."""

from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any

from rlexp.protocol.identity import canonical
from rlexp.protocol.space import Choice, Domain, Integer, Real, Space

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
        placed = place(parameter.domain, plain, default.get(parameter.key))
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


def place(domain: Domain, within: Any, value: Any) -> tuple[Any, "BaseDistribution"] | None:
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
