"""Hyperparameters that change at given steps: set on a learner between two rollouts.

The learner keeps plain numbers and schedules of its library, so a saved model loads without rlexp.
"""

from collections.abc import Mapping
from math import inf
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm

from rlexp.protocol.step_schedule import StepSchedule
from rlexp.training.acting.hyperparameters import set_hyperparameter


class ScheduledValues:
    """The values that a training sets on its learner at the beginning of rollouts."""

    def __init__(self, schedules: Mapping[str, StepSchedule[Any]]) -> None:
        self._schedules = schedules
        # The first rollout of a process sets all values: a checkpoint holds those of its own moment.
        self._due: float = 0 if schedules else inf

    def set_on(self, model: BaseAlgorithm) -> None:
        """Set the values of the rollout that begins now."""
        step = model.num_timesteps
        # Off-policy learners begin a rollout at each step: the usual case costs one comparison.
        if step < self._due:
            return
        for name, schedule in self._schedules.items():
            set_hyperparameter(model, name, schedule.at(step))
        following = self.next_change(step)
        self._due = inf if following is None else following

    def next_change(self, after: int) -> int | None:
        """The first step after `after` at which a value begins, or None."""
        changes = [s.next_change(after) for s in self._schedules.values()]
        return min((step for step in changes if step is not None), default=None)
