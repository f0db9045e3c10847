"""What a repeat draws on a landscape, the same for every procedure that is compared."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from landscape_table import Landscape
from numpy.typing import NDArray


@dataclass(frozen=True)
class RepeatDraws:
    """The draws of one repeat on one landscape.

    Attributes:
        landscape: Where.
        number: Decides the order of the seeds, the default configuration and the tuner's draws.
    """

    landscape: Landscape
    number: int

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """The seeds of the landscape in the order of use, tuning seeds first."""
        return self._generator(0).permutation(self.landscape.returns.shape[1])

    @cached_property
    def default(self) -> int:
        """The configuration of trial 0, which is the same for every tuner."""
        return int(self._generator(1).integers(len(self.landscape.rows)))

    def _generator(self, use: int) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence([self.number, use])))
