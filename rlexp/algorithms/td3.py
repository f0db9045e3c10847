"""TD3."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rlexp.algorithms.library import check_train_frequency, construct
from rlexp.algorithms.noise import Noise
from rlexp.algorithms.ranges import (
    Count,
    CountOrAll,
    Discount,
    NonNegative,
    Share,
    TrainFrequency,
    ZeroOrMore,
)
from rlexp.algorithms.schedules import Scheduled

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.vec_env import VecEnv


@dataclass(frozen=True, slots=True, kw_only=True)
class TD3:
    """Twin delayed DDPG: two critics, delayed and smoothed policy updates.

    Fujimoto et al. 2018, Addressing Function Approximation Error, arXiv:1802.09477.
    """

    policies: ClassVar[tuple[str, ...]] = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy")
    actions: ClassVar[tuple[str, ...]] = ("Box",)

    learning_rate: Scheduled
    """Step size of the optimiser; a number or a schedule."""
    buffer_size: Count
    """Transitions that the replay buffer holds."""
    learning_starts: ZeroOrMore
    """Steps of uniform random actions before learning starts."""
    batch_size: Count
    """Transitions in a minibatch."""
    tau: Share
    """How far a target network moves towards its network at an update; 1 copies it."""
    gamma: Discount
    """Discount factor, per step."""
    train_freq: TrainFrequency
    """Steps between two updates, or a number and unit: `[1, episode]`."""
    gradient_steps: CountOrAll
    """Gradient steps at an update; -1 takes as many as steps were collected."""
    action_noise: Noise | None
    """Noise added to actions while training; null adds none."""
    replay_buffer_kwargs: dict[str, Any] | None
    """Further arguments of the replay buffer (`handle_timeout_termination`)."""
    optimize_memory_usage: bool
    """Whether the buffer stores each observation once; needs
    `replay_buffer_kwargs={handle_timeout_termination: false}`."""
    n_steps: Count
    """Steps of reward before the bootstrap (n-step returns)."""
    policy_delay: Count
    """Critic updates for each update of the actor."""
    target_policy_noise: NonNegative
    """Deviation of the noise that smooths the target policy."""
    target_noise_clip: NonNegative
    """Largest size of that noise."""

    def check(self, environments: int) -> None:
        """Refuse settings that need another number of environments."""
        check_train_frequency(self, environments)

    def build(
        self,
        policy: str,
        arguments: dict[str, Any],
        environment: "VecEnv",
        *,
        seed: int,
        device: str,
    ) -> "BaseAlgorithm":
        """Return a fresh learner on `environment`, seeded with `seed`."""
        import stable_baselines3

        self.check(environment.num_envs)
        return construct(
            stable_baselines3.TD3, self, policy, arguments, environment, seed=seed, device=device
        )
