"""The library's hindsight buffer, in a form that checkpoints can hold."""

from typing import Any, ClassVar

import numpy as np
from stable_baselines3.her import HerReplayBuffer


class HindsightBuffer(HerReplayBuffer):
    """`HerReplayBuffer`, unchanged in what it stores and draws.

    The first row of a transition's episode never changes, and neither does its info. The length of the
    episode is written at its end, and becomes 0 when the episode is overwritten.
    """

    changing: ClassVar[frozenset[str]] = frozenset({"ep_length", "_current_ep_start"})

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        if not self.copy_info_dict:
            # The library makes a dictionary for each transition, and then never uses it.
            self.infos = np.empty((0, self.n_envs), dtype=object)

    @property
    def can_sample(self) -> bool:
        """Whether an episode is complete."""
        return bool(np.any(self.ep_length > 0))

    def changing_state(self) -> dict[str, Any]:
        """The length of each stored transition's episode, and where the present episodes begin."""
        rows = self.buffer_size if self.full else self.pos
        return {
            # A position in the buffer fits 32 bits, and this is written at each checkpoint.
            "lengths": self.ep_length[:rows].astype(np.int32),
            "starts": self._current_ep_start.astype(np.int64),
        }

    def restore_changing_state(self, state: dict[str, Any]) -> None:
        """Restore the lengths and the beginnings; rows and position are restored before.

        Raises:
            KeyError: The state lacks a part.
            ValueError: The state is of another number of transitions or environments.
        """
        rows = self.buffer_size if self.full else self.pos
        lengths, starts = state["lengths"], state["starts"]
        if lengths.shape != (rows, self.n_envs) or starts.shape != (self.n_envs,):
            raise ValueError(f"episodes of {lengths.shape} transitions do not fit {rows} rows")
        self.ep_length[...] = 0
        self.ep_length[:rows] = lengths
        self._current_ep_start = starts.astype(np.int64)
