"""Time-limit awareness: the remaining time is part of the observation (Pardo et al. 2018).

Use it for tasks whose time limit is part of the task. If the limit only truncates episodes, do not
add it: stable-baselines3 then bootstraps from the value of the last observation, as the paper
advises.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlexp.components.spaces import require_box
from rlexp.environments import Stage
from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity

Env = gym.Env[Any, Any]
NAME = "time_limit_awareness"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimitAwareness:
    """Appends the remaining share of time, from 1 to 0, to observations."""

    identity: ClassVar = Identity("component", "time_limit_awareness")

    @property
    def splits(self) -> bool:
        """False: the component acts at every stage, because it changes the space."""
        return False

    def wrap(self, environment: Env, stage: Stage) -> Env:  # noqa: ARG002
        """Return the environment with the remaining time in its observations.

        Raises:
            ConfigError: Observations are not flat arrays of numbers, or there is no time limit.
        """
        space = require_box(environment.observation_space, NAME, "observations")
        if len(space.shape) != 1 or space.dtype.kind != "f":
            raise ConfigError(
                f"component {NAME} needs observations that are flat arrays of real numbers, not "
                f"of shape {space.shape} and type {space.dtype}: flatten them with "
                "environment.wrappers, or leave it out"
            )
        return TimedEnvironment(environment, space)


class TimedEnvironment(gym.ObservationWrapper[Any, Any, Any]):
    """Appends the remaining share of time to observations.

    With several time limits, the tightest counts. A limit inside of wrappers that skip frames
    counts frames.
    """

    def __init__(self, env: Env, space: gym.spaces.Box) -> None:
        super().__init__(env)
        self._limits = _limits(env)
        self.observation_space = gym.spaces.Box(
            np.append(space.low, 0.0).astype(space.dtype),
            np.append(space.high, 1.0).astype(space.dtype),
            dtype=space.dtype.type,
        )

    def observation(self, observation: Any) -> NDArray[Any]:
        """Return the observation with the remaining share of time; shape: entries + 1."""
        remaining = min(
            1.0 - limit._elapsed_steps / limit._max_episode_steps  # noqa: SLF001
            for limit in self._limits
        )
        return np.append(observation, observation.dtype.type(remaining))


def _limits(env: Env) -> list[Any]:
    """Return the time limit wrappers of an environment.

    Raises:
        ConfigError: There is no time limit.
    """
    limits = []
    while isinstance(env, gym.Wrapper):
        if isinstance(env, gym.wrappers.TimeLimit):
            limits.append(env)
        env = env.env
    if not limits:
        raise ConfigError(
            f"component {NAME} needs a time limit, and episodes have none: set "
            "environment.max_episode_steps"
        )
    return limits
