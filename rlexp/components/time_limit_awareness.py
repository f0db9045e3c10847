"""Time-limit awareness: the remaining time is part of the observation (Pardo et al. 2018).

That is for tasks whose time limit is part of them. Where it only cuts episodes short, nothing is to
be added: stable-baselines3 goes on with the value of the last observation, as the paper advises.
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
    """The share of time that remains, from 1 to 0, follows the other entries of an observation."""

    identity: ClassVar = Identity("component", "time_limit_awareness")

    @property
    def splits(self) -> bool:
        """It acts at every stage, for it changes the space."""
        return False

    def wrap(self, environment: Env, stage: Stage) -> Env:  # noqa: ARG002
        """Return the environment with the remaining time in its observations.

        Raises:
            ConfigError: Observations are no flat arrays of numbers, or episodes have no limit.
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
    """An environment that shows the share of time that remains.

    Where several limits stand around it, the tightest counts; a limit inside wrappers that skip
    frames counts frames.
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
        """The observation and the remaining share of time; shape: entries + 1."""
        remaining = min(
            1.0 - limit._elapsed_steps / limit._max_episode_steps  # noqa: SLF001
            for limit in self._limits
        )
        return np.append(observation, observation.dtype.type(remaining))


def _limits(env: Env) -> list[Any]:
    """The time limits around an environment, which count the steps of an episode.

    Raises:
        ConfigError: There is none.
    """
    found = []
    while isinstance(env, gym.Wrapper):
        if isinstance(env, gym.wrappers.TimeLimit):
            found.append(env)
        env = env.env
    if not found:
        raise ConfigError(
            f"component {NAME} needs a time limit, and episodes have none: set "
            "environment.max_episode_steps"
        )
    return found
