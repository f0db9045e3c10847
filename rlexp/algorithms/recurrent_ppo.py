"""RecurrentPPO."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rlexp.algorithms.library import check_last_minibatch, check_rollout, construct
from rlexp.algorithms.ranges import Count, CountOrAll, Discount, NonNegative, Positive
from rlexp.algorithms.schedules import Scheduled

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.vec_env import VecEnv


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrentPPO:
    """PPO whose actor and critic remember: LSTM policies for partly observed tasks.

    Pleines et al. 2022, Generalization, Mayhems and Limits in Recurrent PPO, arXiv:2205.11104.
    """

    policies: ClassVar[tuple[str, ...]] = (
        "MlpLstmPolicy",
        "CnnLstmPolicy",
        "MultiInputLstmPolicy",
    )
    actions: ClassVar[tuple[str, ...]] = ("Box", "Discrete", "MultiDiscrete")
    # MultiBinary is declared by sb3-contrib 2.9.2, but its recurrent buffer keeps such actions as
    # int8, and the first update raises "Float can't be cast to the desired output type Char".

    learning_rate: Scheduled
    """Step size of the optimiser; a number or a schedule."""
    n_steps: Count
    """Steps collected in each environment between two updates."""
    batch_size: Count | None
    """Transitions in a minibatch; null takes the whole rollout."""
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
        check_last_minibatch(self, environments)

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
        import sb3_contrib

        self.check(environment.num_envs)
        return construct(
            sb3_contrib.RecurrentPPO,
            self,
            policy,
            arguments,
            environment,
            seed=seed,
            device=device,
        )
