"""Transitions that a training begins with: arrays by name, and their digest."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

NEEDED = ("actions", "rewards", "dones", "timeouts")
"""Names of the arrays that all transitions have, besides observations."""
BEFORE, AFTER = "observations", "next_observations"
"""Names of the arrays of observations; of dictionaries, the beginning of the names (`observations/goal`)."""


@dataclass(frozen=True, slots=True)
class PriorTransitions:
    """Transitions of another training, each array with one row a transition.

    Attributes:
        arrays: Arrays by the names that the library's replay buffer has for them.
    """

    arrays: Mapping[str, NDArray[Any]] = field(repr=False)

    def __post_init__(self) -> None:
        """Refuse arrays that are no transitions.

        Raises:
            ValueError: An array is missing, or the arrays have different numbers of rows.
        """
        observed = [f"{part}{name}" for part in (BEFORE, AFTER) for name in self.entries]
        missing = [name for name in (*NEEDED, *observed) if name not in self.arrays]
        if missing or not self.entries:
            raise ValueError(f"transitions lack {', '.join(missing or [BEFORE])}")
        if len({len(array) for array in self.arrays.values()}) > 1:
            raise ValueError("the arrays of transitions have different lengths")

    @property
    def entries(self) -> tuple[str, ...]:
        """The ends of the names of observations: one empty text, or `/KEY` of each entry."""
        names = sorted(
            name.removeprefix(BEFORE) for name in self.arrays if name.startswith(BEFORE)
        )
        return tuple(names)

    @property
    def count(self) -> int:
        """Number of transitions."""
        return len(self.arrays["rewards"])

    @property
    def digest(self) -> str:
        """The sha256 of the names, types, shapes and values of all arrays, in hexadecimal."""
        total = sha256()
        for name in sorted(self.arrays):
            array = np.ascontiguousarray(self.arrays[name])
            total.update(f"{name}:{array.dtype.str}:{array.shape}:".encode())
            total.update(array.tobytes())
        return total.hexdigest()
