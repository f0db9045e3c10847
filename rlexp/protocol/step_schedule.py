"""A setting that has another value from given environment steps on, as a typed value of a plug-in."""

from bisect import bisect_right
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

from annotated_types import Ge

from rlexp.errors import ConfigError

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSchedule(Generic[Value]):
    """A value for each part of a training, which begins at a number of environment steps.

    A value is in force from the first rollout that begins at its step or later. All settings
    therefore change between two rollouts, and a training that is continued there changes nothing.
    """

    shape: Literal["steps"]
    """`steps`: the value is constant between two steps."""
    steps: tuple[Annotated[int, Ge(0)], ...]
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


def first_value(value: Any) -> Any:
    """The value at the beginning of a training: of a schedule by steps, its first."""
    return value.at(0) if isinstance(value, StepSchedule) else value
