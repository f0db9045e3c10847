"""CrossQ: SAC without target networks."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rlexp.algorithms.off_policy import MaximumEntropy
from rlexp.algorithms.ranges import Count
from rlexp.protocol.identity import Identity

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossQ(MaximumEntropy):
    """Cross Q-learning: SAC with batch renormalisation instead of target networks.

    Bhatt et al. 2024, CrossQ: Batch Normalization in Deep RL, arXiv:1902.05605.
    """

    identity: ClassVar = Identity("algorithm", "crossq")

    policies: ClassVar[tuple[str, ...]] = ("MlpPolicy",)

    policy_delay: Count
    """Critic updates for each update of the actor."""

    @staticmethod
    def learner_class() -> type["BaseAlgorithm"]:
        """The class of sb3-contrib."""
        import sb3_contrib

        return sb3_contrib.CrossQ
