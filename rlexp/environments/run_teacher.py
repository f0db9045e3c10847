"""One teacher for a whole run: what it and the environments of the vector agree on.

The teacher is in the process of the learner. It proposes a task for every episode of every
environment, and hears the outcomes in the order of steps and of environments, so that no timing
changes what it proposes. Its state is part of checkpoints.
"""

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
TEACHER = "teacher"
"""The name in reports of what a teacher has done."""


class RunLessons(Protocol):
    """The state of a teacher for one run.

    An optional attribute `acted` counts how often outcomes have changed a proposal, and an optional
    attribute `counts` holds further numbers by name. An optional method `count_steps` receives the
    length of each episode before `learn` hears of it.
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
