"""Schedules: hyperparameters that follow functions of the used budget, or of environment steps."""

from dataclasses import dataclass
from typing import Any, ClassVar

from stable_baselines3.common.callbacks import BaseCallback

from rlexp.algorithms.schedules import (
    PiecewiseSchedule,
    ShapedSchedule,
    StepSchedule,
    changeable,
)
from rlexp.callbacks.checks import check_hyperparameter
from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity

OneSchedule = ShapedSchedule | PiecewiseSchedule | StepSchedule[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Sets hyperparameters at the start of each rollout."""

    identity: ClassVar = Identity("callback", "schedule")
    fits_shortcuts: ClassVar[bool] = True
    keeps_state: ClassVar[bool] = True

    values: dict[str, OneSchedule]
    """Hyperparameters by name, each with its schedule."""

    @property
    def depends_on_length(self) -> bool:
        """Whether a value depends on the length of training: those by steps do not."""
        shaped = (s for s in self.values.values() if isinstance(s, ShapedSchedule))
        return any(schedule.shape != "constant" for schedule in shaped)

    def check(self, algorithm: Any) -> None:
        """Refuse hyperparameters that the algorithm does not have, and those with another schedule.

        Raises:
            ConfigError: Names the hyperparameter and what is possible.
        """
        for name in self.values:
            check_hyperparameter("callback.schedule.values", name, algorithm)
        if not self.values:
            raise ConfigError(
                "callback.schedule.values is empty: give it a hyperparameter with its schedule, such as "
                f"{{{changeable(algorithm)[0]}: {{shape: cosine, initial: 1e-3}}}}"
            )

    def reached_values(self) -> dict[str, tuple[float, ...]]:
        """The values between which each hyperparameter moves."""
        return {
            name: s.values if isinstance(s, StepSchedule) else s.extremes()
            for name, s in self.values.items()
        }

    def begin(self) -> BaseCallback:
        """Return the callback of one training."""
        return Following(self.values)


class Following(BaseCallback):
    """Sets the value of each schedule where a rollout starts."""

    def __init__(self, schedules: dict[str, OneSchedule]) -> None:
        super().__init__()
        self._schedules = schedules
        self.acted = 0

    def _on_rollout_start(self) -> None:
        run, step = self.run, self.model.num_timesteps  # type: ignore[attr-defined]
        for name, schedule in self._schedules.items():
            if isinstance(schedule, StepSchedule):
                value = schedule.at(step)
            else:
                value = schedule.at(step, run.steps)
            whole = isinstance(getattr(self.model, name), int)
            self.acted += run.hyperparameters.set(name, round(value) if whole else value)

    def _on_step(self) -> bool:
        return True

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        return {"acted": self.acted}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint."""
        self.acted = state["acted"]
