"""Replay buffers of the library that draw transitions by their errors."""

from typing import Any, ClassVar

import numpy as np
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer
from stable_baselines3.common.type_aliases import DictReplayBufferSamples, ReplayBufferSamples
from stable_baselines3.common.vec_env import VecNormalize

from rlexp.replay.buffers.prioritised_drawing import DrawnMinibatch, PrioritisedDrawing
from rlexp.replay.buffers.priority_tree import Positions, PriorityTree


class _ByPriority(ReplayBuffer):
    """What both buffers share: a transition has the position `row * n_envs + environment`."""

    def __init__(
        self, *arguments: Any, alpha: float, beta: float, epsilon: float, **settings: Any
    ) -> None:
        super().__init__(*arguments, **settings)
        tree = PriorityTree(self.buffer_size * self.n_envs)
        self.drawing = PrioritisedDrawing(alpha=alpha, beta=beta, epsilon=epsilon, tree=tree)

    @property
    def stored(self) -> int:
        """Transitions in the buffer."""
        return (self.buffer_size if self.full else self.pos) * self.n_envs

    def add(self, *transition: Any) -> None:
        """Store a transition of each environment, with the largest priority."""
        first = self.pos * self.n_envs
        super().add(*transition)
        self.drawing.enter(np.arange(first, first + self.n_envs))

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> Any:
        """Draw a minibatch, whose errors the learner then reports to `drawing`."""
        positions, weights = self.drawing.draw(batch_size, self.stored)
        samples = self.transitions_at(positions, env)
        column = self.to_torch(weights.astype(np.float32).reshape(-1, 1))
        self.drawing.awaited = DrawnMinibatch(samples, positions, column)
        return samples

    def transitions_at(self, positions: Positions, env: VecNormalize | None) -> Any:
        """The transitions at positions, as the library's own buffer returns them."""
        raise NotImplementedError

    def changing_state(self) -> dict[str, Any]:
        """The priorities of all stored transitions."""
        return self.drawing.state(self.stored)

    def restore_changing_state(self, state: dict[str, Any]) -> None:
        """Restore the priorities; rows and position are restored before.

        Raises:
            KeyError: The state lacks a part.
            ValueError: It is of another number of transitions.
        """
        self.drawing.restore(state, self.stored)

    def _without_observations(self, positions: Positions, env: VecNormalize | None) -> Any:
        """Actions, ends and rewards at positions; a time limit is no end."""
        rows, which = np.divmod(positions, self.n_envs)
        ends = self.dones[rows, which] * (1 - self.timeouts[rows, which])
        rewards = self._normalize_reward(self.rewards[rows, which].reshape(-1, 1), env)
        parts = (self.actions[rows, which], ends.reshape(-1, 1), rewards)
        return tuple(self.to_torch(part) for part in parts)


class PrioritisedBuffer(_ByPriority):
    """A replay buffer of flat observations or images."""

    changing: ClassVar[frozenset[str]] = frozenset({"drawing"})

    def transitions_at(self, positions: Positions, env: VecNormalize | None) -> Any:
        """The transitions at positions."""
        rows, which = np.divmod(positions, self.n_envs)
        actions, ends, rewards = self._without_observations(positions, env)
        before, after = (
            self.to_torch(np.asarray(self._normalize_obs(array[rows, which], env)))
            for array in (self.observations, self.next_observations)
        )
        return ReplayBufferSamples(before, actions, after, ends, rewards)


class PrioritisedDictBuffer(_ByPriority, DictReplayBuffer):
    """A replay buffer of observations that are dictionaries."""

    changing: ClassVar[frozenset[str]] = frozenset({"drawing"})

    def transitions_at(self, positions: Positions, env: VecNormalize | None) -> Any:
        """The transitions at positions."""
        rows, which = np.divmod(positions, self.n_envs)
        actions, ends, rewards = self._without_observations(positions, env)
        before, after = (
            {key: self.to_torch(value) for key, value in self._normalised(part, rows, which, env)}
            for part in (self.observations, self.next_observations)
        )
        return DictReplayBufferSamples(before, actions, after, ends, rewards)

    def _normalised(
        self, entries: Any, rows: Positions, which: Positions, env: VecNormalize | None
    ) -> Any:
        drawn = {key: array[rows, which] for key, array in entries.items()}
        normalised: Any = self._normalize_obs(drawn, env)
        return normalised.items()
