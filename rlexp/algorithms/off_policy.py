"""The base of algorithms that learn from a replay buffer."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from rlexp.algorithms.library import LibraryAlgorithm, check_one_network, construct
from rlexp.algorithms.noise import ExplorationNoise
from rlexp.algorithms.ranges import (
    Count,
    CountOrAll,
    Discount,
    NonNegative,
    Share,
    TargetEntropy,
    Temperature,
    TrainFrequency,
    ZeroOrMore,
)
from rlexp.algorithms.schedules import HyperparameterSchedule, Stepped, StepSchedule
from rlexp.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
    from stable_baselines3.common.vec_env import VecEnv


class ChosenBuffer(Protocol):
    """The class of a replay buffer, and its arguments besides those of the algorithm."""

    @property
    def kind(self) -> type[Any]:
        """A class of the library, or one derived from it."""
        ...

    @property
    def arguments(self) -> "Mapping[str, Any]":
        """Keyword arguments of the class."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OffPolicy(LibraryAlgorithm):
    """An algorithm that learns from minibatches of stored transitions."""

    buffer_size: Count
    """Number of transitions that the replay buffer holds."""
    learning_starts: ZeroOrMore
    """Steps of uniform random actions before learning starts."""
    batch_size: Count
    """Transitions in a minibatch."""
    gamma: Stepped[Discount]
    """Discount factor, per step."""
    train_freq: TrainFrequency
    """Steps between two updates, or a number and unit: `[1, episode]`."""
    gradient_steps: CountOrAll
    """Gradient steps at an update; -1 takes one per collected step."""
    replay_buffer_kwargs: dict[str, Any] | None
    """Further arguments of the replay buffer (`handle_timeout_termination`)."""
    optimize_memory_usage: bool
    """Whether the buffer stores each observation once; needs
    `replay_buffer_kwargs={handle_timeout_termination: false}`."""
    n_steps: Count
    """Number of reward steps before bootstrapping (n-step returns)."""

    def build(
        self,
        policy: str,
        arguments: dict[str, Any],
        environment: "VecEnv",
        *,
        seed: int,
        device: str,
        replay: ChosenBuffer | None = None,
    ) -> "OffPolicyAlgorithm":
        """Return a fresh learner on `environment`, seeded with `seed` (0 … 2**32 - 1).

        Args:
            policy: The name of the policy.
            arguments: Keyword arguments of the policy.
            environment: The training environments.
            seed: Seed of the learner.
            device: Where the learner computes.
            replay: The replay buffer to build; None leaves it to the library.

        Raises:
            ConfigError: A hyperparameter, the policy, one of its arguments or a space does not fit.
        """
        self.check(environment.num_envs)
        self.check_network(arguments)
        library: Any = self.learner_class()
        of_buffer = self.replay_buffer_kwargs or {}
        besides: dict[str, Any] = {}
        if replay is not None:
            kwargs = {**of_buffer, **replay.arguments}
            besides = {"replay_buffer_class": replay.kind, "replay_buffer_kwargs": kwargs}
        model: OffPolicyAlgorithm = construct(
            library,
            self,
            policy,
            arguments,
            environment,
            seed=seed,
            device=device,
            besides=besides,
        )
        if replay is not None:
            # The buffer is made. A saved policy must load without the environment that HER asks for,
            # and without the classes of rlexp.
            model.replay_buffer_class, model.replay_buffer_kwargs = None, dict(of_buffer)
        return model

    def check(self, environments: int) -> None:
        """Refuse one update per episode with several environments, whose episodes end separately.

        Also refuse settings of the replay buffer that the library cannot combine.

        Raises:
            ConfigError: `train_freq` counts episodes, or the buffer cannot save memory.
        """
        timeouts = (self.replay_buffer_kwargs or {}).get("handle_timeout_termination", True)
        if self.optimize_memory_usage and timeouts:
            raise ConfigError(
                "algorithm.optimize_memory_usage=true cannot tell time limits from ends: add "
                "'algorithm.replay_buffer_kwargs={handle_timeout_termination: false}', or set "
                "algorithm.optimize_memory_usage=false"
            )
        frequency = self.train_freq
        if environments > 1 and isinstance(frequency, tuple) and frequency[1] == "episode":
            raise ConfigError(
                f"algorithm.train_freq={list(frequency)} counts episodes, which needs one "
                f"environment, not {environments}: set environment.vector.count=1 or count steps"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepQLearning(OffPolicy):
    """DQN and its variants: a network of action values, and random actions for exploration."""

    actions: ClassVar[tuple[str, ...]] = ("Discrete",)

    tau: Stepped[Share]
    """How far a target network moves towards its network at an update; 1 copies it."""
    target_update_interval: Count
    """Steps between two updates of the target network."""
    exploration_fraction: Share
    """Fraction of training over which the rate of random actions falls."""
    exploration_initial_eps: Discount
    """Probability of a random action at the start."""
    exploration_final_eps: Discount
    """Probability of a random action after `exploration_fraction`."""

    def length_settings(self) -> tuple[str, ...]:
        """The settings whose effect depends on the length of training, with the exploration."""
        # Not `super()`, which knows only the class from before `slots` replaced it.
        settings = OffPolicy.length_settings(self)
        return (*settings, "exploration_fraction") if self._exploration().changes else settings

    def restarted(self, share: float) -> Self:
        """The algorithm whose schedules and exploration begin again after a fraction of training.

        Raises:
            ConfigError: A schedule cannot begin again.
        """
        exploration = self._exploration().restarted(share)
        return replace(
            OffPolicy.restarted(self, share),
            exploration_initial_eps=exploration.initial,
            exploration_fraction=exploration.until,
        )

    def _exploration(self) -> HyperparameterSchedule:
        """The rate of random actions as a schedule, as the library computes it."""
        return HyperparameterSchedule(
            shape="linear",
            initial=self.exploration_initial_eps,
            final=self.exploration_final_eps,
            until=self.exploration_fraction,
        )

    def check_network(self, arguments: dict[str, Any]) -> None:
        """Refuse separate layers for actor and critic.

        Raises:
            ConfigError: `net_arch` has both.
        """
        check_one_network(self, arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffPolicyActorCritic(OffPolicy):
    """An algorithm for continuous actions that learns an actor through its critics."""

    action_noise: ExplorationNoise | None
    """Noise added to actions while training; null adds none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaximumEntropy(OffPolicyActorCritic):
    """SAC and its variants: a stochastic actor that maximises return and entropy."""

    ent_coef: Temperature | StepSchedule[NonNegative]
    """Weight of entropy against return: fixed, `auto` (learned) or `auto_0.1` (learned, from 0.1)."""
    target_entropy: TargetEntropy
    """Entropy that a learned `ent_coef` aims at, in nats; `auto` is minus the action dimension."""
    use_sde: bool
    """Whether exploration noise is state-dependent (gSDE) instead of drawn at each step."""
    sde_sample_freq: CountOrAll
    """Steps between two draws of the gSDE noise; -1 draws once per rollout."""
    use_sde_at_warmup: bool
    """Whether gSDE explores before `learning_starts`, instead of uniform random actions."""
