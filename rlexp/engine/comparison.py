"""What a trial is compared with while it runs: earlier trials at the same point, and the best."""

from collections.abc import Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass, field
from functools import cached_property

from rlexp.engine.progress import Progress
from rlexp.engine.question import Question
from rlexp.protocol.sweep import SweepPlan
from rlexp.pruners import Point
from rlexp.records.trial import TrialState
from rlexp.stats.sequential.racing import worse_than_best

RACING_THRESHOLD = 0.51
"""Of Wilcoxon's test between a trial and the best one, below which a race is lost.

Above one half, so that a trial which is behind at all on the seeds that both had gets no further
one. On ten published landscapes this reaches a better score at equal runs than 0.1 or 0.3, which
five seeds let stop hardly any trial (`benchmarks/landscapes.py`).
"""
Place = tuple[int, int, int]
"""Position of the seed, environment steps, and those of the whole run."""


class Earlier(Mapping[int, float]):
    """What trials below a number came to, gathered when it is first asked for: few pruners do."""

    def __init__(self, values: Mapping[int, float], before: int) -> None:
        self._values, self._before = values, before

    @cached_property
    def _found(self) -> dict[int, float]:
        return {n: value for n, value in self._values.items() if n < self._before}

    def __getitem__(self, number: int) -> float:
        """The value of a trial."""
        return self._found[number]

    def __iter__(self) -> Iterator[int]:
        """The numbers."""
        return iter(self._found)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._found)

    def values(self) -> ValuesView[float]:
        """The values alone, as fast as a dict has them."""
        return self._found.values()


@dataclass(slots=True)
class Shown:
    """The values that trials came to, place by place."""

    _values: dict[Place, dict[int, float]] = field(default_factory=dict)

    def note(self, place: Place, number: int, value: float, before: int) -> Mapping[int, float]:
        """Take note of a trial's value; returns those of the trials below `before`, by number."""
        there = self._values.setdefault(place, {})
        there[number] = value
        return Earlier(there, before)

    def forget(self, number: int) -> None:
        """Take back what a trial came to."""
        for there in self._values.values():
            there.pop(number, None)


def best_merits(entries: Sequence[Progress], question: Question) -> tuple[float, ...]:
    """Run by run, the leading objective of the best trial that is complete; nothing without one."""
    complete = [
        (e.trial.values[0], -e.proposal.number, e)
        for e in entries
        if e.trial is not None
        and e.trial.state is TrialState.COMPLETE
        and e.proposal.steps == question.steps
    ]
    if not complete:
        return ()
    return question.objectives.merits(max(complete, key=lambda found: found[:2])[2].judged_runs())


def lost_race(point: Point, plan: SweepPlan) -> str | None:
    """Why a trial gets no further seed in a race, or nothing where it does, or where none is run."""
    if plan.allocation != "racing":
        return None
    p = worse_than_best(point.scores, point.best, RACING_THRESHOLD)
    if p is None:
        return None
    return f"worse than the best trial on {len(point.scores)} seeds (p = {p:.3f})"
