"""TD3: twin delayed DDPG."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rlexp.algorithms.off_policy import OffPolicyActorCritic
from rlexp.algorithms.ranges import Count, NonNegative, Share
from rlexp.protocol.identity import Identity
from rlexp.protocol.step_schedule import Stepped

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm


@dataclass(frozen=True, slots=True, kw_only=True)
class TD3(OffPolicyActorCritic):
    """Twin delayed DDPG: two critics, delayed and smoothed policy updates.

    Fujimoto et al. 2018, Addressing Function Approximation Error, arXiv:1802.09477.
    """

    identity: ClassVar = Identity("algorithm", "td3")

    tau: Stepped[Share]
    """How far a target network moves towards its network at an update; 1 copies it."""
    policy_delay: Count
    """Critic updates for each update of the actor."""
    target_policy_noise: Stepped[NonNegative]
    """Deviation of the noise that smooths the target policy."""
    target_noise_clip: Stepped[NonNegative]
    """Largest size of that noise."""

    @staticmethod
    def learner_class() -> type["BaseAlgorithm"]:
        """The class of stable-baselines3."""
        import stable_baselines3

        return stable_baselines3.TD3
