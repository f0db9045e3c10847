"""Hyperparameters that change at given steps: set on a learner between two rollouts.

The learner keeps plain numbers and schedules of its library, so a saved model loads without rlexp.
"""

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.utils import FloatSchedule
from stable_baselines3.common.vec_env import unwrap_vec_normalize

from rlexp.protocol.step_schedule import StepSchedule

BUFFERS = ("rollout_buffer", "replay_buffer")
"""Attributes of a learner with copies of its discount and of lambda."""


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
            SETTERS.get(name, _set_attribute)(model, name, schedule.at(step))
        following = self.next_change(step)
        self._due = inf if following is None else following

    def next_change(self, after: int) -> int | None:
        """The first step after `after` at which a value begins, or None."""
        changes = [s.next_change(after) for s in self._schedules.values()]
        return min((step for step in changes if step is not None), default=None)


def _set_attribute(model: BaseAlgorithm, name: str, value: float) -> None:
    setattr(model, name, value)


def _set_learning_rate(model: BaseAlgorithm, name: str, value: float) -> None:
    del name
    model.learning_rate, model.lr_schedule = value, FloatSchedule(value)


def _set_function(model: BaseAlgorithm, name: str, value: float) -> None:
    """Set a value that the library keeps as a function of the rest of the training."""
    setattr(model, name, FloatSchedule(value))


def _set_with_copies(model: BaseAlgorithm, name: str, value: float) -> None:
    """Set a value of which buffers, and the vector that normalises rewards, have copies."""
    owners = [model, *(getattr(model, buffer, None) for buffer in BUFFERS)]
    owners.append(None if model.env is None else unwrap_vec_normalize(model.env))
    for owner in owners:
        if hasattr(owner, name):
            setattr(owner, name, value)


def _set_entropy_weight(model: BaseAlgorithm, name: str, value: float) -> None:
    """Set the weight of entropy; SAC and its variants train with a tensor of it."""
    setattr(model, name, value)
    if hasattr(model, "ent_coef_tensor"):
        model.ent_coef_tensor = torch.tensor(float(value), device=model.device)


SETTERS: Mapping[str, Callable[[BaseAlgorithm, str, float], None]] = {
    "learning_rate": _set_learning_rate,
    "clip_range": _set_function,
    "clip_range_vf": _set_function,
    "gamma": _set_with_copies,
    "gae_lambda": _set_with_copies,
    "ent_coef": _set_entropy_weight,
}
"""How a value is set that is more than an attribute of the learner."""
