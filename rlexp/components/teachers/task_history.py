"""The tasks that were played last, with how they ended."""

import numpy as np
from numpy.typing import NDArray

from rlexp.components.teachers import Array


class UnitBox:
    """A box of tasks scaled to the unit cube, so that no dimension counts by its units."""

    def __init__(self, low: Array, high: Array) -> None:
        self.low, self.high = low, high
        self._width = high - low
        # A dimension that is fixed lies at 0, and stays there.
        self._divisor = np.where(self._width > 0, self._width, 1.0)

    def scaled(self, task: Array) -> Array:
        """A task as a point of the unit cube (dimensions)."""
        return np.clip((task - self.low) / self._divisor, 0.0, 1.0)

    def task(self, point: Array) -> Array:
        """The task at a point (dimensions); one outside the cube is moved to its border."""
        inside = self.low + np.clip(point, 0.0, 1.0) * self._width
        return np.clip(inside, self.low, self.high)


class TeacherHistory:
    """The newest points and their outcomes, up to a number, the oldest first."""

    def __init__(self, dimensions: int, most: int) -> None:
        """Remember nothing yet.

        Args:
            dimensions: Of a point.
            most: Points that are remembered.
        """
        self._most = most
        self.points = np.empty((0, dimensions))
        self.outcomes = np.empty(0)

    def __len__(self) -> int:
        return len(self.outcomes)

    def add(self, point: Array, outcome: float) -> None:
        """Remember a point (dimensions), and forget the oldest where there are too many."""
        self.points = np.concatenate([self.points, point[np.newaxis]])[-self._most :]
        self.outcomes = np.append(self.outcomes, outcome)[-self._most :]

    def nearest(self, points: Array, number: int) -> NDArray[np.intp]:
        """Which points lie nearest to each of some others, the newest first where they tie.

        Args:
            points: Others × dimensions.
            number: How many to find of each; at most as many as there are.

        Returns:
            Their positions (others × number).
        """
        apart = points[:, np.newaxis] - self.points[np.newaxis, ::-1]
        order = np.argsort(np.square(apart).sum(axis=2), axis=1, kind="stable")
        return len(self) - 1 - order[:, :number]
