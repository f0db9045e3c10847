"""SAC: soft actor-critic."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rlexp.algorithms.off_policy import MaximumEntropy
from rlexp.algorithms.ranges import Count, Share
from rlexp.protocol.identity import Identity
from rlexp.protocol.step_schedule import Stepped

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm


@dataclass(frozen=True, slots=True, kw_only=True)
class SAC(MaximumEntropy):
    """Soft actor-critic: off-policy learning that maximises return and entropy.

    Haarnoja et al. 2018, Soft Actor-Critic Algorithms and Applications, arXiv:1812.05905.
    """

    identity: ClassVar = Identity("algorithm", "sac")

    tau: Stepped[Share]
    """How far a target network moves towards its network at an update; 1 copies it."""
    target_update_interval: Count
    """Gradient steps between two updates of the target network."""

    @staticmethod
    def learner_class() -> type["BaseAlgorithm"]:
        """The class of stable-baselines3."""
        import stable_baselines3

        return stable_baselines3.SAC
