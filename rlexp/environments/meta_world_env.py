"""The environment of one or several tasks of Meta-World."""

from functools import cache
from typing import Any, SupportsFloat

import gymnasium
import numpy as np

from rlexp.environments import MEASURES
from rlexp.environments.wrappers import imported

Env = gymnasium.Env[Any, Any]
Array = np.ndarray[Any, Any]
_OBSERVED = 39
"""Entries of an observation: the current and the last frame with 18 each, and the goal with 3."""
_ACTION_SIZE = 4
"""Entries of an action: the movement of the hand (3) and the force of the gripper."""
SUCCESS = "success"


def make_meta_world(names: tuple[str, ...], goals: int, render: str | None, steps: int) -> Env:
    """Return an environment of tasks whose episodes are truncated after `steps` steps."""
    return gymnasium.wrappers.TimeLimit(MetaWorldEnvironment(names, goals, render), steps)


class MetaWorldEnvironment(gymnasium.Env[Array, Array]):
    """Plays one task with one of its goals in each episode.

    Training draws the task; an evaluation calls `deal` and plays the tasks in turn, so that each
    task has an equal number of episodes. Goals are drawn in both. The measure `success` is 1 if the
    episode reached its goal at any step; with several tasks, `success/<task>` is the same for one
    task.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 80}  # noqa: RUF012

    def __init__(self, names: tuple[str, ...], goals: int, render: str | None) -> None:
        """Create the environment; simulators are created when their task is first played.

        Args:
            names: Names of the tasks.
            goals: The seed from which the goals of each task are drawn.
            render: A render mode, or none.
        """
        self.render_mode = render
        self._names = names
        self._goals = goals
        self._simulators: dict[str, Any] = {}
        self._present = 0
        self._turn: tuple[int, int] | None = None
        self._success = 0.0
        size = _OBSERVED + (len(names) if len(names) > 1 else 0)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float64)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (_ACTION_SIZE,), np.float32)

    def deal(self, position: int, of: int) -> None:
        """Play every `of`-th task in turn from `position` on, instead of drawing tasks."""
        self._turn = (position, of)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Choose a task and a goal, and begin an episode."""
        super().reset(seed=seed, options=options)
        self._present = self._next()
        goals = _goals(self._name, self._goals)
        self._simulator.set_task(goals[int(self.np_random.integers(len(goals)))])
        observation, info = self._simulator.reset()
        self._success = 0.0
        return self._with_task(observation), info

    def step(self, action: Array) -> tuple[Array, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step; the info dictionary holds the success so far."""
        observation, reward, terminated, truncated, info = self._simulator.step(action)
        self._success = max(self._success, float(info[SUCCESS]))
        measures = {SUCCESS: self._success}
        if len(self._names) > 1:
            measures[f"{SUCCESS}/{self._name}"] = self._success
        # At every step, because a time limit outside may truncate the episode at any of them.
        info[MEASURES] = measures
        return self._with_task(observation), float(reward), terminated, truncated, info

    def render(self) -> Any:
        """Return an image of the current task."""
        return self._simulator.render()

    def close(self) -> None:
        """Close all simulators."""
        for simulator in self._simulators.values():
            simulator.close()
        self._simulators.clear()

    @property
    def _name(self) -> str:
        return self._names[self._present]

    @property
    def _simulator(self) -> Any:
        if self._name not in self._simulators:
            kind = imported("metaworld").ALL_V3_ENVIRONMENTS[self._name]
            self._simulators[self._name] = kind(render_mode=self.render_mode)
        return self._simulators[self._name]

    def _next(self) -> int:
        if self._turn is None:
            return int(self.np_random.integers(len(self._names)))
        position, step = self._turn
        self._turn = (position + step, step)
        return position % len(self._names)

    def _with_task(self, observation: Array) -> Array:
        if len(self._names) == 1:
            return observation
        tail = np.zeros(len(self._names))
        tail[self._present] = 1.0
        return np.concatenate([observation, tail])


@cache
def _goals(name: str, seed: int) -> tuple[Any, ...]:
    """Return the fifty goals of a task; cached, because drawing them takes fifty resets."""
    return tuple(imported("metaworld").MT1(name, seed=seed).train_tasks)
