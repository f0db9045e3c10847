"""Algorithms: how an agent learns. A member holds the hyperparameters and builds the learner."""

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.vec_env import VecEnv


class Algorithm(Protocol):
    """A learning algorithm: its fields are its hyperparameters, `build` makes the learner.

    Its class variable `identity` (`rlexp.protocol.identity.Identity`) names it in records. A class
    without one is named by its module path.
    """

    policies: ClassVar[tuple[str, ...]]
    """Names of the policies that it accepts (`MlpPolicy`)."""
    actions: ClassVar[tuple[str, ...]]
    """Names of the Gymnasium action spaces that it accepts (`Discrete`)."""

    def check(self, environments: int) -> None:
        """Refuse settings that do not go together on so many environments.

        Raises:
            ConfigError: Says which, and what does.
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
