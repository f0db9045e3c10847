"""Observation delay: what is seen is some steps old (Katsikopoulos & Engelbrecht 2003)."""

from dataclasses import dataclass
from typing import Any, ClassVar, SupportsFloat

import gymnasium as gym

from rlexp.components.delays import Delay, Delayed, DelayLine
from rlexp.environments import Stage
from rlexp.protocol.identity import Identity

Env = gym.Env[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationDelay(Delayed):
    """Observations come some steps late; rewards and ends do not."""

    identity: ClassVar = Identity("component", "observation_delay")

    def __post_init__(self) -> None:
        self.check_order("observation_delay")

    def wrap(self, environment: Env, stage: Stage) -> Env:
        """Return the environment with late observations, where there is a delay."""
        if not self.acts(stage) or self.most == 0:
            return environment
        return LateObservations(environment, self.delay)


class LateObservations(gym.Wrapper[Any, Any, Any, Any]):
    """An environment that is seen late; until something newer arrives, its first observation is."""

    def __init__(self, env: Env, delay: Delay) -> None:
        super().__init__(env)
        self._line = DelayLine(delay)

    def reset(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        """Reset, and forget what was under way."""
        observation, info = self.env.reset(**settings)
        self._line.begin(observation, 0, self.np_random)
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, and see what has arrived."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        seen = self._line.pass_on(observation, self.np_random)
        return seen, reward, terminated, truncated, info
