"""From settings to a learner of stable-baselines3 or sb3-contrib, with mistakes named."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import fields
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar

from rlexp.algorithms.noise import Noise, action_noise
from rlexp.algorithms.schedules import Schedule, in_library_terms
from rlexp.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.vec_env import VecEnv

Learner = TypeVar("Learner", bound="BaseAlgorithm")

_FROM_ALGORITHM = {"self", "observation_space", "action_space", "lr_schedule", "use_sde"}
"""Arguments of a policy that the algorithm itself gives it."""


def construct(
    library: type[Learner],
    member: Any,
    policy: str,
    arguments: Mapping[str, Any],
    environment: "VecEnv",
    *,
    seed: int,
    device: str,
) -> Learner:
    """Return a learner of class `library` with the fields of `member` as its hyperparameters.

    Raises:
        ConfigError: The policy, one of its arguments, a space or a value does not fit.
    """
    _check_spaces(library.__name__, member.actions, policy, environment)
    _check_policy(library, policy, arguments)
    shape = environment.action_space.shape or ()
    values = {f.name: _in_library_terms(getattr(member, f.name), shape) for f in fields(member)}
    try:
        return library(
            policy,
            environment,
            policy_kwargs=deepcopy(dict(arguments)),
            verbose=0,
            seed=seed,
            device=device,
            **values,
        )
    except (AssertionError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"{library.__name__} refuses this configuration: {reason}") from error


def check_rollout(member: Any, environments: int) -> None:
    """Refuse a rollout that is too short for its minibatches.

    Raises:
        ConfigError: `batch_size` exceeds the rollout, or advantages of one step are normalised.
    """
    size = member.n_steps * environments
    rollout = f"n_steps * environments = {member.n_steps} * {environments} = {size}"
    batch = getattr(member, "batch_size", None)
    if batch is not None and batch > size:
        raise ConfigError(
            f"algorithm.batch_size={batch} is more than a rollout holds ({rollout}): "
            f"set batch_size to {size} or less, or raise n_steps"
        )
    if member.normalize_advantage and min(size, batch or size) < 2:
        raise ConfigError(
            f"one advantage cannot be normalised (batch_size={batch}, {rollout}): "
            "use 2 or more of each, or set algorithm.normalize_advantage=false"
        )


def check_last_minibatch(member: Any, environments: int) -> None:
    """Refuse minibatches that leave one lone step over: its normalised advantage is NaN."""
    size, batch = member.n_steps * environments, member.batch_size
    if member.normalize_advantage and batch is not None and size % batch == 1:
        raise ConfigError(
            f"algorithm.batch_size={batch} leaves a minibatch of one step of n_steps * "
            f"environments = {size}, whose advantage cannot be normalised: use a batch_size "
            "that divides it"
        )


def check_train_frequency(member: Any, environments: int) -> None:
    """Refuse training once an episode on several environments, whose episodes end apart."""
    frequency = member.train_freq
    if environments > 1 and isinstance(frequency, tuple) and frequency[1] == "episode":
        raise ConfigError(
            f"algorithm.train_freq={list(frequency)} counts episodes, which needs one "
            f"environment, not {environments}: set environment.vector.count=1 or count steps"
        )


def check_one_network(library: type["BaseAlgorithm"], arguments: Mapping[str, Any]) -> None:
    """Refuse an actor and a critic where the policy is one network."""
    if isinstance(arguments.get("net_arch"), Mapping):
        raise ConfigError(
            f"{library.__name__} has one network, neither actor nor critic: "
            "set agent.network instead of agent.actor and agent.critic"
        )


def _in_library_terms(value: Any, shape: tuple[int, ...]) -> Any:
    if isinstance(value, Schedule):
        return in_library_terms(value)
    if isinstance(value, Noise):
        return action_noise(value, shape)
    return value


def _check_spaces(
    library: str, actions: tuple[str, ...], policy: str, environment: "VecEnv"
) -> None:
    action = _kinds(environment.action_space)
    if not action.intersection(actions):
        raise ConfigError(
            f"{library} does not fit {environment.action_space} actions: "
            f"it takes {', '.join(actions)}"
        )
    dictionary = "Dict" in _kinds(environment.observation_space)
    if policy.startswith("MultiInput") != dictionary:
        raise ConfigError(
            f"{policy} does not fit {environment.observation_space} observations: a Dict needs "
            "agent=multi_input (or agent=lstm agent.input=multi_input), and nothing else does"
        )


def _kinds(space: object) -> set[str]:
    return {kind.__name__ for kind in type(space).__mro__}


def _check_policy(
    library: type["BaseAlgorithm"], policy: str, arguments: Mapping[str, Any]
) -> None:
    policies = library.policy_aliases
    if policy not in policies:
        raise ConfigError(
            f"{library.__name__} has no {policy}: it takes {', '.join(sorted(policies))}"
        )
    allowed = sorted(set(signature(policies[policy].__init__).parameters) - _FROM_ALGORITHM)
    unknown = [name for name in arguments if name not in allowed]
    if unknown:
        raise ConfigError(
            f"{policy} of {library.__name__} does not take "
            + ", ".join(f"'{name}'{did_you_mean(name, allowed)}" for name in unknown)
            + f" (set by agent or agent.policy_kwargs); it takes {', '.join(allowed)}"
        )
