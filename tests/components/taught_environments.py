"""An environment with contexts, teachers from other packages, and a simulated student."""

from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import yaml

from rlexp.components.teachers import Array, Lessons
from rlexp.components.teachers.taught import Env, taught
from rlexp.config.validate import build
from rlexp.environments import Stage

FOLDER = Path(__file__).parents[2] / "conf" / "teacher"
OF_LEVELS = {"plr"}
"""Teachers that choose levels instead of contexts."""
PLAIN = {
    "frame_stack": 1,
    "normalise_observations": False,
    "normalise_rewards": False,
    "clip_observations": 10.0,
    "clip_rewards": 10.0,
}
"""Settings of a vector that changes nothing."""
TEACHERS = sorted(
    path.stem for path in FOLDER.glob("*.yaml") if path.stem not in {"none", *OF_LEVELS}
)


def teacher(name: str, **changes: Any) -> Any:
    """The teacher of a yaml file, with changed settings."""
    settings = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())["teacher"]
    return build({**settings, **changes}, "component")


class Slope(gym.Env[Any, Any]):
    """Returns its context as observation, and its height as reward of each of five steps."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(-inf, inf, (2,), np.float64)
        self.action_space = gym.spaces.Discrete(2)
        self.context = np.zeros(2)
        self.length = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.length = 0
        return self.context.copy(), {}

    def step(self, action: Any) -> Any:
        self.length += 1
        terminated = self.length == 5
        info = {"measures": {"success": float(self.context[0] > 1)}} if terminated else {}
        return self.context.copy(), float(self.context[0]), terminated, False, info


class Contexts(gym.Wrapper[Any, Any, Any, Any]):
    """Declares bounds, and draws contexts unless one is planned."""

    context_names = ("height", "width")

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.context_low, self.context_high = np.array([-1.0, 5.0]), np.array([2.0, 5.5])
        self.planned: Array | None = None
        self.played: list[tuple[float, ...]] = []

    def plan_next(self, context: Array) -> None:
        """Set the context of the next episode."""
        self.planned = context

    def as_trained(self, context: Array) -> Array:
        """Return the context: every context of the box is a training context."""
        return context

    def reset(self, **settings: Any) -> Any:
        _, info = self.env.reset(**settings)
        context, self.planned = self.planned, None
        if context is None:
            context = self.np_random.uniform(self.context_low, self.context_high)
        self.env.unwrapped.context = context  # type: ignore[attr-defined]
        return context.copy(), info


@dataclass(frozen=True, slots=True)
class ContextComponent:
    """The component of `Contexts`."""

    splits: bool = False

    def wrap(self, environment: Env, stage: Stage) -> Env:
        """Return the environment inside the wrapper."""
        return Contexts(environment)


@dataclass(slots=True)
class RecordingTeacher:
    """Proposes the lowest task and stores all outcomes; a teacher that is its own lessons."""

    outcome: str | None = "return"
    outcomes: list[tuple[tuple[float, ...], float]] = field(default_factory=list)
    low: Any = None
    splits: bool = False

    def wrap(self, environment: Env, stage: Stage) -> Env:
        """Return the environment that this teacher teaches."""
        return taught(environment, stage, self, self.outcome)

    def begin(self, low: Array, high: Array, generator: np.random.Generator) -> Lessons:
        """Return this teacher as the lessons of every environment."""
        self.low = low
        return self

    def propose(self) -> Array:
        """Return the corner of the box."""
        return np.asarray(self.low)

    def learn(self, task: Array, outcome: float) -> None:
        """Store the outcome."""
        self.outcomes.append((tuple(task.tolist()), outcome))


class Student:
    """Improves on tasks of one region when it trains on them."""

    def __init__(self, low: float, high: float, practice: int) -> None:
        self.low, self.high, self.practice = low, high, practice
        self.trained = 0

    def play(self, task: Array) -> float:
        """Return the return of a task, from 0 to 1."""
        if not self.low <= task[0] <= self.high:
            return 0.0
        self.trained += 1
        return min(1.0, self.trained / self.practice)


gym.register("taught/Slope-v0", f"{__name__}:Slope")
