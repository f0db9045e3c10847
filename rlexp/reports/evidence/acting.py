"""Counts of runs that ended before their budget, and of what never acted in them."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rlexp.records.run import RunRecord, State
from rlexp.reports.evidence.restarts import first_reasons
from rlexp.text import format_count


@dataclass(frozen=True, slots=True, kw_only=True)
class ActingCounts:
    """What callbacks, components and teachers did in completed runs.

    Attributes:
        completed: Completed runs.
        early: Steps at which runs ended before their budget.
        causes: Why they ended, most frequent first.
        idle: For each name of what never acted in a run: the runs in which it did not, and the runs
            that say how often it acted.
    """

    completed: int
    early: tuple[int, ...]
    causes: tuple[str, ...]
    idle: tuple[tuple[str, int, int], ...]

    @classmethod
    def of(cls, records: Iterable[RunRecord]) -> "ActingCounts":
        """Counts over the records of runs."""
        runs = [r for r in records if r.state is State.COMPLETED]
        early = [r for r in runs if r.reason is not None]
        causes = Counter((r.reason or "").partition(" at step ")[0] for r in early)
        counted = Counter(name for r in runs for name in r.acted or {})
        idle = Counter(name for r in runs for name, n in (r.acted or {}).items() if n == 0)
        return cls(
            completed=len(runs),
            early=tuple(sorted(r.step for r in early)),
            causes=tuple(cause for cause, _ in causes.most_common()),
            idle=tuple((name, idle[name], counted[name]) for name in counted if idle[name]),
        )

    def sentences(self) -> Iterator[str]:
        """One sentence about runs that ended early, and one for each name that never acted."""
        if self.early:
            count = f"{len(self.early):,} of {format_count(self.completed, 'run')}"
            first, last = self.early[0], self.early[-1]
            where = f"step {first:,}" if first == last else f"steps {first:,} to {last:,}"
            why = first_reasons(self.causes)
            yield f"{count} ended before the budget was used, at {where}: {why}"
        for name, idle, counted in self.idle:
            yield f"{name} never acted in {idle:,} of {format_count(counted, 'run')}"
