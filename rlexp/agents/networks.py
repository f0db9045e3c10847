"""The network arguments of a policy, in the format of the library."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from annotated_types import Ge

from rlexp.errors import ConfigError
from rlexp.protocol.step_schedule import Stepped, StepSchedule, first_value

if TYPE_CHECKING:
    from torch import nn

Count: TypeAlias = Annotated[int, Ge(1)]
Layers: TypeAlias = tuple[Count, ...]
"""Units of each hidden layer, from the input on; empty for a linear network."""
Activation: TypeAlias = Literal["tanh", "relu", "elu", "leaky_relu", "silu", "gelu"]


def check_layers(
    network: Stepped[Layers] | None,
    actor: Stepped[Layers] | None,
    critic: Stepped[Layers] | None,
) -> None:
    """Refuse contradictory or incomplete layers.

    Raises:
        ConfigError: `network` is set with `actor` or `critic`, or only one of these two is set.
    """
    if network is not None and (actor is not None or critic is not None):
        raise ConfigError(
            "agent.network shapes both actor and critic: set agent.network, or agent.actor and "
            "agent.critic"
        )
    if (actor is None) != (critic is None):
        missing = "critic" if critic is None else "actor"
        raise ConfigError(
            f"agent.{missing} is not set: set both agent.actor and agent.critic, or agent.network"
        )


def network_arguments(
    network: Stepped[Layers] | None,
    actor: Stepped[Layers] | None,
    critic: Stepped[Layers] | None,
    activation: Stepped[Activation] | None,
) -> dict[str, Any]:
    """Return `net_arch` and `activation_fn`, each only if it is set; of schedules, the first values.

    The library names the critic `vf` in on-policy and `qf` in off-policy algorithms, and ignores
    the other name, so both are given.
    """
    shared, pi, qf = (first_value(each) for each in (network, actor, critic))
    layers: dict[str, list[int]] | list[int] | None = None
    if pi is not None and qf is not None:
        layers = {"pi": list(pi), "vf": list(qf), "qf": list(qf)}
    elif shared is not None:
        layers = list(shared)
    kind = first_value(activation)
    return drop_none(
        net_arch=layers, activation_fn=None if kind is None else activation_class(kind)
    )


def network_schedules(agent: Any) -> dict[str, StepSchedule[Any]]:
    """The settings of an agent that change at given steps of a training, by name."""
    # An agent of the user may be another class.
    names = [f.name for f in fields(agent)] if is_dataclass(agent) else []
    values = {name: getattr(agent, name) for name in names}
    return {name: v for name, v in values.items() if isinstance(v, StepSchedule)}


def network_stages(agent: Any) -> tuple[tuple[int, dict[str, Any]], ...]:
    """The arguments of the policy for each part of a training, with the step at which it begins.

    Args:
        agent: The agent, a frozen dataclass with the method `arguments`.

    Returns:
        The parts in order, the first at step 0; empty where the agent does not change.
    """
    schedules = network_schedules(agent)
    steps = sorted({step for schedule in schedules.values() for step in schedule.steps})
    return tuple(
        (step, replace(agent, **{k: v.at(step) for k, v in schedules.items()}).arguments())
        for step in steps
    )


def activation_class(activation: Activation) -> type["nn.Module"]:
    """Return the class of an activation function."""
    from torch import nn

    modules: Mapping[Activation, type[nn.Module]] = {
        "tanh": nn.Tanh,
        "relu": nn.ReLU,
        "elu": nn.ELU,
        "leaky_relu": nn.LeakyReLU,
        "silu": nn.SiLU,
        "gelu": nn.GELU,
    }
    return modules[activation]


def drop_none(**arguments: Any) -> dict[str, Any]:
    """Return the arguments that are not None; for others, the library has defaults."""
    return {name: value for name, value in arguments.items() if value is not None}
