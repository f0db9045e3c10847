"""SAC."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rlexp.algorithms.library import check_train_frequency, construct
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
from rlexp.algorithms.schedules import Scheduled

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.vec_env import VecEnv


@dataclass(frozen=True, slots=True, kw_only=True)
class SAC:
    """Soft actor-critic: off-policy learning that maximises return and entropy.

    Haarnoja et al. 2018, Soft Actor-Critic Algorithms and Applications, arXiv:1812.05905.
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
    ent_coef: Temperature
    """Weight of entropy against return: fixed, `auto` (learned) or `auto_0.1` (learned, from 0.1)."""
    target_update_interval: Count
    """Gradient steps between two updates of the target network."""
    target_entropy: TargetEntropy
    """Entropy that a learned `ent_coef` aims at, in nats; `auto` is minus the action dimension."""
    use_sde: bool
    """Whether exploration noise depends on the state (gSDE) instead of being drawn each step."""
    sde_sample_freq: CountOrAll
    """Steps between two draws of the gSDE noise; -1 draws once a rollout."""
    use_sde_at_warmup: bool
    """Whether gSDE explores before `learning_starts`, where actions are else uniform."""

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
            stable_baselines3.SAC, self, policy, arguments, environment, seed=seed, device=device
        )
