"""Scores of a training script with several components: of agents, of objectives, or a front of policies."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Self

from rlexp.errors import ConfigError
from rlexp.protocol.identity import Plain
from rlexp.protocol.measures import DeclaredMeasure

RETURN_OF = "return_of"
"""Setting of an environment: the component of vector returns that is the return of the run."""
REFERENCE_POINT = "reference_point"
"""Setting of an environment: the point above which the hypervolume of a front is measured."""
HYPERVOLUME, POLICIES = "hypervolume", "policies"
"""Measures of a front: its volume, and the number of its policies."""
BEST = "best/"
"""Beginning of the measures with the best mean return of a front in an objective (`best/time`)."""
COMPONENT = "return/"
"""Beginning of the measures with the return of a component (`return/agent_0`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorScores:
    """What an environment declares about vectors that a training script reports.

    Attributes:
        return_of: The component that is the return of the run; None where returns are numbers.
        reference_point: A number for each objective of a front; None where one policy is evaluated.
    """

    return_of: str | None = None
    reference_point: Mapping[str, float] | None = field(default=None)

    @classmethod
    def of(cls, environment: Plain) -> Self:
        """What the settings of an environment declare."""
        return cls(
            return_of=environment.get(RETURN_OF), reference_point=environment.get(REFERENCE_POINT)
        )

    @property
    def measures(self) -> dict[str, DeclaredMeasure]:
        """The measures that every evaluation has by this declaration."""
        if self.reference_point is not None:
            best = {f"{BEST}{name}": DeclaredMeasure() for name in self.reference_point}
            volume = {HYPERVOLUME: DeclaredMeasure(minimum=0.0), POLICIES: DeclaredMeasure()}
            return {**volume, **best}
        if self.return_of is not None:
            return {f"{COMPONENT}{self.return_of}": DeclaredMeasure()}
        return {}

    def check(self) -> None:
        """Refuse a declaration that contradicts itself, and a reference point without finite numbers.

        Raises:
            ConfigError: Names the setting.
        """
        if self.reference_point is None:
            return
        if self.return_of is not None:
            raise ConfigError(
                "environment.return_of and environment.reference_point exclude each other: a front of "
                "policies has no return; leave one out",
                key=f"environment.{REFERENCE_POINT}",
            )
        _check_point(self.reference_point)


NO_VECTORS = VectorScores()
"""No declaration: returns are numbers."""


def _check_point(point: Any) -> None:
    key = f"environment.{REFERENCE_POINT}"
    if not isinstance(point, Mapping) or len(point) < 2:
        raise ConfigError(
            f"{key}={point} must name two objectives or more with a number each: "
            f"{key}='{{treasure: 0, time: -50}}'",
            key=key,
        )
    for name, number in point.items():
        if isinstance(number, bool) or not isinstance(number, int | float) or not isfinite(number):
            raise ConfigError(f"{key}.{name}={number} must be a finite number", key=key)
