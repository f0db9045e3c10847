"""Observation delay: what is seen is some steps old (Katsikopoulos & Engelbrecht 2003)."""

from dataclasses import dataclass
from typing import Annotated, Any, SupportsFloat

import gymnasium as gym
from annotated_types import Ge

from rlexp.components.delays import Delay, Each, Line, check_order
from rlexp.components.stages import Acting, acts
from rlexp.environments import Stage

Env = gym.Env[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationDelay:
    """Observations come some steps late; rewards and ends do not."""

    least: Annotated[int, Ge(0)]
    """Steps that it takes at least."""
    most: Annotated[int, Ge(0)]
    """Steps that it takes at most; where that is more, each number is as likely."""
    each: Each
    """How often a random delay is drawn: once an episode, or at every step."""
    stage: Acting
    """Where it acts: both, training or evaluation."""

    def __post_init__(self) -> None:
        check_order("observation_delay", self.least, self.most)

    @property
    def splits(self) -> bool:
        """Whether evaluation plays another distribution than training."""
        return self.stage != "both"

    def wrap(self, environment: Env, stage: Stage) -> Env:
        """Return the environment with late observations, where there is a delay."""
        if not acts(self.stage, stage) or self.most == 0:
            return environment
        delay = Delay(least=self.least, most=self.most, each=self.each)
        return LateObservations(environment, delay)


class LateObservations(gym.Wrapper[Any, Any, Any, Any]):
    """An environment that is seen late; until something newer arrives, its first observation is."""

    def __init__(self, env: Env, delay: Delay) -> None:
        super().__init__(env)
        self._line = Line(delay)

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
