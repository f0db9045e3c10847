"""What runs cost: environment steps, core-hours, attempts and wall-clock time."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import fsum

from rlexp.reports.evidence.runs import PlannedRun
from rlexp.text import format_count, format_duration

HOUR = 3600.0
"""Seconds."""
FEWEST_CORE_HOURS = 0.1
"""Core-hours below which the cost on one line states the time only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalCost:
    """The cost of all attempts of started runs.

    Attributes:
        runs: Number of started runs.
        attempts: Number of attempts.
        steps: Environment steps of training.
        seconds: Sum of the seconds of all runs; None where no run has recorded its time.
        core_seconds: Sum of seconds × threads; None where no run has recorded both.
        longest: Seconds of the longest run; None where no run has recorded its time.
        untimed: Number of runs whose time is not completely known.
        offline_steps: Gradient steps on datasets before the first environment step, of runs that have
            taken all of them.
    """

    runs: int
    attempts: int
    steps: int
    seconds: float | None
    core_seconds: float | None
    longest: float | None
    untimed: int
    offline_steps: int = 0

    @property
    def hours(self) -> float | None:
        """Hours of all runs."""
        return None if self.seconds is None else self.seconds / HOUR

    @property
    def core_hours(self) -> float | None:
        """Hours × threads of all runs."""
        return None if self.core_seconds is None else self.core_seconds / HOUR

    @property
    def text(self) -> str:
        """The cost on one line (`48,000 environment steps in 8 runs, 1 min 20 s`)."""
        parts = [f"{self.steps:,} environment steps in {format_count(self.runs, 'run')}"]
        if self.offline_steps:
            parts.append(
                f"{self.offline_steps:,} gradient steps on datasets before the first environment step"
            )
        if self.seconds:
            parts.append(f"{format_duration(self.seconds)} of runs")
        if self.core_hours and self.core_hours >= FEWEST_CORE_HOURS:
            parts.append(f"{self.core_hours:,.3g} core-hours")
        return ", ".join(parts)


def total_cost(members: Iterable[PlannedRun]) -> TotalCost:
    """The cost of the started runs among planned ones."""
    records = [m.record for m in members if m.record.attempts]
    timed = [(s, r.spec.compute["threads"]) for r in records if (s := r.seconds_spent)]
    # Imported runs do not say how many threads they used.
    threaded = [s * threads for s, threads in timed if threads]
    return TotalCost(
        runs=len(records),
        attempts=sum(r.attempts for r in records),
        steps=sum(r.spent for r in records),
        seconds=fsum(s for s, _ in timed) if timed else None,
        core_seconds=fsum(threaded) if threaded else None,
        longest=max(s for s, _ in timed) if timed else None,
        untimed=sum(r.seconds is None for r in records),
        offline_steps=sum(r.spec.offline_steps for r in records if r.step),
    )
