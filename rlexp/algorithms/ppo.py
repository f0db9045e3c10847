"""PPO."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rlexp.algorithms.library import check_rollout, construct
from rlexp.algorithms.ranges import Count, CountOrAll, Discount, NonNegative, Positive
from rlexp.algorithms.schedules import Scheduled

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.vec_env import VecEnv


@dataclass(frozen=True, slots=True, kw_only=True)
class PPO:
    """Proximal policy optimisation: clipped policy gradients over several epochs.

    Schulman et al. 2017, Proximal Policy Optimization Algorithms, arXiv:1707.06347.
    """

    policies: ClassVar[tuple[str, ...]] = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy")
    actions: ClassVar[tuple[str, ...]] = ("Box", "Discrete", "MultiDiscrete", "MultiBinary")

    learning_rate: Scheduled
    """Step size of the optimiser; a number or a schedule."""
    n_steps: Count
    """Steps collected in each environment between two updates."""
    batch_size: Count
    """Transitions in a minibatch."""
    n_epochs: Count
    """Passes over a rollout at each update."""
    gamma: Discount
    """Discount factor, per step."""
    gae_lambda: Discount
    """Bias against variance of generalised advantage estimation; 1 is Monte Carlo."""
    clip_range: Scheduled
    """How far the probability ratio may leave 1; a number or a schedule."""
    clip_range_vf: Scheduled | None
    """How far a value may move in an update, in units of return; null does not clip."""
    normalize_advantage: bool
    """Whether advantages are scaled to mean 0 and deviation 1."""
    ent_coef: NonNegative
    """Weight of the entropy bonus in the loss."""
    vf_coef: NonNegative
    """Weight of the value loss."""
    max_grad_norm: Positive
    """Largest norm of a gradient."""
    use_sde: bool
    """Whether exploration noise depends on the state (gSDE) instead of being drawn each step."""
    sde_sample_freq: CountOrAll
    """Steps between two draws of the gSDE noise; -1 draws once a rollout."""
    target_kl: Positive | None
    """KL divergence at which the epochs of an update stop early; null never."""

    def check(self, environments: int) -> None:
        """Refuse settings that need another number of environments."""
        check_rollout(self, environments)

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
            stable_baselines3.PPO, self, policy, arguments, environment, seed=seed, device=device
        )
