"""Hyperparameters that may change over the training."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from rlexp.algorithms.ranges import NonNegative, Positive, Share

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


Scheduled: TypeAlias = Positive | HyperparameterSchedule
"""A fixed value, or a schedule of it."""


def in_library_terms(value: HyperparameterSchedule) -> "ConstantSchedule | LinearSchedule":
    """Return the schedule class of the library, so that a saved model loads without rlexp."""
    from stable_baselines3.common.utils import ConstantSchedule, LinearSchedule

    if value.shape == "constant":
        return ConstantSchedule(value.initial)
    return LinearSchedule(value.initial, value.final, value.until)
