"""A controller: one hyperparameter follows what the learner reports, within bounds that the budget sets."""

from dataclasses import dataclass
from math import ceil, isfinite
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Gt
from stable_baselines3.common.callbacks import BaseCallback

from rlexp.algorithms.ranges import Count, Finite, Positive
from rlexp.callbacks.checks import check_hyperparameter
from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity
from rlexp.training.acting.hyperparameters import ROLLOUT_LENGTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """Raises or lowers a hyperparameter by a factor, by a signal that the learner logs.

    With the length of rollouts, it does for the rollouts of a policy gradient what Bhatia et al. 2022, Adaptive
    Rollout Length for Model-Based RL Using Model-Free Deep RL, do for those of a learned model: the length
    follows the accuracy of what is learned and the budget that is left. They train a policy for it; here, a rule
    of one line does.
    """

    identity: ClassVar = Identity("callback", "controller")
    fits_shortcuts: ClassVar[bool] = True
    keeps_state: ClassVar[bool] = True

    hyperparameter: str
    """The hyperparameter of the algorithm."""
    signal: str
    """What is read: a value that the learner logs, such as `train/explained_variance`."""
    target: Finite
    """The signal at which the hyperparameter stays."""
    below: Literal["raise", "lower"]
    """What happens to the hyperparameter where the signal is below the target; above, the opposite."""
    factor: Annotated[float, Gt(1)]
    """Factor of one change."""
    low: Positive
    """Smallest value."""
    high: Positive
    """Largest value."""
    every: Count
    """Environment steps between two changes, at least."""
    reserve: Count | None
    """For `n_steps`: rollouts that the rest of the budget must always allow; null: no bound."""

    @property
    def depends_on_length(self) -> bool:
        """Whether the bounds depend on the length of training."""
        return self.reserve is not None

    def __post_init__(self) -> None:
        """Refuse bounds in the wrong order, and a reserve of rollouts for another hyperparameter."""
        if self.low > self.high:
            raise ConfigError(
                f"low={self.low:g} is more than high={self.high:g}: give the smaller number to low"
            )
        if self.reserve is not None and self.hyperparameter != ROLLOUT_LENGTH:
            raise ConfigError(
                f"reserve counts rollouts and bounds {ROLLOUT_LENGTH}, not {self.hyperparameter}: set it "
                "to null"
            )

    def check(self, algorithm: Any) -> None:
        """Refuse a hyperparameter that the algorithm does not have.

        Raises:
            ConfigError: Names those that can change.
        """
        check_hyperparameter("callback: hyperparameter", self.hyperparameter, algorithm)

    def reached_values(self) -> dict[str, tuple[float, ...]]:
        """The values between which the hyperparameter moves."""
        return {self.hyperparameter: (self.low, self.high)}

    def acts_from(self) -> int:
        """The environment step from which the callback acts."""
        return self.every

    def begin(self) -> BaseCallback:
        """Return the callback of one training."""
        return Controlling(self)


class Controlling(BaseCallback):
    """Reads the signal where a rollout starts, and sets the hyperparameter."""

    def __init__(self, settings: Controller) -> None:
        super().__init__()
        self._settings = settings
        self.acted = 0
        self._last = 0

    def _on_rollout_start(self) -> None:
        settings, step = self._settings, self.model.num_timesteps
        signal = self.logger.name_to_value.get(settings.signal)
        if step - self._last < settings.every or signal is None or not isfinite(signal):
            return
        self._last = step
        run: Any = self.run  # type: ignore[attr-defined]
        present = run.hyperparameters.get(settings.hyperparameter)
        value = self._bounded(self._moved(present, float(signal)), run.remaining)
        if settings.hyperparameter == ROLLOUT_LENGTH:
            value = self._in_minibatches(value)
        elif isinstance(getattr(self.model, settings.hyperparameter), int):
            value = round(value)
        self.acted += run.hyperparameters.set(settings.hyperparameter, value)
        self.logger.record(f"callback/{settings.hyperparameter}", value)

    def _in_minibatches(self, value: float) -> int:
        """A length of rollouts that minibatches divide, so that none is left with a single step."""
        batch = getattr(self.model, "batch_size", None) or 1
        size = max(batch // self.model.n_envs, 1)
        return max(int(value) // size, ceil(self._settings.low / size)) * size

    def _moved(self, present: float, signal: float) -> float:
        settings = self._settings
        if signal == settings.target:
            return present
        up = (signal < settings.target) == (settings.below == "raise")
        return present * settings.factor if up else present / settings.factor

    def _bounded(self, value: float, remaining: int) -> float:
        """The value within the bounds, of which the upper one leaves the reserved rollouts."""
        settings, high = self._settings, self._settings.high
        if settings.reserve is not None:
            high = min(high, remaining / self.model.n_envs // settings.reserve)
        return max(min(value, high), settings.low)

    def _on_step(self) -> bool:
        return True

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        return {"acted": self.acted, "last": self._last}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint."""
        self.acted, self._last = state["acted"], state["last"]
