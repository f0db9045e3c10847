"""An environment whose contexts a teacher chooses."""

import math
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np

from rlexp.components.teachers import Lessons, Teacher
from rlexp.environments import MEASURES, Stage
from rlexp.environments.composed import RESETS_AGAIN
from rlexp.errors import ConfigError, EnvironmentFault

Env = gym.Env[Any, Any]
RETURN = "return"
"""The outcome that is the sum of an episode's rewards, as they are where the teacher stands."""


def taught(environment: Env, stage: Stage, teacher: Teacher, outcome: str | None) -> Env:
    """Return the environment with contexts from a teacher if it is for training, or itself.

    Args:
        environment: With a wrapper that declares contexts: that has `context_low` and
            `context_high` (dimensions), and `plan_next`, which the next reset obeys,
            and `as_trained`, which gives the context of training that is nearest to a proposal.
        stage: What it is made for.
        teacher: What chooses.
        outcome: What it learns from: `return`, or a measure of an episode by its name. None is
            for one whose proposals depend on its generator alone: only then is a run with it
            continued, after it was killed, and not begun anew.

    Raises:
        ConfigError: The environment declares no contexts.
    """
    if stage is not Stage.TRAINING:
        return environment
    if not environment.has_wrapper_attr("plan_next"):
        raise ConfigError(
            "a teacher needs an environment that declares contexts, as "
            "environment=cartpole_contexts does: choose such a one, or teacher=none"
        )
    if environment.has_wrapper_attr(RESETS_AGAIN):
        raise ConfigError(
            "a teacher cannot choose contexts beside jump_start or snapshots, which reset an "
            "episode again as it begins: leave one of them out"
        )
    return TaughtEnvironment(environment, teacher, outcome)


class TaughtEnvironment(gym.Wrapper[Any, Any, Any, Any]):
    """An environment that asks a teacher at every reset, and tells it how each episode ended."""

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
        # An array, for counters are put back as a run is continued: lessons cannot be, and a
        # teacher of another package is not looked into.
        self._told = np.zeros(1)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset to what the teacher proposes; lessons begin with a seed, or with the first reset."""
        if seed is not None or self._lessons is None:
            # The generator is the seeded one only after this.
            self.env.reset(seed=seed, options=options)
            self._lessons = self._teacher.begin(self._low, self._high, self.np_random)
        self._task = self._as_trained(self._lessons.propose())
        self._return = 0.0
        self._plan_next(self._task.copy())
        return self.env.reset(options=options)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step; an episode that is cut by a reset is not told."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self._outcome is not None:
            self._return += float(reward)
            if terminated or truncated:
                self._tell(self._outcome, info)
        return observation, reward, terminated, truncated, info

    def _tell(self, outcome: str, info: dict[str, Any]) -> None:
        assert self._lessons is not None, "stepped before a reset"
        if outcome == RETURN:
            value = self._return
        else:
            measures = info.get(MEASURES, {})
            if outcome not in measures:
                allowed = [RETURN, *sorted(measures)]
                raise EnvironmentFault.unknown(
                    f"environment.components.teacher.outcome={outcome!r} is not measured",
                    outcome,
                    allowed,
                    key="environment.components.teacher.outcome",
                )
            value = float(measures[outcome])
        if math.isfinite(value):
            self._told += 1
            self._lessons.learn(self._task, value)
