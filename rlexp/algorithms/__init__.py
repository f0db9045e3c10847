"""Algorithms: plug-ins that hold hyperparameters and build a learner."""

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

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
