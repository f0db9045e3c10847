"""Teachers: what chooses the contexts that a learner trains on, from how it did before."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Lessons(Protocol):
    """What one teacher proposes to one environment, one task an episode.

    A task is a context as numbers (dimensions). What is remembered of the past is bounded, however
    long a training lasts.
    """

    def propose(self) -> Array:
        """Return the task of the next episode (dimensions), within the box."""
        ...

    def learn(self, task: Array, outcome: float) -> None:
        """Hear how an episode ended.

        Args:
            task: What was played (dimensions); not always the last that was proposed.
            outcome: The more, the better; one that is no finite number is ignored.
        """
        ...


class Teacher(Protocol):
    """A frozen dataclass that is a component, too: `taught` is all that its `wrap` needs.

    Its class variable `identity` (`rlexp.protocol.identity.Identity`) names it in records. A class
    without one is named by its module path.
    """

    def begin(self, low: Array, high: Array, generator: np.random.Generator) -> Lessons:
        """Begin to teach an environment; each of a vector has lessons of its own.

        Args:
            low: The least value of each dimension.
            high: The greatest; equal to the least where a dimension is fixed.
            generator: The environment's own, and all that a proposal may draw from.
        """
        ...
