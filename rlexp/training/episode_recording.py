"""Records the observations, actions and rewards of played episodes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np

from rlexp.datasets.recorded import Episode
from rlexp.environments.composed import Around


class Recording(gym.Wrapper[Any, Any, Any, Any]):
    """Keeps every episode that ends, as the policy sees it: after the wrappers of the task."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.episodes: list[Episode] = []
        self._observations: list[Any] = []
        self._steps: list[tuple[Any, float, bool, bool]] = []

    def reset(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        """Reset, and begin an episode."""
        result = self.env.reset(**settings)
        self._observations, self._steps = [_copy(result[0])], []
        return result

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, and keep the episode that ends."""
        given = np.array(action)
        result = self.env.step(action)
        observation, reward, terminated, truncated, _ = result
        self._observations.append(_copy(observation))
        self._steps.append((given, float(reward), bool(terminated), bool(truncated)))
        if terminated or truncated:
            self.episodes.append(self._episode())
        return result

    def _episode(self) -> Episode:
        actions, rewards, terminations, truncations = zip(*self._steps, strict=True)
        return Episode(
            observations=_stacked(self._observations),
            actions=np.stack(actions),
            rewards=np.asarray(rewards, dtype=np.float64),
            terminations=np.asarray(terminations),
            truncations=np.asarray(truncations),
        )


def _copy(observation: Any) -> Any:
    if isinstance(observation, dict):
        return {key: np.array(entry) for key, entry in observation.items()}
    return np.array(observation)


def _stacked(observations: list[Any]) -> Any:
    if isinstance(observations[0], dict):
        return {key: np.stack([each[key] for each in observations]) for key in observations[0]}
    return np.stack(observations)


@dataclass(frozen=True, slots=True)
class WithRecording(Around):
    """A task whose environments are recorded."""

    recordings: list[Recording] = field(default_factory=list)

    def make(
        self,
        render: str | None = None,
        inner: Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]] | None = None,
    ) -> gym.Env[Any, Any]:
        """Return one fresh environment that is recorded."""
        recording = Recording(self.environment.make(render, inner))
        self.recordings.append(recording)
        return recording

    def episodes(self) -> Iterator[Episode]:
        """Yield the episodes that have ended, of one environment after the other."""
        for recording in self.recordings:
            yield from recording.episodes
