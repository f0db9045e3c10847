"""Hyperparameters that may change over the training."""

from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

from rlexp.algorithms.ranges import NonNegative, Positive, Share, ZeroOrMore
from rlexp.errors import ConfigError

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


Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSchedule(Generic[Value]):
    """A value for each part of a training, which begins at a number of environment steps.

    A value is in force from the first rollout that begins at its step or later. All hyperparameters
    therefore change between two rollouts, and a training that is continued there changes nothing.
    """

    shape: Literal["steps"]
    """`steps`: the value is constant between two steps."""
    steps: tuple[ZeroOrMore, ...]
    """Steps of the environments at which the values begin: 0, and larger and larger ones."""
    values: tuple[Value, ...]
    """The value from each of the steps on."""

    def __post_init__(self) -> None:
        """Refuse steps without values, and steps that do not grow from 0 on."""
        if len(self.steps) != len(self.values):
            raise ConfigError(
                f"the schedule has {len(self.steps)} steps and {len(self.values)} values: give each "
                "step its value"
            )
        if not self.steps or self.steps[0] != 0:
            raise ConfigError("the steps of a schedule begin with 0: add the value of step 0")
        for before, after in zip(self.steps, self.steps[1:], strict=False):
            if after <= before:
                raise ConfigError(
                    f"the steps of a schedule grow, and {after} follows {before}: sort them"
                )

    def at(self, step: int) -> Value:
        """The value of the rollout that begins at a step."""
        return self.values[bisect_right(self.steps, step) - 1]

    def next_change(self, after: int) -> int | None:
        """The first step after `after` at which a value begins, or None."""
        position = bisect_right(self.steps, after)
        return self.steps[position] if position < len(self.steps) else None


Stepped: TypeAlias = Value | StepSchedule[Value]
"""A fixed value, or a schedule by steps; the library takes no function of time for it."""
Scheduled: TypeAlias = Positive | HyperparameterSchedule | StepSchedule[Positive]
"""A fixed value, or a schedule of it."""


def first_value(value: Any) -> Any:
    """The value at the beginning of a training: of a schedule by steps, its first."""
    return value.at(0) if isinstance(value, StepSchedule) else value


def in_library_terms(value: HyperparameterSchedule) -> "ConstantSchedule | LinearSchedule":
    """Return the schedule class of the library, so that a saved model loads without rlexp."""
    from stable_baselines3.common.utils import ConstantSchedule, LinearSchedule

    if value.shape == "constant":
        return ConstantSchedule(value.initial)
    return LinearSchedule(value.initial, value.final, value.until)
