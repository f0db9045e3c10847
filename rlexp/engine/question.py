"""What a search is about, in the numbers that its decisions need."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlexp.engine.objectives import Objectives
from rlexp.protocol.sweep import SweepPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a search is about.

    Attributes:
        plan: With a number for `lag`.
        seeds: How many tuning seeds there are.
        steps: Environment steps of a run at the full budget.
        every: Environment steps between its evaluations, if there are any.
        objectives: What is optimised.
        default: The value of every parameter in the default configuration.
    """

    plan: SweepPlan
    seeds: int
    steps: int
    every: int | None
    objectives: Objectives
    default: Mapping[str, Any]

    @property
    def screening(self) -> int:
        """Runs of a trial before it is judged against the others."""
        return 1 if self.plan.allocation == "two_stage" else self.seeds

    @property
    def lag(self) -> int:
        """How many trials before the next one it must not depend on."""
        return self.plan.lag or 0
