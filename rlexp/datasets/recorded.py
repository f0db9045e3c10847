"""One recorded episode, of whatever format."""

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Episode:
    """One episode of t steps.

    Attributes:
        observations: Array of t + 1 rows, or a mapping of such arrays for observations that are dictionaries.
        actions: Array of t rows, in the units of the action space.
        rewards: Array of t numbers.
        terminations: Array of t truth values: whether the task ended by itself after the step.
        truncations: Array of t truth values: whether the episode was cut after the step.
    """

    observations: Any
    actions: NDArray[Any]
    rewards: NDArray[Any]
    terminations: NDArray[Any]
    truncations: NDArray[Any]
