"""Tasks with vector rewards: their weighted sum is the reward, the vector return a measure."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from annotated_types import MinLen

from rlexp.environments.registered import RegisteredTask
from rlexp.environments.wrappers import measured_by
from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity
from rlexp.protocol.measures import DeclaredMeasure
from rlexp.protocol.vector_scores import VectorScores

if TYPE_CHECKING:
    import gymnasium


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiObjectiveTask(RegisteredTask):
    """An environment of MO-Gymnasium whose reward is a weighted sum of its objectives.

    Other weights define another task, so the default name of the task contains the weights.
    """

    identity: ClassVar = Identity("environment", "multi_objective")

    weights: Annotated[tuple[float, ...], MinLen(1)]
    """Weight of each objective, in the order of the reward vector."""
    objectives: tuple[str, ...] | None
    """Names of the objectives, in the same order; null numbers them from 0."""
    reference_point: dict[str, float] | None = None
    """Of a training script that learns a front of policies: a number for each objective, above which the
    hypervolume is measured."""

    def __post_init__(self) -> None:
        RegisteredTask.__post_init__(self)
        if not all(map(math.isfinite, self.weights)) or not any(self.weights):
            raise ConfigError(
                f"environment.weights={list(self.weights)} must be finite, and not all 0"
            )
        names = self._names()
        if len(names) != len(self.weights) or len(set(names)) != len(names):
            raise ConfigError(
                f"environment.objectives={list(names)} must be {len(self.weights)} different "
                "names, one for each of environment.weights"
            )
        self._vectors().check()
        if self.reference_point is not None and set(self.reference_point) != set(names):
            raise ConfigError(
                f"environment.reference_point has numbers of {', '.join(self.reference_point)}, and the "
                f"objectives are {', '.join(names)}: give one for each"
            )

    @property
    def task(self) -> str:
        """The name under which scores are compared."""
        if self.reference_point is not None:
            # All weights together are learned.
            return self.name or f"{self.registered}(front)"
        weights = ",".join(f"{weight:g}" for weight in self.weights)
        return self.name or f"{self.registered}({weights})"

    @property
    def reported(self) -> dict[str, DeclaredMeasure]:
        """The return of each objective, and what wrappers report."""
        if self.reference_point is not None:
            return self._vectors().measures
        objectives = {f"return/{name}": DeclaredMeasure() for name in self._names()}
        # Not `super()`: a dataclass with slots is another class than the one in its methods.
        return {**objectives, **measured_by(self.wrappers)}

    def bare(self, render: str | None) -> "gymnasium.Env[Any, Any]":
        """Return the environment with its rewards scalarised.

        Raises:
            ConfigError: It cannot be made, or the number of weights is not that of objectives.
        """
        from rlexp.environments.measures import Scalarised

        environment = RegisteredTask.bare(self, render)
        space = getattr(environment.unwrapped, "reward_space", None)
        if space is None:
            raise ConfigError(
                f"environment.id={self.registered!r} has one reward, not a vector: use "
                f"environment=gymnasium environment.id={self.registered}"
            )
        if space.shape != (len(self.weights),):
            raise ConfigError(
                f"environment.weights={list(self.weights)} are {len(self.weights)} weights "
                f"for the {space.shape[0]} objectives of {self.registered}: give one for each"
            )
        return Scalarised(environment, self.weights, self._names())

    def _vectors(self) -> VectorScores:
        return VectorScores(reference_point=self.reference_point)

    def _names(self) -> tuple[str, ...]:
        if self.objectives is None:
            return tuple(map(str, range(len(self.weights))))
        return self.objectives
