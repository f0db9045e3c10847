"""Compiled PPO: proximal policy optimisation and its environments as one program of JAX."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rlexp.algorithms.compiled.algorithm import CompiledAlgorithm
from rlexp.algorithms.on_policy import ClippedPolicyGradient
from rlexp.algorithms.ranges import Count
from rlexp.protocol.identity import Identity

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledPPO(CompiledAlgorithm, ClippedPolicyGradient):
    """PPO by the definitions of stable-baselines3, compiled together with its environments.

    Schulman et al. 2017, Proximal Policy Optimization Algorithms, arXiv:1707.06347. Collecting and
    learning in one compiled program: Lu et al. 2022, Discovered Policy Optimisation, arXiv:2210.05639.
    """

    identity: ClassVar = Identity("algorithm", "compiled_ppo")
    policies: ClassVar[tuple[str, ...]] = ("MlpPolicy",)
    actions: ClassVar[tuple[str, ...]] = ("Box", "Discrete")
    network: ClassVar[tuple[str, ...]] = (
        "activation_fn",
        "log_std_init",
        "net_arch",
        "ortho_init",
    )
    counterpart: ClassVar[str] = "ppo"

    batch_size: Count
    """Transitions in a minibatch."""
    twin: dict[str, Any] | None
    """Your own twin of the task (`_target_` and settings); null takes the twin of rlexp."""
    twin_digest: str | None
    """The sha256 of the file that defines the twin, set by rlexp: part of a run's identity."""

    @staticmethod
    def learner_class() -> type["BaseAlgorithm"]:
        """The class of stable-baselines3 with a compiled training."""
        from rlexp.algorithms.compiled.ppo_learner import CompiledPPOLearner

        return CompiledPPOLearner
