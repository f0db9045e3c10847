"""TRPO."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from annotated_types import Interval

from rlexp.algorithms.library import check_rollout, construct
from rlexp.algorithms.ranges import Count, CountOrAll, Discount, NonNegative, Positive
from rlexp.algorithms.schedules import Scheduled
from rlexp.errors import ConfigError

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.vec_env import VecEnv


@dataclass(frozen=True, slots=True, kw_only=True)
class TRPO:
    """Trust-region policy optimisation: natural gradient steps of bounded divergence.

    Schulman et al. 2015, Trust Region Policy Optimization, arXiv:1502.05477.
    """

    policies: ClassVar[tuple[str, ...]] = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy")
    actions: ClassVar[tuple[str, ...]] = ("Box", "Discrete", "MultiDiscrete", "MultiBinary")

    learning_rate: Scheduled
    """Step size of the optimiser; a number or a schedule."""
    n_steps: Count
    """Steps collected in each environment between two updates."""
    batch_size: Count
    """Transitions in a minibatch."""
    gamma: Discount
    """Discount factor, per step."""
    cg_max_steps: Count
    """Most steps of the conjugate gradient."""
    cg_damping: NonNegative
    """Damping of the Hessian-vector product."""
    line_search_shrinking_factor: Annotated[float, Interval(gt=0, lt=1)]
    """Factor by which the line search shortens a step."""
    line_search_max_iter: Count
    """Most steps of the line search."""
    n_critic_updates: Count
    """Passes over a rollout by the critic at each update."""
    gae_lambda: Discount
    """Bias against variance of generalised advantage estimation; 1 is Monte Carlo."""
    use_sde: bool
    """Whether exploration noise depends on the state (gSDE) instead of being drawn each step."""
    sde_sample_freq: CountOrAll
    """Steps between two draws of the gSDE noise; -1 draws once a rollout."""
    normalize_advantage: bool
    """Whether advantages are scaled to mean 0 and deviation 1."""
    target_kl: Positive
    """Largest KL divergence between the old and the new policy."""
    sub_sampling_factor: Count
    """Every how manieth step of the rollout the actor's update uses."""

    def check(self, environments: int) -> None:
        """Refuse settings that need another number of environments."""
        check_rollout(self, environments)
        _check_subsample(self, environments)

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
            sb3_contrib.TRPO, self, policy, arguments, environment, seed=seed, device=device
        )


def _check_subsample(member: TRPO, environments: int) -> None:
    size = member.n_steps * environments
    if member.normalize_advantage and size <= member.sub_sampling_factor:
        raise ConfigError(
            f"algorithm.sub_sampling_factor={member.sub_sampling_factor} leaves one step of a "
            f"rollout of {size}, whose advantage cannot be normalised: use less than {size}"
        )
