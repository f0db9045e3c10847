"""MaskablePPO: PPO with action masks."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rlexp.algorithms.on_policy import ClippedPolicyGradient
from rlexp.protocol.identity import Identity

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskablePPO(ClippedPolicyGradient):
    """PPO that never takes an action that the environment masks.

    Huang and Ontañón 2022, A Closer Look at Invalid Action Masking, arXiv:2006.14171.
    """

    identity: ClassVar = Identity("algorithm", "maskable_ppo")

    actions: ClassVar[tuple[str, ...]] = ("Discrete", "MultiDiscrete", "MultiBinary")
    needs_masks: ClassVar[bool] = True

    def check(self, environments: int) -> None:
        """Refuse a rollout that is too short, or whose last minibatch has one step."""
        ClippedPolicyGradient.check(self, environments)
        self.check_last_minibatch(environments)

    @staticmethod
    def learner_class() -> type["BaseAlgorithm"]:
        """The class of sb3-contrib."""
        import sb3_contrib

        return sb3_contrib.MaskablePPO
