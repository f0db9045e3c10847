"""Configurations that a user proposes for a sweep, as values of the searched parameters.

They come from `sweep.enqueue`, from the guesses of priors, and from `rlexp sweep --try`.
"""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from rlexp.config.overrides import parse_overrides
from rlexp.config.sweep import SweepRequest
from rlexp.config.validate import validate
from rlexp.errors import ConfigError
from rlexp.protocol.space import Parameter, Space

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
    return tuple(
        _valid_parameters(request, _flat(entry), f"{KEY}[{position}]", allowed)
        for position, entry in enumerate(entries)
    )


def guess_parameters(
    request: SweepRequest, allowed: Sequence[str] = ()
) -> Mapping[str, Any] | None:
    """The parameters of the guesses of all priors, others with their defaults; None without a prior.

    Args:
        request: The sweep.
        allowed: Further packages whose classes `_target_` may name.

    Raises:
        ConfigError: The guesses do not fit together, or the tuner is a grid.
    """
    guesses = {p.key: p.prior.guess for p in request.space.parameters if p.prior is not None}
    if not guesses:
        return None
    key = "sweep.space: the guesses of the priors"
    refuse_grid(request, "a prior")
    default = {**_middle(request.space), **request.default}
    # A guess of a parameter that is not active with the other guesses is for other trials.
    active: dict[str, Any] = {}
    for parameter in request.space.parameters:
        if parameter.is_active(active):
            active[parameter.key] = guesses.get(parameter.key, default[parameter.key])
    return _valid_parameters(request, active, key, allowed)


def tried_parameters(
    request: SweepRequest, words: Sequence[str], allowed: Sequence[str] = ()
) -> list[Mapping[str, Any]]:
    """The parameters of the configurations of `--try`, complete.

    Args:
        request: The sweep.
        words: Each with the values of one configuration: `algorithm.gamma=0.9 algorithm.n_epochs=4`.
        allowed: Further packages whose classes `_target_` may name.

    Raises:
        ConfigError: A word cannot be read, or names a parameter or a value that the space does not have;
            or the tuner has no place for such a trial.
    """
    if words:
        refuse_grid(request, "--try")
        refuse_rungs(request)
    return [_valid_parameters(request, _values(word), "--try", allowed) for word in words]


def _values(word: str) -> dict[str, Any]:
    """The values of one configuration of `--try`."""
    try:
        pairs = shlex.split(word)
    except ValueError as error:
        raise ConfigError(f"--try {word!r} cannot be read: {error}", key="--try") from error
    if not pairs or not all("=" in pair for pair in pairs):
        raise ConfigError(
            f"--try {word!r} must be KEY=VALUE, or several of them with spaces between: "
            "--try 'algorithm.gamma=0.9 algorithm.n_epochs=4'",
            key="--try",
        )
    values = {}
    for parsed in parse_overrides(pairs):
        if parsed.is_sweep_override():
            raise ConfigError(
                f"--try {word!r} has several values of {parsed.key_or_group}: write --try once for "
                "each configuration",
                key="--try",
            )
        values[parsed.key_or_group] = parsed.value()
    return values


def _valid_parameters(
    request: SweepRequest, values: Mapping[str, Any], key: str, allowed: Sequence[str]
) -> dict[str, Any]:
    """The complete parameters of a configuration that can be built."""
    parameters = complete_parameters(request.space, values, request.default, key)
    try:
        validate(request.configure(parameters), allowed)
    except ConfigError as error:
        raise error.rephrased(f"{key}: {error}") from error
    return parameters


def _middle(space: Space) -> dict[str, Any]:
    return {p.key: p.domain.from_unit(0.5) for p in space.parameters}


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
                f"{key}: {name} is not searched",
                name,
                space.keys,
                code="unknown_setting",
                key=key.partition("[")[0],
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
                key=key.partition("[")[0],
            )
    return complete


def _value(
    parameter: Parameter, values: Mapping[str, Any], default: Mapping[str, Any], key: str
) -> Any:
    name, domain = parameter.key, parameter.domain
    if name not in values and name not in default:
        raise ConfigError(
            f"{key} has no value of {name}, which has no default: add {name} ({domain.text})",
            key=key.partition("[")[0],
        )
    value = values.get(name, default.get(name))
    if name in values and not domain.holds(value):
        raise ConfigError(
            f"{key}: {name}={value} is outside of the space: {domain.text}",
            code="out_of_range",
            key=key.partition("[")[0],
            allowed=[domain.text],
        )
    return value


def refuse_grid(request: SweepRequest, key: str) -> None:
    """Refuse a grid, which tries every combination once and has no place for another trial.

    Raises:
        ConfigError: The tuner is a grid.
    """
    if request.tuner["_target_"].rsplit(".", 1)[-1] == "Grid":
        raise ConfigError(
            f"{key} does not fit tuner=grid, which tries every combination once: leave it out, or "
            "choose another tuner",
            key=key,
        )


def refuse_rungs(request: SweepRequest) -> None:
    """Refuse `--try` where the steps of a trial are those of its place.

    Raises:
        ConfigError: The tuner works in rungs.
    """
    if request.tuner["_target_"].rsplit(".", 1)[-1] == "DEHB":
        raise ConfigError(
            "--try does not fit tuner=dehb, which compares trials on rungs of equal steps: begin another "
            f"sweep with {KEY}=[{{KEY: VALUE}}], or choose another tuner",
            key="--try",
        )


def _check_search(request: SweepRequest, count: int) -> None:
    refuse_grid(request, KEY)
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
