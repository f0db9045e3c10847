"""Hyperparameters that may change over the training."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from rlexp.algorithms.ranges import NonNegative, Positive, Share
from rlexp.errors import ConfigError
from rlexp.protocol.step_schedule import StepSchedule

if TYPE_CHECKING:
    from stable_baselines3.common.utils import ConstantSchedule, LinearSchedule


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperparameterSchedule:
    """A value as a function of the completed fraction of training."""

    shape: Literal["constant", "linear"]
    """`constant` stays at `initial`; `linear` goes from `initial` to `final`, then stays."""
    initial: Positive
    """Value at the start of training."""
    final: NonNegative = 0.0
    """Value from `until` on."""
    until: Share = 1.0
    """Fraction of training, in (0, 1], after which the value is `final`."""

    @property
    def changes(self) -> bool:
        """Whether the value differs between two moments of training."""
        return self.shape == "linear" and self.initial != self.final

    def restarted(self, share: float) -> "HyperparameterSchedule":
        """The schedule that begins again after a fraction of training, and ends with training.

        Args:
            share: The fraction, in [0, 1). Before it, values have no meaning.

        Raises:
            ConfigError: The value rises so fast that it would be negative at the start of training,
                which the library refuses.
        """
        if not self.changes:
            return self
        length = self.until * (1 - share)
        # The line through `initial` at `share` and `final` at `share + length`, from its start on.
        start = self.initial + (self.initial - self.final) * share / length
        if start <= 0:
            raise ConfigError(
                f"a schedule that rises from {self.initial:g} to {self.final:g} cannot begin again "
                f"after {share:.0%} of training: start a fresh run instead"
            )
        return replace(self, initial=start, until=share + length)


Scheduled: TypeAlias = Positive | HyperparameterSchedule | StepSchedule[Positive]
"""A fixed value, or a schedule of it."""


def in_library_terms(value: HyperparameterSchedule) -> "ConstantSchedule | LinearSchedule":
    """Return the schedule class of the library, so that a saved model loads without rlexp."""
    from stable_baselines3.common.utils import ConstantSchedule, LinearSchedule

    if value.shape == "constant":
        return ConstantSchedule(value.initial)
    return LinearSchedule(value.initial, value.final, value.until)
