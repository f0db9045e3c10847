"""QRDQN: quantile-regression DQN."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rlexp.algorithms.off_policy import DeepQLearning
from rlexp.algorithms.ranges import Positive
from rlexp.protocol.identity import Identity
from rlexp.protocol.step_schedule import Stepped

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm


@dataclass(frozen=True, slots=True, kw_only=True)
class QRDQN(DeepQLearning):
    """Quantile-regression DQN: learns the distribution of returns.

    Dabney et al. 2018, Distributional RL with Quantile Regression, arXiv:1710.10044.
    """

    identity: ClassVar = Identity("algorithm", "qrdqn")

    max_grad_norm: Stepped[Positive] | None
    """Largest norm of a gradient; null does not clip."""

    @staticmethod
    def learner_class() -> type["BaseAlgorithm"]:
        """The class of sb3-contrib."""
        import sb3_contrib

        return sb3_contrib.QRDQN
