"""Algorithms: plug-ins that hold hyperparameters and build a learner."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

from rlexp.environments import Environment
from rlexp.protocol.budget import Compute
from rlexp.protocol.identity import short_name_of

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.vec_env import VecEnv


class Algorithm(Protocol):
    """A learning algorithm: its fields are its hyperparameters, and `build` returns the learner.

    Its class variable `identity` (`rlexp.protocol.identity.Identity`) names it in records. A class
    without one is named by its module path.
    """

    policies: ClassVar[tuple[str, ...]]
    """Names of the policies that it accepts (`MlpPolicy`)."""
    actions: ClassVar[tuple[str, ...]]
    """Names of the Gymnasium action spaces that it accepts (`Discrete`)."""

    def check(self, environments: int) -> None:
        """Refuse contradictory settings for a number of environments.

        Raises:
            ConfigError: Settings contradict each other; the message suggests valid ones.
        """
        ...

    def build(
        self,
        policy: str,
        arguments: dict[str, Any],
        environment: "VecEnv",
        *,
        seed: int,
        device: str,
    ) -> "BaseAlgorithm":
        """Return a fresh learner on `environment`, seeded with `seed` (0 … 2**32 - 1)."""
        ...


@runtime_checkable
class BringsEnvironments(Protocol):
    """An algorithm that makes the environments of its training itself (compiled algorithms)."""

    def check_task(self, environment: Environment, arguments: dict[str, Any], device: str) -> None:
        """Refuse a task, a policy with these arguments, or a device, before any run starts.

        Raises:
            ConfigError: Names what is in the way.
        """
        ...

    def pinned(self, environment: Environment) -> Self:
        """Return the algorithm with the digests of the files that it depends on for a task.

        Raises:
            ConfigError: A file does not exist.
        """
        ...

    def training_vector(
        self, environment: Environment, seeds: Sequence[int], compute: Compute
    ) -> "VecEnv":
        """Return what stands for the training environments, one for each seed.

        Args:
            environment: The task.
            seeds: The seed of each environment.
            compute: The device, and how many runs a call of the program advances together.

        Raises:
            ConfigError: The task does not fit.
        """
        ...


def shown_name(algorithm: Algorithm) -> str:
    """The name of an algorithm in errors: `DQN` as its library calls it, or `algorithm=compiled_dqn`."""
    kind = type(algorithm)
    if isinstance(algorithm, BringsEnvironments):
        return f"algorithm={short_name_of(kind, 'algorithm')}"
    return kind.__name__
