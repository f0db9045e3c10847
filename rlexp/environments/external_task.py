"""A task that only an external training script can make."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from rlexp.environments import Reference, Vector
from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity
from rlexp.protocol.measures import DeclaredMeasure
from rlexp.protocol.units import Unit
from rlexp.protocol.vector_scores import VectorScores

if TYPE_CHECKING:
    import gymnasium


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalTask:
    """A task by its name; the training script makes its environments."""

    identity: ClassVar = Identity("environment", "external")

    name: str
    """The name under which scores are compared."""
    arguments: dict[str, Any]
    """Settings of the task, with the names that the script uses."""
    reference: Reference
    """Known scores of the task."""
    measures: dict[str, DeclaredMeasure] = field(default_factory=dict)
    """Directions and known values of measures, by name."""
    unit: Unit | None = None
    """The unit of all steps; null means environment steps."""
    return_of: str | None = None
    """The component that is the return of the run, where the script reports a return of several agents
    or objectives."""
    reference_point: dict[str, float] | None = None
    """A number for each objective, above which the hypervolume of a front of policies is measured."""

    def __post_init__(self) -> None:
        """Refuse declarations of vectors that contradict each other."""
        self.vectors.check()

    @property
    def vectors(self) -> VectorScores:
        """What is declared about vectors of returns."""
        return VectorScores(return_of=self.return_of, reference_point=self.reference_point)

    @property
    def reported(self) -> dict[str, DeclaredMeasure]:
        """The measures of the declared vectors."""
        return self.vectors.measures

    @property
    def task(self) -> str:
        """The name under which scores are compared."""
        return self.name

    @property
    def vector(self) -> Vector:
        """One environment without transformation; the script decides how many it makes."""
        return Vector(
            count=1,
            kind="dummy",
            frame_stack=1,
            normalise_observations=False,
            normalise_rewards=False,
            clip_observations=10.0,
            clip_rewards=10.0,
        )

    def make(
        self,
        render: str | None = None,
        inner: Callable[["gymnasium.Env[Any, Any]"], "gymnasium.Env[Any, Any]"] | None = None,
    ) -> "gymnasium.Env[Any, Any]":
        """Raise a ConfigError, because only the script can make the environment."""
        del render, inner
        raise ConfigError(
            f"environment=external: only a script can train on {self.name}: choose "
            "algorithm=external, or a task of Gymnasium (environment=gymnasium environment.id=…)"
        )
