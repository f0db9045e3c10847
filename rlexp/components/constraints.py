"""Constraints: bounds on a number of each step, and the violation of these bounds."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import gymnasium as gym
import numpy as np
from annotated_types import Ge

from rlexp.components.spaces import require_box
from rlexp.errors import ConfigError, EnvironmentFault


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """Bounds on a number of each step; one of `entry`, `action` and `key` selects the number."""

    entry: Annotated[int, Ge(0)] | None = None
    """Position in the observation after the step, flattened."""
    action: Annotated[int, Ge(0)] | None = None
    """Position in the action, flattened."""
    key: str | None = None
    """Key of the info dictionary; without a bound, its value is a cost with the upper bound 0."""
    above: float | None = None
    """Upper bound: larger numbers violate the constraint."""
    below: float | None = None
    """Lower bound: smaller numbers violate the constraint."""

    def __post_init__(self) -> None:
        selected = [n for n in ("entry", "action", "key") if getattr(self, n) is not None]
        if len(selected) != 1:
            raise ConfigError(
                f"a constraint names {' and '.join(selected) or 'no number'}: give it exactly one "
                "of entry (of the observation), action (an entry of it) and key (of info)"
            )
        if self.key is None and self.above is None and self.below is None:
            raise ConfigError(
                f"the constraint on {selected[0]} {getattr(self, selected[0])} has no bound: give "
                "it above, below or both"
            )
        if None not in (self.above, self.below) and self.above < self.below:  # type: ignore[operator]
            raise ConfigError(
                f"every number is above {self.above} or below {self.below}: let above be no "
                "less than below"
            )

    def violation(self, observation: Any, action: Any, info: Mapping[str, Any]) -> float:
        """Return the distance of a step from the bounds, in units of the number; 0 within them.

        Raises:
            ConfigError: The info dictionary lacks the key.
            EnvironmentFault: The number is NaN, of which nobody knows whether it is within them.
        """
        value = self._value(observation, action, info)
        if math.isnan(value):
            raise EnvironmentFault(f"a constraint is about {self._selected}, which is NaN")
        upper = 0.0 if self.above is None and self.below is None else self.above
        # A missing bound is never violated.
        excess = -math.inf if upper is None else value - upper
        lack = -math.inf if self.below is None else self.below - value
        return max(0.0, excess, lack)

    @property
    def _selected(self) -> str:
        """The number that is bounded, in words."""
        if self.key is not None:
            return f"'{self.key}' of info"
        if self.action is not None:
            return f"entry {self.action} of the action"
        return f"entry {self.entry} of the observation"

    def _value(self, observation: Any, action: Any, info: Mapping[str, Any]) -> float:
        if self.entry is not None:
            return float(observation.flat[self.entry])
        if self.action is not None:
            return float(np.asarray(action).flat[self.action])
        key = str(self.key)
        if key not in info:
            names = [str(name) for name in info]
            raise ConfigError.unknown(
                f"a constraint is about '{key}', which the info dictionary lacks", key, names
            )
        return float(info[key])


def violations(
    constraints: Mapping[str, Constraint], observation: Any, action: Any, info: Mapping[str, Any]
) -> dict[str, float]:
    """Return the violation of each constraint at a step, by name."""
    return {
        name: constraint.violation(observation, action, info)
        for name, constraint in constraints.items()
    }


def require_some(constraints: Mapping[str, Constraint], component: str) -> None:
    """Refuse a component without constraints.

    Raises:
        ConfigError: There is no constraint.
    """
    if not constraints:
        raise ConfigError(
            f"component {component} has no constraint: give it "
            f"environment.components.{component}.constraints={{name: {{entry: 0, above: 1.0}}}}"
        )


def check_entries(
    constraints: Mapping[str, Constraint], environment: gym.Env[Any, Any], component: str
) -> None:
    """Refuse constraints on entries that the environment does not have.

    Raises:
        ConfigError: A space is not an array of numbers, or has fewer entries.
    """
    for name, constraint in constraints.items():
        for space, entry, what in (
            (environment.observation_space, constraint.entry, "observations"),
            (environment.action_space, constraint.action, "actions"),
        ):
            if entry is None:
                continue
            size = math.prod(require_box(space, component, what).shape)
            if entry >= size:
                raise ConfigError(
                    f"component {component}: constraint '{name}' is about entry {entry} of "
                    f"{what}, which have {size}: the last is {size - 1}"
                )
