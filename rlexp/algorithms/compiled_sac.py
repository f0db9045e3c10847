"""Compiled SAC: soft actor-critic and its environments as one program of JAX."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rlexp.algorithms.compiled.algorithm import CompiledAlgorithm
from rlexp.algorithms.compiled.off_policy import check_compiled_replay
from rlexp.algorithms.off_policy import OffPolicy
from rlexp.algorithms.ranges import Count, Share, TargetEntropy, Temperature
from rlexp.protocol.identity import Identity
from rlexp.protocol.step_schedule import Stepped

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledSAC(CompiledAlgorithm, OffPolicy):
    """SAC by the definitions of stable-baselines3, compiled together with its environments.

    Haarnoja et al. 2018, Soft Actor-Critic Algorithms and Applications, arXiv:1812.05905.
    """

    identity: ClassVar = Identity("algorithm", "compiled_sac")
    policies: ClassVar[tuple[str, ...]] = ("MlpPolicy",)
    network: ClassVar[tuple[str, ...]] = ("activation_fn", "n_critics", "net_arch")
    counterpart: ClassVar[str] = "sac"

    tau: Stepped[Share]
    """How far a target network moves towards its network at an update; 1 copies it."""
    target_update_interval: Count
    """Gradient steps between two updates of the target network."""
    ent_coef: Temperature
    """Weight of entropy against return: fixed, `auto` (learned) or `auto_0.1` (learned, from 0.1)."""
    target_entropy: TargetEntropy
    """Entropy that a learned `ent_coef` aims at, in nats; `auto` is minus the action dimension."""
    twin: dict[str, Any] | None
    """Your own twin of the task (`_target_` and settings); null takes the twin of rlexp."""
    twin_digest: str | None
    """The sha256 of the file that defines the twin, set by rlexp: part of a run's identity."""

    @staticmethod
    def learner_class() -> type["BaseAlgorithm"]:
        """The class of stable-baselines3 with a compiled training."""
        from rlexp.algorithms.compiled.sac_learner import CompiledSACLearner

        return CompiledSACLearner

    def check(self, environments: int) -> None:
        """Refuse what is not compiled.

        Raises:
            ConfigError: Names the setting.
        """
        # Not `super()`, which knows only the class from before `slots` replaced it.
        OffPolicy.check(self, environments)
        check_compiled_replay(self, self.counterpart)
