"""A tree of sums over priorities: draws in proportion to them in logarithmic time.

Schaul et al. 2016, Prioritized Experience Replay, arXiv:1511.05952, appendix B.2.1 ("sum-tree").
"""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Positions = NDArray[np.int64]


class PriorityTree:
    """Priorities of a fixed number of positions, and their sums.

    Every sum is that of its two children, computed from them alone. The tree is therefore a function of
    its leaves: it can be built again from them bit for bit.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._first = 1 << max(size - 1, 0).bit_length()
        self._sums: Numbers = np.zeros(2 * self._first)

    @property
    def total(self) -> float:
        """The sum of all priorities."""
        return float(self._sums[1])

    def priorities(self, positions: Positions) -> Numbers:
        """The priorities at positions."""
        return self._sums[self._first + positions]

    def leading(self, count: int) -> Numbers:
        """A copy of the priorities at the first `count` positions."""
        return self._sums[self._first : self._first + count].copy()

    def put(self, positions: Positions, priorities: Numbers) -> None:
        """Set priorities, none of them negative; of a repeated position, the last one stays."""
        nodes = self._first + positions
        self._sums[nodes] = priorities
        while len(nodes) and nodes[0] > 1:
            # All nodes are of one level. Each parent is computed once, whatever the order.
            nodes = np.unique(nodes >> 1)
            self._sums[nodes] = self._sums[2 * nodes] + self._sums[2 * nodes + 1]

    def find(self, masses: Numbers) -> Positions:
        """The positions at which the running sum of priorities passes each mass, in [0, total)."""
        nodes = np.ones(len(masses), dtype=np.int64)
        left_over = masses.copy()
        # All leaves are of one level.
        for _ in range(self._first.bit_length() - 1):
            left = 2 * nodes
            of_left = self._sums[left]
            # Rounding must not lead to a position without priority: an empty side is never taken.
            right = (left_over >= of_left) & (self._sums[left + 1] > 0)
            left_over -= np.where(right, of_left, 0.0)
            nodes = left + right
        return nodes - self._first
