"""The base of all algorithms of stable-baselines3 and sb3-contrib: builds a learner."""

import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from rlexp.algorithms import Algorithm, shown_name
from rlexp.algorithms.noise import ExplorationNoise, make_action_noise
from rlexp.algorithms.schedules import HyperparameterSchedule, Scheduled, in_library_terms
from rlexp.errors import ConfigError, did_you_mean
from rlexp.installation_way import install_command
from rlexp.protocol.step_schedule import StepSchedule, first_value

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.vec_env import VecEnv

Learner = TypeVar("Learner", bound="BaseAlgorithm")

NOT_OF_THE_LIBRARY = frozenset({"start_from", "experience"})
"""Settings of an algorithm that are no arguments of the library's class."""
TREE_POLICY = "TreePolicy"
"""A policy of gradient-boosted trees, which rlexp adds to those of the library."""
_FROM_ALGORITHM = {"self", "observation_space", "action_space", "lr_schedule", "use_sde"}
"""Arguments of a policy that the algorithm passes itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryAlgorithm:
    """Base of algorithms of the library; hyperparameters have the names of the library.

    A subclass returns the class of the library (`learner_class`), adds its hyperparameters as
    fields, and extends `check` and `check_network` if its values can contradict each other.
    """

    policies: ClassVar[tuple[str, ...]] = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy")
    actions: ClassVar[tuple[str, ...]] = ("Box",)
    networks_can_change: ClassVar[bool] = True
    """Whether the network can change between two rollouts."""

    learning_rate: Scheduled
    """Step size of the optimiser; a number or a schedule."""
    start_from: str | None = None
    """Run (`EXPERIMENT/RUN`) whose final policy the training begins with; records hold its digest."""

    @staticmethod
    def learner_class() -> type["BaseAlgorithm"]:
        """Return the learner class of the library."""
        raise NotImplementedError

    def check(self, environments: int) -> None:
        """Accept every number of environments."""

    def check_network(self, arguments: dict[str, Any]) -> None:
        """Accept every network; `arguments` are the keyword arguments of the policy."""

    def length_settings(self) -> tuple[str, ...]:
        """The settings whose effect depends on the length of training: schedules that change."""
        return tuple(f.name for f in fields(self) if _changes(getattr(self, f.name)))

    def step_schedules(self) -> dict[str, StepSchedule[Any]]:
        """The hyperparameters that change at given steps, by name."""
        names = {f.name for f in fields(self)} - NOT_OF_THE_LIBRARY
        values = {name: getattr(self, name) for name in sorted(names)}
        return {name: v for name, v in values.items() if isinstance(v, StepSchedule)}

    def restarted(self, share: float) -> Self:
        """The algorithm whose schedules begin again after a fraction of training, in [0, 1).

        Raises:
            ConfigError: A schedule cannot begin again.
        """
        restarted: dict[str, Any] = {
            f.name: schedule.restarted(share)
            for f in fields(self)
            if isinstance(schedule := getattr(self, f.name), HyperparameterSchedule)
        }
        return replace(self, **restarted)

    def build(
        self,
        policy: str,
        arguments: dict[str, Any],
        environment: "VecEnv",
        *,
        seed: int,
        device: str,
    ) -> "BaseAlgorithm":
        """Return a fresh learner on `environment`, seeded with `seed` (0 … 2**32 - 1).

        Raises:
            ConfigError: A hyperparameter, the policy, one of its arguments or a space does not
                fit.
        """
        self.check(environment.num_envs)
        self.check_network(arguments)
        return construct(
            self.learner_class(), self, policy, arguments, environment, seed=seed, device=device
        )


def _changes(value: Any) -> bool:
    return isinstance(value, HyperparameterSchedule) and value.changes


def construct(
    library: type[Learner],
    member: Any,
    policy: str,
    arguments: Mapping[str, Any],
    environment: "VecEnv",
    *,
    seed: int,
    device: str,
    besides: Mapping[str, Any] | None = None,
) -> Learner:
    """Return a learner of class `library` with the fields of `member` as its hyperparameters.

    `besides` holds arguments of the library that are no hyperparameters of `member`.

    Raises:
        ConfigError: The policy, one of its arguments, a space or a value does not fit.
    """
    # Checked here, because the errors of the library for these cases are hard to read.
    _check_spaces(member, policy, environment)
    policies = {**library.policy_aliases, **_policies_of_rlexp(policy)}
    _check_policy(member, policies, policy, arguments)
    shape = environment.action_space.shape or ()
    left_out = NOT_OF_THE_LIBRARY | getattr(member, "not_of_the_library", frozenset())
    names = [f.name for f in fields(member) if f.name not in left_out]
    values = {name: _in_library_terms(getattr(member, name), shape) for name in names}
    values |= besides or {}
    try:
        return library(
            policies[policy],
            environment,
            # A copy, because the library changes the dictionary.
            policy_kwargs=deepcopy(dict(arguments)),
            verbose=0,
            seed=seed,
            device=device,
            **values,
        )
    # stable-baselines3 checks many of its arguments with assertions.
    except (AssertionError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        settings = {f.name: getattr(member, f.name) for f in fields(member)}
        raise ConfigError(
            f"{shown_name(member)} refuses this configuration: {reason}{_named_in(reason, settings)}"
        ) from error


def _named_in(reason: str, settings: Mapping[str, Any]) -> str:
    """The settings that an error of the library names, as the words to change."""
    words = set(re.findall(r"\w+", reason))
    inner = {
        f"algorithm.{key}.{name}"
        for key, value in settings.items()
        if isinstance(value, Mapping)
        for name in value
        if name in words
    }
    named = sorted(inner | {f"algorithm.{key}" for key in settings if key in words})
    return f"; change {' or '.join(named)}" if named else ""


def check_one_network(algorithm: Algorithm, arguments: Mapping[str, Any]) -> None:
    """Refuse separate layers for actor and critic if the policy is one network."""
    if isinstance(arguments.get("net_arch"), Mapping):
        raise ConfigError(
            f"{shown_name(algorithm)} has a single network without actor and critic: "
            "set agent.network instead of agent.actor and agent.critic"
        )


def _in_library_terms(value: Any, shape: tuple[int, ...]) -> Any:
    if isinstance(value, HyperparameterSchedule):
        return in_library_terms(value)
    if isinstance(value, ExplorationNoise):
        return make_action_noise(value, shape)
    # The training sets the later values itself, between two rollouts.
    return first_value(value)


def _check_spaces(member: Algorithm, policy: str, environment: "VecEnv") -> None:
    action = _kinds(environment.action_space)
    if not action.intersection(member.actions):
        raise ConfigError(
            f"{shown_name(member)} does not fit {environment.action_space} actions: "
            f"it takes {', '.join(member.actions)}"
        )
    dictionary = "Dict" in _kinds(environment.observation_space)
    if policy.startswith("MultiInput") != dictionary:
        raise ConfigError(
            f"{policy} does not fit {environment.observation_space} observations: a Dict needs "
            "agent=multi_input (or agent=lstm agent.input=multi_input), and nothing else does"
        )


def _kinds(space: object) -> set[str]:
    # By name and with base classes, so that this module needs no import of Gymnasium.
    return {kind.__name__ for kind in type(space).__mro__}


def _policies_of_rlexp(policy: str) -> dict[str, type[Any]]:
    """The policy of this name that rlexp adds to those of the library, if it adds one."""
    if policy != TREE_POLICY:
        return {}
    try:
        from rlexp.algorithms.tree_policy import TreePolicy
    except ModuleNotFoundError as error:
        raise ConfigError.missing_package(
            "agent=gbrl needs a package that is not installed", install_command("gbrl")
        ) from error
    return {TREE_POLICY: TreePolicy}


def _check_policy(
    member: Algorithm, policies: Mapping[str, type[Any]], policy: str, arguments: Mapping[str, Any]
) -> None:
    if policy not in policies:
        raise ConfigError(
            f"{shown_name(member)} has no {policy}: it takes {', '.join(sorted(policies))}"
        )
    # The TypeError of the library for an unknown argument would not list the valid ones.
    allowed = sorted(set(signature(policies[policy].__init__).parameters) - _FROM_ALGORITHM)
    unknown = [name for name in arguments if name not in allowed]
    if unknown:
        raise ConfigError(
            f"{policy} of {shown_name(member)} does not take "
            + ", ".join(f"'{name}'{did_you_mean(name, allowed)}" for name in unknown)
            + f" (set by agent or agent.policy_kwargs); it takes {', '.join(allowed)}"
        )
