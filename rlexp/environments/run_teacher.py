"""One teacher for a whole run: what it and the environments of the vector agree on.

The teacher is in the process of the learner. It proposes a task for every episode of every
environment, and hears the outcomes in the order of steps and of environments, so that no timing
changes what it proposes. Its state is part of checkpoints.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from rlexp.environments import Environment

Array = NDArray[np.float64]

PLAN_TASK = "plan_task"
"""Method of a wrapper that receives the task of the next episode (dimensions)."""
TASK_BOX = "task_box"
"""Attribute of that wrapper: the least and the greatest value of each dimension."""
LESSON = "lesson"
"""Key of the info dictionary of the last step of an episode: the task that was played (dimensions),
and its outcome; None for a teacher that takes none."""
NEEDS_VALUES = "needs_values"
"""Attribute of a teacher: whether it needs a learner with a value function."""
TEACHER = "teacher"
"""The name in reports of what a teacher has done."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ValuedRollout:
    """What a learner with a value function has collected between two updates.

    Attributes:
        tasks: For each environment, the tasks of the episodes of the rollout in order. The first may
            have begun in an earlier rollout.
        starts: Whether an episode begins with a step (steps × environments).
        rewards: Rewards as the learner gets them, without the estimated value of what follows after a
            time limit (steps × environments).
        values: Estimated values of the observations (steps × environments).
        advantages: Generalised advantage estimates, Schulman et al. 2016 (steps × environments).
        ended: Whether the last step has ended an episode (environments).
        discount: The discount of the learner.
    """

    tasks: Sequence[Sequence[Array]]
    starts: NDArray[np.bool_]
    rewards: NDArray[np.float32]
    values: NDArray[np.float32]
    advantages: NDArray[np.float32]
    ended: NDArray[np.bool_]
    discount: float


class RunLessons(Protocol):
    """The state of a teacher for one run.

    An optional attribute `acted` counts how often outcomes have changed a proposal, and an optional
    attribute `counts` holds further numbers by name. An optional method `count_steps` receives the
    length of each episode before `learn` hears of it. An optional method
    `hear_rollout(rollout: ValuedRollout)` is called at the end of each rollout.
    """

    def propose(self) -> Array:
        """Return the task of the next episode of any environment (dimensions)."""
        ...

    def learn(self, task: Array, outcome: float) -> None:
        """Receive the outcome of an episode that has ended.

        Args:
            task: The task that was played (dimensions).
            outcome: Larger is better; never NaN or infinite.
        """
        ...

    def state(self) -> dict[str, Any]:
        """Return everything that `restore` needs, as JSON values and arrays."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the result of `state`; the generator is restored by the caller."""
        ...


class RunTeacher(Protocol):
    """A component whose attribute `shared` is true, so that a run has one teacher."""

    def begin(self, low: Array, high: Array, generator: np.random.Generator) -> RunLessons:
        """Return new lessons for a run.

        Args:
            low: The least value of each dimension.
            high: The greatest value; equal to the least where a dimension is fixed.
            generator: The only source of random numbers; its state is part of checkpoints.
        """
        ...


def run_teacher(environment: Environment) -> RunTeacher | None:
    """Return the component that teaches all environments of a run, or None."""
    for component in getattr(environment, "components", {}).values():
        if getattr(component, "shared", False) and hasattr(component, "begin"):
            return cast(RunTeacher, component)
    return None
