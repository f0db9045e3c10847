"""The newest tasks of a teacher with their outcomes, and the scaling of tasks."""

import numpy as np
from numpy.typing import NDArray

from rlexp.components.teachers import Array


class UnitBox:
    """Scales tasks to the unit cube, so that distances do not depend on units."""

    def __init__(self, low: Array, high: Array) -> None:
        self.low, self.high = low, high
        self._width = high - low
        # A fixed dimension has width 0: divide by 1, so that it is always at 0.
        self._divisor = np.where(self._width > 0, self._width, 1.0)

    def scaled(self, task: Array) -> Array:
        """Return a task as a point of the unit cube (dimensions)."""
        return np.clip((task - self.low) / self._divisor, 0.0, 1.0)

    def task(self, point: Array) -> Array:
        """Return the task at a point (dimensions); points outside the cube are clipped."""
        # Clipped twice: rounding of the product may leave the bounds.
        inside = self.low + np.clip(point, 0.0, 1.0) * self._width
        return np.clip(inside, self.low, self.high)


class TeacherHistory:
    """The newest points and their outcomes, oldest first, up to a fixed number."""

    def __init__(self, dimensions: int, most: int) -> None:
        """Start empty.

        Args:
            dimensions: Dimensions of a point.
            most: Largest number of points.
        """
        self._most = most
        self.points = np.empty((0, dimensions))
        self.outcomes = np.empty(0)

    def __len__(self) -> int:
        return len(self.outcomes)

    def add(self, point: Array, outcome: float) -> None:
        """Add a point (dimensions); beyond the limit, the oldest point is dropped."""
        self.points = np.concatenate([self.points, point[np.newaxis]])[-self._most :]
        self.outcomes = np.append(self.outcomes, outcome)[-self._most :]

    def state(self) -> dict[str, Array]:
        """Return all points and their outcomes."""
        return {"points": self.points, "outcomes": self.outcomes}

    def restore(self, state: dict[str, Array]) -> None:
        """Replace all points and outcomes by the result of `state`."""
        self.points, self.outcomes = state["points"].copy(), state["outcomes"].copy()

    def nearest(self, points: Array, number: int) -> NDArray[np.intp]:
        """Return the nearest stored points for each query point; of equally near ones, the newest.

        Args:
            points: The query points (queries × dimensions).
            number: How many to return for each; at most the number of stored points.

        Returns:
            Indices of stored points (queries × number).
        """
        # Reversed and sorted stably, so that the newest of equally near points comes first.
        differences = points[:, np.newaxis] - self.points[np.newaxis, ::-1]
        order = np.argsort(np.square(differences).sum(axis=2), axis=1, kind="stable")
        return len(self) - 1 - order[:, :number]
