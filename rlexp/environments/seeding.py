"""A wrapper that seeds every episode from the environment's own generator."""

from typing import Any

import gymnasium
from gymnasium.utils import seeding

# NumPy draws 64-bit integers with a sign, so this is the largest possible bound.
_SEEDS = 2**63


class SeededEpisodes(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Passes a seed to every reset; after the first, the environment's generator draws it.

    Some environments are reproducible only in their first episode: a reset without a seed takes a
    seed from the operating system (gym-electric-motor), or continues a generator whose state cannot
    be read (the Arcade Learning Environment). Inside this wrapper the environment's own generator
    determines every episode, so that a run can be repeated and continued bit for bit.
    """

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset with the given seed, or with a drawn one."""
        if seed is None:
            seed = int(self.unwrapped.np_random.integers(_SEEDS))
        # Some environments do not seed this generator when they are reset with a seed.
        self.unwrapped.np_random, _ = seeding.np_random(seed)
        return self.env.reset(seed=seed, options=options)
