"""Compiled DQN: deep Q-learning and its environments as one program of JAX."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rlexp.algorithms.compiled.algorithm import CompiledAlgorithm
from rlexp.algorithms.compiled.off_policy import check_compiled_replay
from rlexp.algorithms.library import check_one_network
from rlexp.algorithms.off_policy import DeepQLearning
from rlexp.algorithms.ranges import Positive
from rlexp.protocol.identity import Identity
from rlexp.protocol.step_schedule import Stepped

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledDQN(CompiledAlgorithm, DeepQLearning):
    """DQN by the definitions of stable-baselines3, compiled together with its environments.

    Mnih et al. 2015, Human-level Control through Deep Reinforcement Learning, Nature 518.
    """

    identity: ClassVar = Identity("algorithm", "compiled_dqn")
    policies: ClassVar[tuple[str, ...]] = ("MlpPolicy",)
    network: ClassVar[tuple[str, ...]] = ("activation_fn", "net_arch")
    counterpart: ClassVar[str] = "dqn"

    max_grad_norm: Stepped[Positive]
    """Largest norm of a gradient."""
    twin: dict[str, Any] | None
    """Your own twin of the task (`_target_` and settings); null takes the twin of rlexp."""
    twin_digest: str | None
    """The sha256 of the file that defines the twin, set by rlexp: part of a run's identity."""

    @staticmethod
    def learner_class() -> type["BaseAlgorithm"]:
        """The class of stable-baselines3 with a compiled training."""
        from rlexp.algorithms.compiled.dqn_learner import CompiledDQNLearner

        return CompiledDQNLearner

    def check(self, environments: int) -> None:
        """Refuse what is not compiled.

        Raises:
            ConfigError: Names the setting.
        """
        # Not `super()`, which knows only the class from before `slots` replaced it.
        DeepQLearning.check(self, environments)
        check_compiled_replay(self, self.counterpart)

    def check_network(self, arguments: dict[str, Any]) -> None:
        """Refuse separate layers for actor and critic, and arguments beyond the layers.

        Raises:
            ConfigError: An argument does not fit.
        """
        check_one_network(self, arguments)
        CompiledAlgorithm.check_network(self, arguments)
