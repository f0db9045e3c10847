"""DQN: deep Q-learning."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rlexp.algorithms.off_policy import DeepQLearning
from rlexp.algorithms.ranges import Positive
from rlexp.protocol.identity import Identity
from rlexp.protocol.step_schedule import Stepped

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm


@dataclass(frozen=True, slots=True, kw_only=True)
class DQN(DeepQLearning):
    """Deep Q-learning: a value network, replay and a target network.

    Mnih et al. 2015, Human-level Control through Deep Reinforcement Learning, Nature 518.
    """

    identity: ClassVar = Identity("algorithm", "dqn")

    max_grad_norm: Stepped[Positive]
    """Largest norm of a gradient."""

    @staticmethod
    def learner_class() -> type["BaseAlgorithm"]:
        """The class of stable-baselines3."""
        import stable_baselines3

        return stable_baselines3.DQN
