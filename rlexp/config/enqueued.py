"""Configurations that a sweep tries first (`sweep.enqueue`), as values of the searched parameters."""

from collections.abc import Mapping, Sequence
from typing import Any

from rlexp.config.sweep import SweepRequest
from rlexp.config.validate import validate
from rlexp.errors import ConfigError
from rlexp.protocol.space import Choice, Domain, Parameter, Space

KEY = "sweep.enqueue"


def enqueued_parameters(
    request: SweepRequest, allowed: Sequence[str] = ()
) -> tuple[Mapping[str, Any], ...] | None:
    """The parameters of the enqueued configurations, complete; None without any.

    Args:
        request: The sweep.
        allowed: Further packages whose classes `_target_` may name.

    Raises:
        ConfigError: An entry names a parameter that is not searched or not active, lacks a value, or
            has a value outside of the space or an invalid one; there are more entries than trials;
            or the tuner is a grid, which tries every combination.
    """
    entries = request.plan.enqueue
    if not entries:
        return None
    _check_search(request, len(entries))
    complete = []
    for position, entry in enumerate(entries):
        key = f"{KEY}[{position}]"
        parameters = complete_parameters(request.space, _flat(entry), request.default, key)
        try:
            validate(request.configure(parameters), allowed)
        except ConfigError as error:
            raise error.rephrased(f"{key}: {error}") from error
        complete.append(parameters)
    return tuple(complete)


def complete_parameters(
    space: Space, values: Mapping[str, Any], default: Mapping[str, Any], key: str
) -> dict[str, Any]:
    """The values of all active parameters: the given ones, and defaults of the others.

    Args:
        space: The searched space.
        values: Given values by parameter.
        default: The values of the default configuration.
        key: Where the values stand, for errors.

    Raises:
        ConfigError: A parameter is unknown, inactive, without a value, or has a value outside its range.
    """
    for name in values:
        if name not in space.keys:
            raise ConfigError.unknown(
                f"{key}: {name} is not searched", name, space.keys, code="unknown_setting", key=KEY
            )
    complete: dict[str, Any] = {}
    for parameter in space.parameters:
        if parameter.is_active(complete):
            complete[parameter.key] = _value(parameter, values, default, key)
        elif parameter.key in values:
            conditions = " and ".join(
                f"{name}={'|'.join(map(str, allowed))}" for name, allowed in parameter.when.items()
            )
            raise ConfigError(
                f"{key}: {parameter.key} is searched with {conditions} only: leave it out, or add that",
                key=KEY,
            )
    return complete


def _value(
    parameter: Parameter, values: Mapping[str, Any], default: Mapping[str, Any], key: str
) -> Any:
    name, domain = parameter.key, parameter.domain
    if name not in values and name not in default:
        raise ConfigError(
            f"{key} has no value of {name}, which has no default: add {name} ({_range(domain)})",
            key=KEY,
        )
    value = values.get(name, default.get(name))
    if name in values and not _is_inside(domain, value):
        raise ConfigError(
            f"{key}: {name}={value} is outside of the space: {_range(domain)}",
            code="out_of_range",
            key=KEY,
            allowed=[_range(domain)],
        )
    return value


def _is_inside(domain: Domain, value: Any) -> bool:
    if isinstance(domain, Choice):
        return domain.position(value) is not None
    return domain.to_unit(value) is not None and domain.low <= value <= domain.high


def _range(domain: Domain) -> str:
    if isinstance(domain, Choice):
        return ", ".join(map(str, domain.values))
    return f"{domain.low:g} to {domain.high:g}"


def _check_search(request: SweepRequest, count: int) -> None:
    if request.tuner["_target_"].rsplit(".", 1)[-1] == "Grid":
        raise ConfigError(
            f"{KEY} does not fit tuner=grid, which tries every combination once: leave it out, or "
            "choose another tuner",
            key=KEY,
        )
    if count >= request.plan.trials:
        raise ConfigError(
            f"{KEY} has {count} configurations, and sweep.trials={request.plan.trials} tries the "
            f"default and {request.plan.trials - 1} more: set sweep.trials={count + 1} or more",
            key=KEY,
        )


def _flat(entry: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values by dotted key; `{algorithm: {gamma: 0.9}}` means the same as `{algorithm.gamma: 0.9}`."""
    values: dict[str, Any] = {}
    for key, value in entry.items():
        name = f"{prefix}{key}"
        values |= _flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return values
