"""Jump-start: a guide begins each episode, and leaves it to the learner earlier and earlier.

Uchendu et al. 2022, "Jump-Start Reinforcement Learning", algorithm 1 (curriculum) and its variant
in which the steps of the guide are drawn (JSRL-Random).
"""

from collections import deque
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Annotated, Any, ClassVar, Literal, SupportsFloat

import gymnasium as gym
from annotated_types import Ge, Interval

from rlexp.components.guides import Guide, final_weights, load_guide
from rlexp.environments import Stage
from rlexp.protocol.identity import Identity

Env = gym.Env[Any, Any]
NAME = "jump_start"


@dataclass(frozen=True, slots=True, kw_only=True)
class JumpStart:
    """The guide takes the first steps of episodes in training; what it earns there counts nowhere."""

    identity: ClassVar = Identity("component", "jump_start", excluded=("guide",))

    guide: str
    """The folder of a completed run, or of an experiment with one, whose final policy guides."""
    weights: str | None
    """The digest of that policy; null takes, and records, the one that is there."""
    steps: Annotated[int, Ge(0)]
    """Steps that the guide takes at the beginning; 0 leaves everything to the learner."""
    schedule: Literal["curriculum", "random"]
    """Fewer steps once the learner is good enough; or drawn anew, evenly, in every episode."""
    stages: Annotated[int, Ge(1)]
    """In how many stages the steps go down to none (curriculum)."""
    window: Annotated[int, Ge(1)]
    """Episodes whose mean return is compared (curriculum)."""
    tolerance: Annotated[float, Interval(ge=0, lt=1)]
    """By which share of the best mean so far the present one may be lower (curriculum)."""

    @property
    def splits(self) -> bool:
        """It helps to learn; evaluation holds nothing out."""
        return False

    def pinned(self) -> "JumpStart":
        """The same with the digest of its guide.

        Raises:
            ConfigError: There is no such policy.
        """
        if self.weights or not self.steps:
            return self
        return replace(self, weights=final_weights(self.guide, NAME))

    def wrap(self, environment: Env, stage: Stage) -> Env:
        """Return the environment with a guide, where it trains.

        Raises:
            ConfigError: The guide does not fit the environment.
        """
        if stage is not Stage.TRAINING or self.steps == 0:
            return environment
        guide = load_guide(self.guide, self.weights, environment, NAME)
        return JumpStartedEnvironment(environment, guide, self)


class JumpStartedEnvironment(gym.Wrapper[Any, Any, Any, Any]):
    """An environment whose episodes begin where the guide leaves them."""

    resets_again = True

    def __init__(self, env: Env, guide: Guide, settings: JumpStart) -> None:
        super().__init__(env)
        self._guide, self._settings = guide, settings
        self._stages_done = 0
        self._best: float | None = None
        self._returns: deque[float] = deque(maxlen=settings.window)
        self._return = 0.0

    @property
    def horizon(self) -> int:
        """Steps that the guide takes at most."""
        left = 1 - self._stages_done / self._settings.stages
        return round(self._settings.steps * left)

    def reset(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        """Reset, and let the guide go first."""
        result = self.env.reset(**settings)
        self._return = 0.0
        steps = self.horizon
        if self._settings.schedule == "random":
            steps = int(self.np_random.integers(steps + 1))
        return self._led(result, steps)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step; at the end of an episode, see whether the learner can do with less."""
        result = self.env.step(action)
        self._return += float(result[1])
        if (result[2] or result[3]) and self._settings.schedule == "curriculum":
            self._learn(self._return)
        return result

    def _led(self, result: tuple[Any, dict[str, Any]], steps: int) -> tuple[Any, dict[str, Any]]:
        """Where the guide has come to; it begins anew, and leaves at once, where an episode ends."""
        self._guide.begin()
        observation, info = result
        for _ in range(steps):
            action = self._guide.act(observation)
            observation, reward, terminated, truncated, info = self.env.step(action)
            self._return += float(reward)
            if terminated or truncated:
                self._return = 0.0
                return self.env.reset()
        return observation, info

    def _learn(self, value: float) -> None:
        """Algorithm 1: go on to the next stage when the mean is as good as the best so far."""
        self._returns.append(value)
        if len(self._returns) < self._settings.window or self.horizon == 0:
            return
        mean = fmean(self._returns)
        best = mean if self._best is None else self._best
        if mean >= best - self._settings.tolerance * abs(best):
            self._stages_done += 1
            self._returns.clear()
        self._best = max(best, mean)
