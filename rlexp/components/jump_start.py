"""Jump-start: a guide takes the first steps of each training episode, fewer and fewer over time.

Uchendu et al. 2022, "Jump-Start Reinforcement Learning", algorithm 1 (curriculum) and its variant
in which the number of steps of the guide is drawn (JSRL-Random).
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
    """A guide takes the first steps of training episodes; the learner never sees these steps."""

    identity: ClassVar = Identity("component", "jump_start", excluded=("guide",))

    guide: str
    """The folder of a completed run, or of an experiment with one run, whose policy guides."""
    weights: str | None
    """The digest of that policy; null records the digest of the present policy."""
    steps: Annotated[int, Ge(0)]
    """Steps that the guide takes in the first stage; 0 disables the guide."""
    schedule: Literal["curriculum", "random"]
    """`curriculum` lowers the steps when the learner is good enough; `random` draws them."""
    stages: Annotated[int, Ge(1)]
    """Number of stages in which the steps are lowered to 0 (curriculum)."""
    window: Annotated[int, Ge(1)]
    """Number of episodes in a mean return (curriculum)."""
    tolerance: Annotated[float, Interval(ge=0, lt=1)]
    """Share of the best mean by which the current mean may be lower (curriculum)."""

    @property
    def splits(self) -> bool:
        """False: evaluation uses the same distribution as training."""
        return False

    def pinned(self) -> "JumpStart":
        """Return this component with the digest of its guide.

        Raises:
            ConfigError: The policy does not exist.
        """
        if self.weights or not self.steps:
            return self
        return replace(self, weights=final_weights(self.guide, NAME))

    def wrap(self, environment: Env, stage: Stage) -> Env:
        """Return the environment with a guide for training, else unchanged.

        Raises:
            ConfigError: The guide does not fit the environment.
        """
        if stage is not Stage.TRAINING or self.steps == 0:
            return environment
        guide = load_guide(self.guide, self.weights, environment, NAME)
        return JumpStartedEnvironment(environment, guide, self)


class JumpStartedEnvironment(gym.Wrapper[Any, Any, Any, Any]):
    """An environment in which the guide takes the first steps of each episode."""

    resets_again = True
    acts_as = "component jump_start"

    def __init__(self, env: Env, guide: Guide, settings: JumpStart) -> None:
        super().__init__(env)
        self._guide, self._settings = guide, settings
        self._stages_done = 0
        self._best: float | None = None
        self._returns: deque[float] = deque(maxlen=settings.window)
        self._return = 0.0
        self.acted = 0

    @property
    def horizon(self) -> int:
        """Largest number of steps of the guide in the current stage."""
        left = 1 - self._stages_done / self._settings.stages
        return round(self._settings.steps * left)

    def reset(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        """Reset, let the guide act, and return the observation where the learner takes over."""
        result = self.env.reset(**settings)
        self._return = 0.0
        steps = self.horizon
        if self._settings.schedule == "random":
            steps = int(self.np_random.integers(steps + 1))
        return self._led(result, steps)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step; at the end of an episode, update the curriculum."""
        result = self.env.step(action)
        self._return += float(result[1])
        if (result[2] or result[3]) and self._settings.schedule == "curriculum":
            self._learn(self._return)
        return result

    def _led(self, result: tuple[Any, dict[str, Any]], steps: int) -> tuple[Any, dict[str, Any]]:
        """Let the guide take `steps` steps; if the episode ends before, reset and stop."""
        self._guide.begin()
        observation, info = result
        for _ in range(steps):
            action = self._guide.act(observation)
            self.acted += 1
            observation, reward, terminated, truncated, info = self.env.step(action)
            self._return += float(reward)
            if terminated or truncated:
                self._return = 0.0
                return self.env.reset()
        return observation, info

    def _learn(self, value: float) -> None:
        """Algorithm 1: enter the next stage when the mean return reaches the best one so far."""
        self._returns.append(value)
        if len(self._returns) < self._settings.window or self.horizon == 0:
            return
        mean = fmean(self._returns)
        # The first mean has nothing to be compared with, and passes.
        best = mean if self._best is None else self._best
        # The size of the best mean, because a negative return would reverse the tolerance.
        if mean >= best - self._settings.tolerance * abs(best):
            self._stages_done += 1
            self._returns.clear()
        self._best = max(best, mean)
