"""Environments: tasks that agents are trained and scored on."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

from annotated_types import Ge, Gt

if TYPE_CHECKING:
    import gymnasium


MEASURES = "measures"
"""Key of the info dictionary: at the end of an episode, it holds one number for each measure."""
REWARD_SUM = "since_last_look"
"""Attribute of the innermost wrapper: the sum of the task's rewards since the outermost wrapper read it."""


UNTRANSFORMED = {"normalise_observations": False, "normalise_rewards": False, "frame_stack": 1}
"""Settings of a vector that change what a policy sees or learns from, with the values that change nothing."""


class Stage(StrEnum):
    """The use of an environment: training, scoring, or scoring on the training distribution."""

    TRAINING = "training"
    EVALUATION = "evaluation"
    IN_DISTRIBUTION = "in_distribution"
    """Evaluation of the final policy on the training distribution, without learning aids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """The number of parallel training environments, and the transformation of their numbers."""

    count: Annotated[int, Ge(1)]
    kind: Literal["dummy", "subprocess"]
    frame_stack: Annotated[int, Ge(1)]
    normalise_observations: bool
    normalise_rewards: bool
    clip_observations: Annotated[float, Gt(0)]
    clip_rewards: Annotated[float, Gt(0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Known scores of the task, in units of its return; never part of the identity of a run."""

    random: float | None = None
    threshold: float | None = None
    minimum: float | None = None
    maximum: float | None = None
    source: str | None = None


class Environment(Protocol):
    """A task, which makes one environment at a time; callers add seeds, monitors and vectors.

    Its class variable `identity` (`rlexp.protocol.identity.Identity`) names it in records. A class
    without one is named by its module path.
    """

    @property
    def task(self) -> str:
        """The name under which scores are compared (`CartPole-v1`)."""
        ...

    @property
    def vector(self) -> Vector:
        """The vector of environments for training."""
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
            inner: Wraps the bare environment before any wrapper of the configuration does, so
                that it sees the task's own reward, before any shaping.

        Raises:
            ConfigError: The id, a wrapper or an import does not exist; the message names it and
                existing ones.
        """
        ...
