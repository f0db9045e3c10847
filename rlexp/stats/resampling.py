"""Settings of a resampling: repetitions, level and the seed of every generator."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Resampling:
    """Seed, number of repetitions and level of the interval.

    The same settings and data always give the same numbers: no generator is shared.
    """

    seed: int = 0
    repetitions: int = 50_000
    level: float = 0.95

    def __post_init__(self) -> None:
        """Refuse settings that give no interval."""
        if self.seed < 0 or self.repetitions < 1 or not 0 < self.level < 1:
            raise ValueError("a seed ≥ 0, repetitions ≥ 1 and a level between 0 and 1 are needed")

    def generator(self, *key: int) -> np.random.Generator:
        """The generator of a key, such as a block of repetitions or a side of a comparison."""
        # Spawned sequences are independent, so that blocks can be drawn in any order and thread.
        sequence = np.random.SeedSequence(self.seed, spawn_key=key)
        return np.random.Generator(np.random.SFC64(sequence))

    @property
    def tail(self) -> float:
        """Probability beyond one end of the interval."""
        return (1 - self.level) / 2
