"""Sticky actions: the last action is repeated at random (Machado et al. 2018, section 5)."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, SupportsFloat

import gymnasium as gym
from annotated_types import Interval

from rlexp.components.stages import Staged
from rlexp.environments import Stage
from rlexp.protocol.identity import Identity

Env = gym.Env[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StickyActions(Staged):
    """Takes the action of the last step instead of the current one with some probability."""

    identity: ClassVar = Identity("component", "sticky_actions")

    probability: Annotated[float, Interval(ge=0, lt=1)]
    """Probability that an action is replaced; the paper uses 0.25."""

    def wrap(self, environment: Env, stage: Stage) -> Env:
        """Return the environment with sticky actions, or unchanged at other stages."""
        if not self.acts(stage):
            return environment
        return StickyEnvironment(environment, self.probability)


class StickyEnvironment(gym.Wrapper[Any, Any, Any, Any]):
    """Repeats actions at random, drawn from the environment's own generator."""

    acts_as = "component sticky_actions"

    def __init__(self, env: Env, probability: float) -> None:
        super().__init__(env)
        self.acted = 0
        self._probability = probability
        self._before: Any = None

    def reset(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        """Reset; the first action of an episode is never replaced."""
        self._before = None
        return self.env.reset(**settings)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step with this action or with the last one."""
        if self._before is not None and self.np_random.random() < self._probability:
            action = self._before
            self.acted += 1
        # The action that was taken, not the requested one: a repeated action may repeat again.
        self._before = action
        return self.env.step(action)
