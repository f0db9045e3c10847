"""The library's hindsight buffer, in a form that checkpoints can hold."""

from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Dict, Space
from stable_baselines3.common.buffers import DictReplayBuffer
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.her import HerReplayBuffer


class HindsightBuffer(HerReplayBuffer):
    """`HerReplayBuffer`, unchanged in what it stores and draws.

    The first row of a transition's episode never changes, and neither does its info. The length of the
    episode is written at its end, and becomes 0 when the episode is overwritten.
    """

    changing: ClassVar[frozenset[str]] = frozenset({"ep_length", "_current_ep_start"})

    def __init__(
        self,
        buffer_size: int,
        observation_space: Dict,
        action_space: Space[Any],
        env: VecEnv,
        *,
        n_sampled_goal: int = 4,
        goal_selection_strategy: str = "future",
        copy_info_dict: bool = False,
        n_envs: int = 1,
        **settings: Any,
    ) -> None:
        # The library makes a dictionary for each transition, which takes seconds for a million of
        # them. So its buffer has one row first, and is then enlarged.
        super().__init__(
            n_envs,
            observation_space,
            action_space,
            env,
            n_envs=n_envs,
            n_sampled_goal=n_sampled_goal,
            goal_selection_strategy=goal_selection_strategy,
            copy_info_dict=copy_info_dict,
            **settings,
        )
        DictReplayBuffer.__init__(
            self, buffer_size, observation_space, action_space, n_envs=n_envs, **settings
        )
        shape = (self.buffer_size, n_envs)
        self.ep_start, self.ep_length = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        self.infos = np.empty(shape if copy_info_dict else (0, n_envs), dtype=object)

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
