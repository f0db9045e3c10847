"""What all compiled algorithms share: the task that they bring, and what they refuse."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from rlexp.environments import Environment
from rlexp.environments.twins import check_twin, make_twin, twin_digest
from rlexp.errors import ConfigError
from rlexp.protocol.budget import Compute

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecEnv


DEVICES = ("cpu", "cuda")
"""Devices that a program can have; the policy of stable-baselines3 is on the processor always."""


class CompiledAlgorithm:
    """The part of an algorithm that trains by a compiled program; a base without fields.

    A subclass is a dataclass with the fields `twin` and `twin_digest`.
    """

    __slots__ = ()

    not_of_the_library: ClassVar[frozenset[str]] = frozenset({"twin", "twin_digest"})
    """Settings that are no arguments of the library's class."""
    networks_can_change: ClassVar[bool] = False
    """Whether the network can change between two rollouts: its sizes are part of the program."""
    network: ClassVar[tuple[str, ...]]
    """Arguments of a policy whose networks are compiled."""
    counterpart: ClassVar[str]
    """The algorithm with the same definitions that is not compiled."""

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Any]]
        twin: dict[str, Any] | None
        twin_digest: str | None

    def check_network(self, arguments: dict[str, Any]) -> None:
        """Refuse arguments of the policy that change more than its layers.

        Raises:
            ConfigError: An argument is not compiled.
        """
        unknown = sorted(set(arguments) - set(self.network))
        if unknown:
            raise ConfigError(
                f"agent.policy_kwargs.{unknown[0]} is not part of compiled training: leave it out "
                f"(compiled: {', '.join(self.network)}, as agent=mlp sets them), or choose an "
                f"algorithm that is not compiled (algorithm={self.counterpart})"
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
        if device not in DEVICES:
            raise ConfigError(
                f"compute.device={device}: compiled training has the devices {' and '.join(DEVICES)} "
                "(CUDA_VISIBLE_DEVICES or executor.devices choose a GPU); set compute.device=cpu",
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

    def training_vector(
        self, environment: Environment, seeds: Sequence[int], compute: Compute
    ) -> "VecEnv":
        """The vector that stands for the environments of the compiled program.

        Args:
            environment: The task.
            seeds: The seed of each environment.
            compute: The device, and how many runs a call of the program advances together.

        Raises:
            ConfigError: The task has no twin, or the code of the twin has changed since the run was
                defined.
        """
        from rlexp.algorithms.compiled.vector import CompiledVector

        check_twin(environment, self.twin)
        if self.twin_digest not in {None, twin_digest(environment, self.twin)}:
            raise ConfigError(
                "the code of the compiled twin has changed since this run was defined: start it again "
                "under another experiment=…"
            )
        task = environment.make()
        try:
            return CompiledVector(make_twin(environment, self.twin), seeds, task, compute)
        finally:
            task.close()
