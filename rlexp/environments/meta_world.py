"""Tasks of Meta-World: a single one, or several that one policy learns together."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from annotated_types import Ge, Le, MinLen

from rlexp.environments import Reference, Vector
from rlexp.environments.wrappers import (
    Wrapper,
    check_allowed,
    check_faithful,
    imported,
    inside,
    measured_by,
)
from rlexp.errors import ConfigError, did_you_mean
from rlexp.protocol.identity import Identity
from rlexp.protocol.measures import DeclaredMeasure
from rlexp.protocol.units import Unit

if TYPE_CHECKING:
    import gymnasium


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaWorldTask:
    """Tasks of Meta-World (Yu et al. 2020), each with its fifty goals (MT1, MT10, MT50).

    Meta-World itself ignores the seed of a reset, and draws goals from NumPy's global generator.
    Here the setting `goals` determines the goals, which training and evaluation share as in the
    benchmarks of Meta-World; the generator of the environment draws the goal of each episode.
    """

    identity: ClassVar = Identity("environment", "meta_world")

    name: str | None
    """The name under which scores are compared; null takes the name of a single task."""
    tasks: Annotated[tuple[str, ...], MinLen(1)]
    """Names in Meta-World (`reach-v3`); with several, a one-hot vector ends each observation."""
    goals: Annotated[int, Ge(0)]
    """The seed from which the fifty goals of each task are drawn."""
    max_episode_steps: Annotated[int, Ge(1), Le(500)]
    """Steps after which an episode is truncated; the limit of Meta-World is 500."""
    wrappers: tuple[Wrapper, ...]
    """Wrappers, the innermost first."""
    vector: Vector
    """The vector of environments for training."""
    reference: Reference
    """Known scores of the task."""
    measures: dict[str, DeclaredMeasure] = field(default_factory=dict)
    """Directions and known values of measures, by name."""
    unit: Unit | None = None
    """The unit of the steps of a training script; null means environment steps."""

    def __post_init__(self) -> None:
        if len(set(self.tasks)) != len(self.tasks):
            raise ConfigError(f"environment.tasks={list(self.tasks)} must be different names")
        if len(self.tasks) > 1 and self.name is None:
            raise ConfigError("environment.name is needed for several tasks: environment.name=…")
        for wrapper in self.wrappers:
            check_allowed(wrapper, frozenset())
            check_faithful(wrapper)

    @property
    def task(self) -> str:
        """The name under which scores are compared."""
        return self.name or f"Meta-World/{self.tasks[0]}"

    @property
    def reported(self) -> dict[str, DeclaredMeasure]:
        """`success`, that of each task where there are several, and what wrappers report."""
        each = [f"success/{name}" for name in self.tasks] if len(self.tasks) > 1 else []
        share = DeclaredMeasure(minimum=0.0, maximum=1.0)
        return {**dict.fromkeys(["success", *each], share), **measured_by(self.wrappers)}

    def make(
        self,
        render: str | None = None,
        inner: Callable[["gymnasium.Env[Any, Any]"], "gymnasium.Env[Any, Any]"] | None = None,
    ) -> "gymnasium.Env[Any, Any]":
        """Return one fresh environment, unseeded, with its wrappers.

        Args:
            render: A render mode of the environment (`rgb_array`), or none.
            inner: Wraps the bare environment before any wrapper of the configuration does.

        Raises:
            ConfigError: Meta-World is not installed, or has no such task.
        """
        # Imported here: that module needs gymnasium, which configurations load without.
        from rlexp.environments.meta_world_env import make_meta_world

        available = imported("metaworld").ALL_V3_ENVIRONMENTS
        for name in self.tasks:
            if name not in available:
                raise ConfigError(
                    f"environment.tasks: '{name}' is no task of Meta-World"
                    f"{did_you_mean(name, available)}"
                )
        environment = make_meta_world(self.tasks, self.goals, render, self.max_episode_steps)
        return inside(environment, self.wrappers, frozenset(), inner)
