"""Environments: how one environment of a task is made."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

from annotated_types import Ge, Gt

if TYPE_CHECKING:
    import gymnasium


MEASURES = "measures"
"""Key of an info dictionary under which wrappers put numbers of an episode, by name, as it ends."""


class Stage(StrEnum):
    """What an environment is made for."""

    TRAINING = "training"
    EVALUATION = "evaluation"
    IN_DISTRIBUTION = "in_distribution"
    """The final policy is played on what it was trained on, without what only helps learning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """How many environments train side by side, and what is done to their numbers."""

    count: Annotated[int, Ge(1)]
    kind: Literal["dummy", "subprocess"]
    frame_stack: Annotated[int, Ge(1)]
    normalise_observations: bool
    normalise_rewards: bool
    clip_observations: Annotated[float, Gt(0)]
    clip_rewards: Annotated[float, Gt(0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Known scores of the task, in units of its return: anchors, never part of a run's identity."""

    random: float | None = None
    threshold: float | None = None
    minimum: float | None = None
    maximum: float | None = None
    source: str | None = None


class Environment(Protocol):
    """A task: makes one environment at a time; seeds, monitors and vectors come from outside.

    Its class variable `identity` (`rlexp.protocol.identity.Identity`) names it in records. A class
    without one is named by its module path.
    """

    @property
    def task(self) -> str:
        """The name under which scores are compared (`CartPole-v1`)."""
        ...

    @property
    def vector(self) -> Vector:
        """How training vectorises it."""
        ...

    @property
    def reference(self) -> Reference:
        """Known scores of the task."""
        ...

    def make(
        self,
        render: str | None = None,
        inner: Callable[["gymnasium.Env[Any, Any]"], "gymnasium.Env[Any, Any]"] | None = None,
    ) -> "gymnasium.Env[Any, Any]":
        """Return one fresh environment, unseeded, with its wrappers.

        Args:
            render: A render mode of the environment (`rgb_array`), or none.
            inner: Wraps the bare environment before any wrapper of the configuration does:
                what it sees is the task's own reward, which no shaping has touched.

        Raises:
            ConfigError: The id, a wrapper or an import does not exist; says which, and what does.
        """
        ...
