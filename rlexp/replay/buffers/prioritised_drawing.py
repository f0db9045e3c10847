"""Which transitions a prioritised replay draws, with which weights, and how it learns their errors.

Schaul et al. 2016, Prioritized Experience Replay, arXiv:1511.05952: the proportional variant.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from rlexp.replay.buffers.priority_tree import Numbers, Positions, PriorityTree


@dataclass(slots=True)
class DrawnMinibatch:
    """The minibatch whose errors are awaited.

    Attributes:
        samples: Its transitions, as the learner received them.
        positions: Their positions.
        weights: Their importance weights, one in each row.
        targets: The values that the learner moves towards, where they are known before the errors.
    """

    samples: Any
    positions: Positions
    weights: torch.Tensor
    targets: torch.Tensor | None = None


def from_start() -> float:
    """The progress of a training that never ends, until a learner is attached."""
    return 0.0


@dataclass(slots=True)
class PrioritisedDrawing:
    """Draws positions of transitions in proportion to their errors, and corrects for it by weights.

    Attributes:
        alpha: Exponent of priorities; 0 draws uniformly.
        beta: Exponent of importance weights at the beginning; it rises to 1 linearly.
        epsilon: Added to the size of an error, so that no transition is lost.
        tree: Priorities to the power of alpha.
        largest: The largest priority so far, which new transitions get.
        progress: The share of training that is done, in [0, 1].
        awaited: The minibatch whose errors are not known yet.
    """

    alpha: float
    beta: float
    epsilon: float
    tree: PriorityTree
    largest: float = 1.0
    progress: Callable[[], float] = field(default=from_start)
    awaited: DrawnMinibatch | None = None

    def enter(self, positions: Positions) -> None:
        """Give new transitions the largest priority, so that each is soon drawn (algorithm 1, line 6)."""
        self.tree.put(positions, np.full(len(positions), self.largest**self.alpha))

    def draw(self, count: int, stored: int) -> tuple[Positions, Numbers]:
        """Draw positions, one from each of `count` equal parts of the total priority.

        Args:
            count: Transitions of the minibatch.
            stored: Transitions in the buffer.

        Returns:
            Positions, and importance weights with a largest one of 1 (equation 1 and section 3.4).
        """
        # The library draws its minibatches with this generator, which checkpoints hold.
        within = np.random.random_sample(count)  # noqa: NPY002
        positions = self.tree.find((np.arange(count) + within) * (self.tree.total / count))
        probabilities = self.tree.priorities(positions) / self.tree.total
        weights = (stored * probabilities) ** -self.present_beta()
        return positions, weights / weights.max()

    def present_beta(self) -> float:
        """The exponent of importance weights at the present step."""
        return self.beta + (1.0 - self.beta) * min(max(self.progress(), 0.0), 1.0)

    def learn(self, errors: Numbers) -> None:
        """Set the priorities of the awaited minibatch from its errors, one for each transition."""
        assert self.awaited is not None
        priorities = np.abs(errors) + self.epsilon
        self.largest = max(self.largest, float(priorities.max()))
        self.tree.put(self.awaited.positions, priorities**self.alpha)
        self.awaited = None

    def state(self, stored: int) -> dict[str, Any]:
        """A copy of what changes: the priorities of all stored transitions, and the largest."""
        return {"priorities": self.tree.leading(stored), "largest": self.largest}

    def restore(self, state: dict[str, Any], stored: int) -> None:
        """Restore a copy into a fresh drawing.

        Raises:
            KeyError: The state lacks a part.
            ValueError: It is of another number of transitions.
        """
        priorities = state["priorities"]
        if priorities.shape != (stored,):
            raise ValueError(f"{len(priorities)} priorities do not fit {stored} transitions")
        self.tree.put(np.arange(stored), priorities)
        self.largest = float(state["largest"])
