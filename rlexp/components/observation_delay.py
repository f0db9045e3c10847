"""Observation delay: observations are some steps old (Katsikopoulos & Engelbrecht 2003)."""

from dataclasses import dataclass
from typing import Any, ClassVar, SupportsFloat

import gymnasium as gym

from rlexp.components.delays import Delay, Delayed, DelayLine
from rlexp.environments import Stage
from rlexp.protocol.identity import Identity

Env = gym.Env[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationDelay(Delayed):
    """Observations arrive some steps late; rewards and the end of an episode do not."""

    identity: ClassVar = Identity("component", "observation_delay")

    def __post_init__(self) -> None:
        self.check_range("observation_delay")

    def wrap(self, environment: Env, stage: Stage) -> Env:
        """Return the environment with late observations, or unchanged if there is no delay."""
        if not self.acts(stage) or self.most == 0:
            return environment
        return LateObservations(environment, self.delay)


class LateObservations(gym.Wrapper[Any, Any, Any, Any]):
    """Returns the first observation until a newer delayed one arrives."""

    def __init__(self, env: Env, delay: Delay) -> None:
        super().__init__(env)
        self._line = DelayLine(delay)

    def reset(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        """Reset, and discard the observations under way."""
        observation, info = self.env.reset(**settings)
        self._line.begin(observation, 0, self.np_random)
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, and return the newest observation that has arrived."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        arrived = self._line.pass_on(observation, self.np_random)
        return arrived, reward, terminated, truncated, info
