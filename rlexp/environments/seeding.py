"""Seeds for every episode, where an environment would take those of later ones from elsewhere."""

from typing import Any

import gymnasium
from gymnasium.utils import seeding

_SEEDS = 2**63


class SeededEpisodes(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Hands a seed to every reset: after the first, one that the environment's generator draws.

    Some environments repeat only up to the end of their first episode: a reset without a seed
    takes one from the system (gym-electric-motor), or goes on with a generator into which nobody
    can look (the Arcade Learning Environment). Inside this wrapper each episode follows from the
    environment's own generator, so that a run repeats, and continues, to the bit.
    """

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset with the seed, or with a drawn one."""
        if seed is None:
            seed = int(self.unwrapped.np_random.integers(_SEEDS))
        # Not every environment seeds its generator when it is reset with a seed.
        self.unwrapped.np_random, _ = seeding.np_random(seed)
        return self.env.reset(seed=seed, options=options)
