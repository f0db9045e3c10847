"""What algorithms share that learn from a replay buffer."""

from dataclasses import dataclass
from typing import Any, ClassVar

from rlexp.algorithms.library import LibraryAlgorithm, check_one_network
from rlexp.algorithms.noise import Noise
from rlexp.algorithms.ranges import (
    Count,
    CountOrAll,
    Discount,
    Share,
    TargetEntropy,
    Temperature,
    TrainFrequency,
    ZeroOrMore,
)
from rlexp.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class OffPolicy(LibraryAlgorithm):
    """An algorithm that learns from minibatches of what it did earlier."""

    buffer_size: Count
    """Transitions that the replay buffer holds."""
    learning_starts: ZeroOrMore
    """Steps of uniform random actions before learning starts."""
    batch_size: Count
    """Transitions in a minibatch."""
    gamma: Discount
    """Discount factor, per step."""
    train_freq: TrainFrequency
    """Steps between two updates, or a number and unit: `[1, episode]`."""
    gradient_steps: CountOrAll
    """Gradient steps at an update; -1 takes as many as steps were collected."""
    replay_buffer_kwargs: dict[str, Any] | None
    """Further arguments of the replay buffer (`handle_timeout_termination`)."""
    optimize_memory_usage: bool
    """Whether the buffer stores each observation once; needs
    `replay_buffer_kwargs={handle_timeout_termination: false}`."""
    n_steps: Count
    """Steps of reward before the bootstrap (n-step returns)."""

    def check(self, environments: int) -> None:
        """Refuse training once an episode on several environments, whose episodes end apart.

        Raises:
            ConfigError: `train_freq` counts episodes.
        """
        frequency = self.train_freq
        if environments > 1 and isinstance(frequency, tuple) and frequency[1] == "episode":
            raise ConfigError(
                f"algorithm.train_freq={list(frequency)} counts episodes, which needs one "
                f"environment, not {environments}: set environment.vector.count=1 or count steps"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepQLearning(OffPolicy):
    """DQN and its variants: one network of action values, and random actions to explore."""

    actions: ClassVar[tuple[str, ...]] = ("Discrete",)

    tau: Share
    """How far a target network moves towards its network at an update; 1 copies it."""
    target_update_interval: Count
    """Steps between two updates of the target network."""
    exploration_fraction: Share
    """Fraction of training over which the rate of random actions falls."""
    exploration_initial_eps: Discount
    """Probability of a random action at the start."""
    exploration_final_eps: Discount
    """Probability of a random action after `exploration_fraction`."""

    def check_network(self, arguments: dict[str, Any]) -> None:
        """Refuse an actor and a critic.

        Raises:
            ConfigError: `net_arch` has both.
        """
        check_one_network(self.learner_class(), arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffPolicyActorCritic(OffPolicy):
    """An algorithm for continuous actions that learns an actor through its critics."""

    action_noise: Noise | None
    """Noise added to actions while training; null adds none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaximumEntropy(OffPolicyActorCritic):
    """SAC and its variants: a stochastic actor that maximises return and entropy."""

    ent_coef: Temperature
    """Weight of entropy against return: fixed, `auto` (learned) or `auto_0.1` (learned, from 0.1)."""
    target_entropy: TargetEntropy
    """Entropy that a learned `ent_coef` aims at, in nats; `auto` is minus the action dimension."""
    use_sde: bool
    """Whether exploration noise depends on the state (gSDE) instead of being drawn each step."""
    sde_sample_freq: CountOrAll
    """Steps between two draws of the gSDE noise; -1 draws once a rollout."""
    use_sde_at_warmup: bool
    """Whether gSDE explores before `learning_starts`, where actions are else uniform."""
