"""Compiled PPO: proximal policy optimisation and its environments as one program of JAX."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from rlexp.algorithms.on_policy import ClippedPolicyGradient
from rlexp.algorithms.ranges import Count
from rlexp.environments import Environment
from rlexp.environments.twins import check_twin, make_twin, twin_digest
from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.vec_env import VecEnv

NETWORK = ("activation_fn", "log_std_init", "net_arch", "ortho_init")
"""Arguments of a policy whose networks are compiled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledPPO(ClippedPolicyGradient):
    """PPO by the definitions of stable-baselines3, compiled together with its environments.

    Schulman et al. 2017, Proximal Policy Optimization Algorithms, arXiv:1707.06347. Collecting and
    learning in one compiled program: Lu et al. 2022, Discovered Policy Optimisation, arXiv:2210.05639.
    """

    identity: ClassVar = Identity("algorithm", "compiled_ppo")
    policies: ClassVar[tuple[str, ...]] = ("MlpPolicy",)
    actions: ClassVar[tuple[str, ...]] = ("Box", "Discrete")
    not_of_the_library: ClassVar[frozenset[str]] = frozenset({"twin", "twin_digest"})
    """Settings that are no arguments of the library's class."""

    batch_size: Count
    """Transitions in a minibatch."""
    twin: dict[str, Any] | None
    """Your own twin of the task (`_target_` and settings); null takes the twin of rlexp."""
    twin_digest: str | None
    """The sha256 of the file that defines the twin, set by rlexp: part of a run's identity."""

    @staticmethod
    def learner_class() -> type["BaseAlgorithm"]:
        """The class of stable-baselines3 with a compiled training."""
        from rlexp.algorithms.compiled_ppo_learner import CompiledPPOLearner

        return CompiledPPOLearner

    def check_network(self, arguments: dict[str, Any]) -> None:
        """Refuse arguments of the policy that change more than its layers.

        Raises:
            ConfigError: An argument is not compiled.
        """
        unknown = sorted(set(arguments) - set(NETWORK))
        if unknown:
            raise ConfigError(
                f"agent.policy_kwargs.{unknown[0]} is not part of compiled training: leave it out "
                "(compiled: agent.network, agent.actor, agent.critic, agent.activation, "
                "agent.ortho_init and policy_kwargs.log_std_init), or choose algorithm=ppo"
            )

    def check_task(self, environment: Environment, arguments: dict[str, Any], device: str) -> None:
        """Refuse a task, a policy or a device that compiled training does not have.

        Args:
            environment: The task.
            arguments: The keyword arguments of the policy.
            device: The device of the configuration.

        Raises:
            ConfigError: Names what is in the way.
        """
        self.check_network(arguments)
        if device != "cpu":
            raise ConfigError(
                f"compute.device={device}: compiled training uses the processor only; set "
                "compute.device=cpu",
                key="compute.device",
            )
        check_twin(environment, self.twin)

    def pinned(self, environment: Environment) -> Self:
        """The algorithm with the digest of its twin, which becomes part of a run's identity.

        Args:
            environment: The task.

        Raises:
            ConfigError: The task has no twin, the twin has no file, or another digest is set.
        """
        digest = twin_digest(environment, self.twin)
        if self.twin_digest not in {None, digest}:
            raise ConfigError(
                f"algorithm.twin_digest={self.twin_digest} is not the digest of the twin: leave it "
                "out, rlexp sets it",
                key="algorithm.twin_digest",
            )
        return replace(self, twin_digest=digest)

    def training_vector(self, environment: Environment, seeds: Sequence[int]) -> "VecEnv":
        """The vector that stands for the environments of the compiled program.

        Args:
            environment: The task.
            seeds: The seed of each environment.

        Raises:
            ConfigError: The task has no twin, or the code of the twin has changed since the run was
                defined.
        """
        from rlexp.algorithms.compiled_vector import CompiledVector

        check_twin(environment, self.twin)
        if self.twin_digest not in {None, twin_digest(environment, self.twin)}:
            raise ConfigError(
                "the code of the compiled twin has changed since this run was defined: start it again "
                "under another experiment=…"
            )
        task = environment.make()
        try:
            return CompiledVector(make_twin(environment, self.twin), seeds, task)
        finally:
            task.close()
