"""The hyperparameters of a learner: how their values are read and set while it trains.

Schedules and callbacks change values here and nowhere else. The learner keeps plain numbers and the
library's own constant schedules, so that a saved model loads without rlexp.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.utils import FloatSchedule
from stable_baselines3.common.vec_env import unwrap_vec_normalize

BUFFERS = ("rollout_buffer", "replay_buffer")
"""Attributes of a learner with copies of its discount and of lambda."""
ROLLOUT_LENGTH = "n_steps"
"""The hyperparameter that the library reads before a rollout starts, and that its buffer must have."""
LEARNING_RATE = "learning_rate"


def set_hyperparameter(model: BaseAlgorithm, name: str, value: float) -> None:
    """Set a hyperparameter and all copies that the library made of it."""
    SETTERS.get(name, _set_attribute)(model, name, value)


def read_hyperparameter(model: BaseAlgorithm, name: str) -> float:
    """The value of a hyperparameter now; of a schedule of the library, its present value."""
    value: Any = model.lr_schedule if name == LEARNING_RATE else getattr(model, name)
    if callable(value):
        value = value(model._current_progress_remaining)  # noqa: SLF001
    return float(value)


class Hyperparameters:
    """The hyperparameters that callbacks of one training change, between two rollouts.

    A value that is set is in force from the next start of a rollout on, so that a rollout and its update
    have one set of values. All values are part of a checkpoint.
    """

    def __init__(self, model: BaseAlgorithm) -> None:
        self._model = model
        self._applied: dict[str, float] = {}
        self._pending: dict[str, float] = {}
        self.changes = 0
        """How often a value differed from the one before."""

    def get(self, name: str) -> float:
        """The value of a hyperparameter; one that was set, also before it is in force.

        Raises:
            AttributeError: The learner has no such hyperparameter.
        """
        if name in self._pending:
            return self._pending[name]
        return read_hyperparameter(self._model, name)

    def set(self, name: str, value: float) -> bool:
        """Set a hyperparameter from the next start of a rollout on; returns whether it differs.

        Raises:
            AttributeError: The learner has no such hyperparameter.
        """
        if not hasattr(self._model, name):
            raise AttributeError(f"the learner has no hyperparameter {name!r}")
        if value == self.get(name):
            return False
        self._pending[name] = value
        self.changes += 1
        if name == ROLLOUT_LENGTH:
            # The library reads it before it calls the start of a rollout. No update reads it.
            setattr(self._model, name, int(value))
        return True

    def fit_buffer(self) -> None:
        """Give the buffer the length of the rollout that starts now."""
        buffer = getattr(self._model, "rollout_buffer", None)
        length = getattr(self._model, ROLLOUT_LENGTH, None)
        if buffer is not None and buffer.buffer_size != length:
            buffer.buffer_size = length
            buffer.reset()

    def apply(self) -> None:
        """Set the values that wait for the start of a rollout."""
        for name, value in self._pending.items():
            set_hyperparameter(self._model, name, value)
        self._applied |= self._pending
        self._pending.clear()

    def state(self) -> dict[str, Any]:
        """The values for a checkpoint."""
        return {
            "applied": dict(self._applied),
            "pending": dict(self._pending),
            "changes": self.changes,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Set the values of a checkpoint on the learner."""
        self._applied, self._pending = dict(state["applied"]), dict(state["pending"])
        self.changes = state["changes"]
        for name, value in self._applied.items():
            set_hyperparameter(self._model, name, value)
        if ROLLOUT_LENGTH in self._pending:
            setattr(self._model, ROLLOUT_LENGTH, int(self._pending[ROLLOUT_LENGTH]))


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
