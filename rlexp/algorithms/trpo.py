"""TRPO: trust-region policy optimisation."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Interval

from rlexp.algorithms.on_policy import OnPolicy
from rlexp.algorithms.ranges import Count, CountOrAll, NonNegative, Positive
from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm


@dataclass(frozen=True, slots=True, kw_only=True)
class TRPO(OnPolicy):
    """Trust-region policy optimisation: natural gradient steps of bounded divergence.

    Schulman et al. 2015, Trust Region Policy Optimization, arXiv:1502.05477.
    """

    identity: ClassVar = Identity("algorithm", "trpo")

    batch_size: Count
    """Transitions in a minibatch."""
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
    use_sde: bool
    """Whether exploration noise is state-dependent (gSDE) instead of drawn at each step."""
    sde_sample_freq: CountOrAll
    """Steps between two draws of the gSDE noise; -1 draws once per rollout."""
    target_kl: Positive
    """Largest KL divergence between the old and the new policy."""
    sub_sampling_factor: Count
    """The actor's update uses every n-th step of the rollout; 1 uses all."""

    def check(self, environments: int) -> None:
        """Refuse a rollout that is too short for its minibatches or for its subsample."""
        OnPolicy.check(self, environments)
        _check_subsample(self, environments)

    @staticmethod
    def learner_class() -> type["BaseAlgorithm"]:
        """The class of sb3-contrib."""
        import sb3_contrib

        return sb3_contrib.TRPO


def _check_subsample(member: TRPO, environments: int) -> None:
    size = member.n_steps * environments
    if member.normalize_advantage and size <= member.sub_sampling_factor:
        raise ConfigError(
            f"algorithm.sub_sampling_factor={member.sub_sampling_factor} leaves one step of a "
            f"rollout of {size}, whose advantage cannot be normalised: use less than {size}"
        )
