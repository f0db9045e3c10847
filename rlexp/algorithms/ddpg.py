"""DDPG: deep deterministic policy gradient."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rlexp.algorithms.off_policy import OffPolicyActorCritic
from rlexp.algorithms.ranges import Share
from rlexp.protocol.identity import Identity
from rlexp.protocol.step_schedule import Stepped

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm


@dataclass(frozen=True, slots=True, kw_only=True)
class DDPG(OffPolicyActorCritic):
    """Deep deterministic policy gradient: a deterministic actor learned through its critic.

    Lillicrap et al. 2016, Continuous Control with Deep RL, arXiv:1509.02971.
    """

    identity: ClassVar = Identity("algorithm", "ddpg")

    tau: Stepped[Share]
    """How far a target network moves towards its network at an update; 1 copies it."""

    @staticmethod
    def learner_class() -> type["BaseAlgorithm"]:
        """The class of stable-baselines3."""
        import stable_baselines3

        return stable_baselines3.DDPG
