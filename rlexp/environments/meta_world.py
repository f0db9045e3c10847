"""Tasks of Meta-World: one, or several that one policy learns together."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, SupportsFloat

import gymnasium
import numpy as np
from annotated_types import Ge, Le, MinLen

from rlexp.environments import MEASURES, Reference, Vector
from rlexp.environments.wrappers import Wrapper, check_allowed, check_faithful, imported, wrap
from rlexp.errors import ConfigError, did_you_mean

Env = gymnasium.Env[Any, Any]
Array = np.ndarray[Any, Any]
_OBSERVED = 39
"""Numbers of one observation: the present and the last frame of 18, and the goal."""
_REACH = 4
"""Numbers of an action: where the hand moves, and how far the gripper closes."""
SUCCESS = "success"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaWorldTask:
    """Tasks of Meta-World (Yu et al. 2020), each with its fifty goals (MT1, MT10, MT50).

    Meta-World itself ignores the seed of a reset, and draws goals from NumPy's global generator.
    Here `goals` decides which goals there are, the same for training and evaluation as in its
    benchmarks, and the seed of a reset decides which of them is played.
    """

    name: str | None
    """The name under which scores are compared; null takes that of the only task."""
    tasks: Annotated[tuple[str, ...], MinLen(1)]
    """Names of Meta-World (`reach-v3`); several give each observation a one-hot tail."""
    goals: Annotated[int, Ge(0)]
    """The seed from which the fifty goals of each task are drawn."""
    max_episode_steps: Annotated[int, Ge(1), Le(500)]
    """Steps after which an episode is cut; Meta-World itself goes up to 500."""
    wrappers: tuple[Wrapper, ...]
    """Wrappers, the innermost first."""
    vector: Vector
    """How training vectorises it."""
    reference: Reference
    """Known scores of the task."""

    def __post_init__(self) -> None:
        if len(set(self.tasks)) != len(self.tasks):
            raise ConfigError(f"environment.tasks={list(self.tasks)} must be different names")
        if len(self.tasks) > 1 and self.name is None:
            raise ConfigError("environment.name is needed for several tasks: environment.name=…")
        for wrapper in self.wrappers:
            check_allowed(wrapper, frozenset())
            check_faithful(wrapper)

    @property
    def task(self) -> str:
        """The name under which scores are compared."""
        return self.name or f"Meta-World/{self.tasks[0]}"

    def make(self, render: str | None = None, inner: Callable[[Env], Env] | None = None) -> Env:
        """Return one fresh environment, unseeded, with its wrappers.

        Args:
            render: A render mode of the environment (`rgb_array`), or none.
            inner: Wraps the bare environment before any wrapper of the configuration does.

        Raises:
            ConfigError: Meta-World is not installed, or has no such task.
        """
        known = imported("metaworld").ALL_V3_ENVIRONMENTS
        for name in self.tasks:
            if name not in known:
                raise ConfigError(
                    f"environment.tasks: '{name}' is no task of Meta-World"
                    f"{did_you_mean(name, known)}"
                )
        several = SeveralTasks(self.tasks, self.goals, render)
        environment: Env = gymnasium.wrappers.TimeLimit(several, self.max_episode_steps)
        if inner is not None:
            environment = inner(environment)
        for wrapper in self.wrappers:
            environment = wrap(environment, wrapper, frozenset())
        return environment


class SeveralTasks(gymnasium.Env[Array, Array]):
    """One of several tasks in each episode, and one of its goals.

    In training both are drawn; an evaluation, which calls `deal`, plays the tasks in turn, so that
    each has its share of the episodes. `success` is 1 where the episode came to its goal at any
    step, and with several tasks `success/<task>` is the same for those of one task.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 80}  # noqa: RUF012

    def __init__(self, names: tuple[str, ...], goals: int, render: str | None) -> None:
        """Simulators are made when their task is first played.

        Args:
            names: Of the tasks.
            goals: The seed from which the goals of each are drawn.
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
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (_REACH,), np.float32)

    def deal(self, position: int, of: int) -> None:
        """Play every `of`-th task in turn, from `position` on, instead of drawing them."""
        self._turn = (position, of)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Choose a task and a goal, and begin."""
        super().reset(seed=seed, options=options)
        self._present = self._next()
        goals = _goals(self._name, self._goals)
        self._simulator.set_task(goals[int(self.np_random.integers(len(goals)))])
        observation, info = self._simulator.reset()
        self._success = 0.0
        return self._told(observation), info

    def step(self, action: Array) -> tuple[Array, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, and tell the success as the episode ends."""
        observation, reward, terminated, truncated, info = self._simulator.step(action)
        self._success = max(self._success, float(info[SUCCESS]))
        measures = {SUCCESS: self._success}
        if len(self._names) > 1:
            measures[f"{SUCCESS}/{self._name}"] = self._success
        # Whoever cuts the episode, its last step has them.
        info[MEASURES] = measures
        return self._told(observation), float(reward), terminated, truncated, info

    def render(self) -> Any:
        """Return a picture of the present task."""
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

    def _told(self, observation: Array) -> Array:
        if len(self._names) == 1:
            return observation
        tail = np.zeros(len(self._names))
        tail[self._present] = 1.0
        return np.concatenate([observation, tail])


@cache
def _goals(name: str, seed: int) -> tuple[Any, ...]:
    """The fifty goals of a task; drawing them takes fifty resets of its simulator."""
    return tuple(imported("metaworld").MT1(name, seed=seed).train_tasks)
