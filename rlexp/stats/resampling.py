"""How randomness is spent: repetitions, level and seed, from which every generator follows."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Resampling:
    """How often to resample, for which level, from which seed.

    The same resampling of the same data gives the same numbers, whatever was computed before.
    """

    seed: int = 0
    repetitions: int = 50_000
    level: float = 0.95

    def __post_init__(self) -> None:
        """Refuse what makes no interval."""
        if self.seed < 0 or self.repetitions < 1 or not 0 < self.level < 1:
            raise ValueError("a seed ≥ 0, repetitions ≥ 1 and a level between 0 and 1 are needed")

    def generator(self, *key: int) -> np.random.Generator:
        """A generator of its own for each key: a block of repetitions, a side of a comparison."""
        sequence = np.random.SeedSequence(self.seed, spawn_key=key)
        return np.random.Generator(np.random.SFC64(sequence))

    @property
    def tail(self) -> float:
        """What lies beyond one end of an interval."""
        return (1 - self.level) / 2
