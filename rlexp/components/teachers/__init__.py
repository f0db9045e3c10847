"""Teachers: components that choose the contexts of training episodes from earlier outcomes."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Lessons(Protocol):
    """The state of a teacher for a run, or for one environment; proposes one task per episode.

    A task is a context as an array (dimensions). The memory of past episodes has a fixed bound.
    Lessons for a run have the methods `state` and `restore` of
    `rlexp.environments.run_teacher.RunLessons`, too.
    """

    def propose(self) -> Array:
        """Return the task of the next episode (dimensions), within the bounds."""
        ...

    def learn(self, task: Array, outcome: float) -> None:
        """Receive the outcome of an episode.

        Args:
            task: The task that was played (dimensions); it may differ from the last proposal.
            outcome: Larger is better; an outcome that is not finite is ignored.
        """
        ...


class Teacher(Protocol):
    """A component that teaches: its `wrap` returns the result of `taught`.

    With an attribute `shared` that is true, it is the one teacher of all environments of a run.
    Without, each environment of the vector has lessons from it.

    Its class variable `identity` (`rlexp.protocol.identity.Identity`) names it in records. A class
    without one is named by its module path.
    """

    def begin(self, low: Array, high: Array, generator: np.random.Generator) -> Lessons:
        """Return new lessons, for a run or for one environment of the vector.

        Args:
            low: The least value of each dimension.
            high: The greatest value; equal to the least where a dimension is fixed.
            generator: The only source of random numbers; that of the environment, or of the run.
        """
        ...
