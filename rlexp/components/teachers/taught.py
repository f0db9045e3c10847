"""The wrappers of an environment whose contexts a teacher chooses."""

import math
from typing import Any, Literal, SupportsFloat

import gymnasium as gym
import numpy as np

from rlexp.components.teachers import Array, Lessons, Teacher
from rlexp.environments import MEASURES, Stage
from rlexp.environments.composed import RESETS_AGAIN
from rlexp.environments.run_teacher import LESSON
from rlexp.errors import ConfigError, EnvironmentFault

Env = gym.Env[Any, Any]
RETURN = "return"
"""The outcome that is the sum of rewards of an episode, as this wrapper receives them."""
METHODS = {"context": ("plan_next", "as_trained"), "level": ("plan_level", "as_level")}
"""The methods of the wrapper of contexts or levels: one plans a task, one returns the nearest task."""
LACKING = {
    "context": "a teacher needs an environment that declares contexts, as "
    "environment=cartpole_contexts does: choose such a one, or teacher=none",
    "level": "a teacher of levels needs an environment with levels: choose component=levels, or "
    "environment=minigrid_four_rooms_levels, or teacher=none",
}
"""The refusals of environments that declare no tasks of a kind."""


def taught(
    environment: Env,
    stage: Stage,
    teacher: Teacher,
    outcome: str | None,
    *,
    of: Literal["context", "level"] = "context",
) -> Env:
    """Return the environment with contexts or levels from a teacher for training, else unchanged.

    Args:
        environment: The environment with a wrapper that declares contexts: attributes
            `context_low` and `context_high` (dimensions), a method `plan_next` that sets the
            context of the next reset, and a method `as_trained` that returns the training
            context nearest to a proposal. One that declares levels has `level_low`,
            `level_high`, `plan_level` and `as_level` instead.
        stage: The use of the environment.
        teacher: The teacher.
        outcome: The outcome that the teacher learns from: `return`, or the name of a measure.
            None is for a teacher whose proposals depend on its generator alone. A killed run is
            continued with such a teacher, and with one whose attribute `shared` is true, which is
            one for all environments; with any other it is started from scratch.
        of: What the teacher chooses; a teacher of levels is one for all environments.

    Raises:
        ConfigError: The environment declares no contexts or levels, or resets again as an episode
            begins.
    """
    if stage is not Stage.TRAINING:
        return environment
    if not environment.has_wrapper_attr(METHODS[of][0]):
        raise ConfigError(LACKING[of])
    if environment.has_wrapper_attr(RESETS_AGAIN):
        raise ConfigError(
            f"a teacher cannot choose {of}s beside jump_start or snapshots, which reset an "
            "episode again as it begins: leave one of them out"
        )
    if of == "level" or getattr(teacher, "shared", False):
        return LessonEnvironment(environment, outcome, of=of)
    return TaughtEnvironment(environment, teacher, outcome)


class TaughtEnvironment(gym.Wrapper[Any, Any, Any, Any]):
    """Takes the context of each episode from a teacher, and reports the outcome to it."""

    acts_as = "teacher"

    def __init__(self, env: Env, teacher: Teacher, outcome: str | None) -> None:
        super().__init__(env)
        self._teacher, self._outcome = teacher, outcome
        self._plan_next = env.get_wrapper_attr("plan_next")
        self._as_trained = env.get_wrapper_attr("as_trained")
        self._low = np.asarray(env.get_wrapper_attr("context_low"), dtype=np.float64)
        self._high = np.asarray(env.get_wrapper_attr("context_high"), dtype=np.float64)
        self._lessons: Lessons | None = None
        self._task = self._low
        self._return = 0.0
        # The number of reported outcomes, as an array: a replay sets plain counters to their old
        # values, but must fail here, since it cannot restore lessons, and digests skip teachers
        # from other packages.
        self._told = np.zeros(1)

    @property
    def acted(self) -> int | None:
        """How often outcomes have changed what is proposed; None for a teacher that does not count it."""
        return getattr(self._lessons, "acted", None)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset to the proposed context; a seed, or the first reset, starts new lessons."""
        if seed is not None or self._lessons is None:
            # This reset seeds the generator that the lessons draw from.
            self.env.reset(seed=seed, options=options)
            self._lessons = self._teacher.begin(self._low, self._high, self.np_random)
        self._task = self._as_trained(self._lessons.propose())
        self._return = 0.0
        self._plan_next(self._task.copy())
        # Without the seed, which would replace the generator that the lessons draw from.
        return self.env.reset(options=options)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step; report the outcome at the end of an episode. A reset before the end reports none."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self._outcome is not None:
            self._return += float(reward)
            if terminated or truncated:
                self._report_outcome(self._outcome, info)
        return observation, reward, terminated, truncated, info

    def _report_outcome(self, outcome: str, info: dict[str, Any]) -> None:
        assert self._lessons is not None, "stepped before a reset"
        value = _value_of(outcome, self._return, info)
        if math.isfinite(value):
            self._told += 1
            self._lessons.learn(self._task, value)


class LessonEnvironment(gym.Wrapper[Any, Any, Any, Any]):
    """Plays the tasks that the teacher of the run plans, and reports each with its outcome.

    Without a planned task, contexts are drawn as they are declared.
    """

    def __init__(
        self, env: Env, outcome: str | None, *, of: Literal["context", "level"] = "context"
    ) -> None:
        """Wrap `env`.

        Args:
            env: The environment, with a wrapper that declares contexts or levels.
            outcome: The outcome to report: `return`, or the name of a measure; None reports none.
            of: Whether tasks are contexts or levels.
        """
        super().__init__(env)
        self._outcome, self._of = outcome, of
        plan, nearest = METHODS[of]
        self._plan_next = env.get_wrapper_attr(plan)
        self._as_trained = env.get_wrapper_attr(nearest)
        self._task: Array | None = None
        self._return = 0.0

    @property
    def task_box(self) -> tuple[Array, Array]:
        """The least and the greatest value of each dimension of a task."""
        low, high = (self.env.get_wrapper_attr(f"{self._of}_{end}") for end in ("low", "high"))
        return np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)

    def plan_task(self, task: Array) -> None:
        """Play a task (dimensions) from the next reset on; the nearest one of the training contexts."""
        self._task = self._as_trained(task)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset to the planned task."""
        if self._task is not None:
            self._plan_next(self._task.copy())
        self._return = 0.0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step; the last step of an episode reports its task and its outcome."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._return += float(reward)
        if terminated or truncated:
            outcome = self._outcome
            value = None if outcome is None else _value_of(outcome, self._return, info)
            if self._task is not None:
                info[LESSON] = (self._task, value)
        return observation, reward, terminated, truncated, info


def _value_of(outcome: str, total: float, info: dict[str, Any]) -> float:
    """Return the outcome of an episode: its return `total`, or a measure of its last step.

    Raises:
        EnvironmentFault: The measure does not exist; names those that do.
    """
    if outcome == RETURN:
        return total
    measures = info.get(MEASURES, {})
    if outcome not in measures:
        raise EnvironmentFault.unknown(
            f"environment.components.teacher.outcome={outcome!r} is not measured",
            outcome,
            [RETURN, *sorted(measures)],
            key="environment.components.teacher.outcome",
        )
    return float(measures[outcome])
