"""Hyperparameters that may change over the training."""

from bisect import bisect_right
from dataclasses import dataclass, fields, replace
from math import cos, pi
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args, get_origin

from rlexp.algorithms.ranges import Finite, NonNegative, Positive, Share, ZeroOrMore
from rlexp.errors import ConfigError
from rlexp.protocol.step_schedule import StepSchedule
from rlexp.text import format_percentage

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
                f"after {format_percentage(share)} of training: start a fresh run instead"
            )
        return replace(self, initial=start, until=share + length)


CLOSE = 1e-9
"""Share of the initial value that stands for 0 where a schedule is checked."""
Scheduled: TypeAlias = Positive | HyperparameterSchedule | StepSchedule[Positive]
"""A fixed value, or a schedule of it."""


def in_library_terms(value: HyperparameterSchedule) -> "ConstantSchedule | LinearSchedule":
    """Return the schedule class of the library, so that a saved model loads without rlexp."""
    from stable_baselines3.common.utils import ConstantSchedule, LinearSchedule

    if value.shape == "constant":
        return ConstantSchedule(value.initial)
    return LinearSchedule(value.initial, value.final, value.until)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapedSchedule:
    """A value as a function of the used share of the budget, for a callback that sets it.

    Constant and linear are the shapes that a setting of an algorithm takes as well (`HyperparameterSchedule`),
    with the same words.
    """

    shape: Literal["constant", "linear", "exponential", "cosine"]
    """`exponential` changes by the same factor in equal times; `cosine` is half a wave, flat at both ends."""
    initial: Finite
    """Value at the start of training."""
    final: Finite | None = None
    """Value from `until` on; null: 0, for `constant` the initial value."""
    until: Share = 1.0
    """Share of the budget, in (0, 1], after which the value is `final`."""

    def __post_init__(self) -> None:
        """Refuse an exponential schedule to or through 0."""
        if self.shape == "exponential" and self.initial * self._end <= 0:
            raise ConfigError(
                f"an exponential schedule goes from {self.initial:g} to {self._end:g}, and no factor "
                "leads there: give initial and final the same sign, and neither 0"
            )

    @property
    def _end(self) -> float:
        if self.shape == "constant":
            return self.initial
        return 0.0 if self.final is None else self.final

    def at(self, step: int, steps: int) -> float:
        """The value at a step of a budget of so many steps."""
        share = min(step / steps / self.until, 1.0)
        initial, end = self.initial, self._end
        match self.shape:
            case "exponential":
                return float(initial * (end / initial) ** share)
            case "cosine":
                return end + (initial - end) * (1 + cos(pi * share)) / 2
            case _:
                return initial + (end - initial) * share

    def extremes(self) -> tuple[float, ...]:
        """The first value and the last one; instead of 0, which is a limit, a value close to it."""
        # A learning rate may fall to 0, as the library's own schedules do, but not begin there.
        return self.initial, self._end or self.initial * CLOSE


@dataclass(frozen=True, slots=True, kw_only=True)
class PiecewiseSchedule:
    """Straight lines between values at environment steps, for a callback that sets the value."""

    shape: Literal["piecewise"]
    """`piecewise`: the value goes in a line from one step to the next."""
    steps: tuple[ZeroOrMore, ...]
    """Environment steps: 0, and larger and larger ones. After the last, its value stays."""
    values: tuple[Finite, ...]
    """The value at each of the steps."""

    def __post_init__(self) -> None:
        """Refuse steps without values, and steps that do not grow from 0 on."""
        StepSchedule(shape="steps", steps=self.steps, values=self.values)

    def at(self, step: int, steps: int) -> float:
        """The value at a step; the length of the budget does not matter."""
        del steps
        position = bisect_right(self.steps, step)
        if position == len(self.steps):
            return self.values[-1]
        begin, end = self.steps[position - 1], self.steps[position]
        share = (step - begin) / (end - begin)
        return self.values[position - 1] + share * (
            self.values[position] - self.values[position - 1]
        )

    def extremes(self) -> tuple[float, ...]:
        """All values at steps."""
        return self.values


def changeable(algorithm: Any) -> tuple[str, ...]:
    """The hyperparameters of an algorithm that a callback may change between two rollouts.

    They are those that take a schedule by steps, and numbers that decide no shape of a network or of a
    replay buffer. Of an algorithm that is none of the library's, they are all its numbers.
    """
    settings = {f.name: f.type for f in fields(algorithm)}
    takes_schedules = any(map(may_change, settings.values()))
    return tuple(
        name
        for name, kind in settings.items()
        if _is_number(getattr(algorithm, name))
        and (not takes_schedules or may_change(kind) or name in _whole_numbers(algorithm))
    )


def may_change(kind: Any) -> bool:
    """Whether a type takes a schedule by steps."""
    return get_origin(kind) is StepSchedule or any(map(may_change, get_args(kind)))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _whole_numbers(algorithm: Any) -> tuple[str, ...]:
    """The whole numbers that may change: with a replay buffer, or a memory, not the rollout's length."""
    off_policy = hasattr(algorithm, "buffer_size")
    length = () if off_policy or getattr(algorithm, "fixed_rollouts", False) else ("n_steps",)
    return ("n_epochs", "batch_size", "gradient_steps", *length)
