"""Action delay: actions take effect some steps late (Katsikopoulos & Engelbrecht 2003)."""

from dataclasses import dataclass
from typing import Any, ClassVar, SupportsFloat

import gymnasium as gym
import numpy as np

from rlexp.components.delays import Delay, Delayed, DelayLine
from rlexp.environments import Stage
from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity

Env = gym.Env[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionDelay(Delayed):
    """Actions take effect some steps late."""

    identity: ClassVar = Identity("component", "action_delay")

    initial: float
    """Value of every entry of the action that is taken until the first action arrives."""

    def __post_init__(self) -> None:
        self.check_range("action_delay")

    def wrap(self, environment: Env, stage: Stage) -> Env:
        """Return the environment with late actions, or unchanged if there is no delay.

        Raises:
            ConfigError: The initial action is not in the action space.
        """
        initial = _initial(environment.action_space, self.initial)
        if not self.acts(stage) or self.most == 0:
            return environment
        return LateActions(environment, self.delay, initial)


class LateActions(gym.Wrapper[Any, Any, Any, Any]):
    """Takes the initial action until the first delayed action arrives."""

    def __init__(self, env: Env, delay: Delay, initial: Any) -> None:
        super().__init__(env)
        self._line = DelayLine(delay)
        self._initial = initial

    def reset(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        """Reset, and discard the actions under way."""
        result = self.env.reset(**settings)
        # After the reset, which seeds the generator that draws the delay.
        self._line.begin(self._initial, self._line.delay.most, self.np_random)
        return result

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step with the newest action that has arrived."""
        return self.env.step(self._line.pass_on(action, self.np_random))


def _initial(space: gym.Space[Any], value: float) -> Any:
    """Return the action with `value` in every entry."""
    if not isinstance(space, gym.spaces.Discrete) and space.shape is None:
        raise ConfigError(
            f"component action_delay needs actions that are numbers or arrays of them, not "
            f"{type(space).__name__}: leave it out, or take another environment"
        )
    # `[()]` turns an array without dimensions into a number, as Discrete spaces have them.
    action = np.full(space.shape or (), value, dtype=space.dtype)[()]
    # The cast to an integer type would silently cut a fraction off.
    whole = np.issubdtype(space.dtype, np.floating) or float(value).is_integer()
    if not (whole and space.contains(action)):
        raise ConfigError(
            f"environment.components.action_delay.initial={value:g} is no action of {space}: give "
            "a number that is one"
        )
    return action
