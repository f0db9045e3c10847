"""PPO: proximal policy optimisation."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rlexp.algorithms.library import TREE_POLICY, LibraryAlgorithm
from rlexp.algorithms.on_policy import ClippedPolicyGradient
from rlexp.algorithms.ranges import Count, CountOrAll
from rlexp.protocol.identity import Identity

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm


@dataclass(frozen=True, slots=True, kw_only=True)
class PPO(ClippedPolicyGradient):
    """Proximal policy optimisation: clipped policy gradients over several epochs.

    Schulman et al. 2017, Proximal Policy Optimization Algorithms, arXiv:1707.06347.
    """

    identity: ClassVar = Identity("algorithm", "ppo")
    policies: ClassVar[tuple[str, ...]] = (*LibraryAlgorithm.policies, TREE_POLICY)

    batch_size: Count
    """Transitions in a minibatch."""
    use_sde: bool
    """Whether exploration noise is state-dependent (gSDE) instead of drawn at each step."""
    sde_sample_freq: CountOrAll
    """Steps between two draws of the gSDE noise; -1 draws once per rollout."""

    @staticmethod
    def learner_class() -> type["BaseAlgorithm"]:
        """The class of stable-baselines3."""
        import stable_baselines3

        return stable_baselines3.PPO
