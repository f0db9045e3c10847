"""What a trial is worth: numbers of its runs, put together over the tuning seeds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, sqrt
from statistics import median
from typing import TypeGuard

from rlexp.protocol.sweep import MINIMISED, Aggregate, Objective
from rlexp.records.run import LARGEST_SCORE, RunRecord, area_under_curve, last_window
from rlexp.stats.aggregate import interquartile_mean
from rlexp.stats.task_scores import TaskScores


@dataclass(frozen=True, slots=True, kw_only=True)
class Objectives:
    """What is optimised, and how runs are put together. The first one leads.

    `threshold` is the return at which a task counts as solved, for `steps_to_threshold`.
    """

    names: tuple[Objective, ...]
    aggregate: Aggregate
    threshold: float | None = None

    def values(self, records: Sequence[RunRecord]) -> tuple[float, ...] | None:
        """One value for each objective, in its own units; nothing where a run lacks one.

        Args:
            records: Completed runs of one configuration, in order of their seeds.
        """
        found = [self._value(name, records) for name in self.names]
        return None if None in found else tuple(v for v in found if v is not None)

    def oriented(self, values: Sequence[float]) -> tuple[float, ...]:
        """The values such that greater is better."""
        pairs = zip(self.names, values, strict=True)
        return tuple(-v if name in MINIMISED else v for name, v in pairs)

    def merits(self, records: Sequence[RunRecord]) -> tuple[float, ...]:
        """The leading objective of each run such that greater is better.

        Nothing where a run lacks it, or where it is no number of a single run.
        """
        found = [self._of_run(self.names[0], record) for record in records]
        known = [value for value in found if _is_value(value)]
        if self.names[0] == "spread" or len(known) < len(found):
            return ()
        sign = -1 if self.names[0] in MINIMISED else 1
        return tuple(sign * value for value in known)

    def combine(self, values: Sequence[float]) -> float:
        """The aggregate over seeds."""
        return AGGREGATES[self.aggregate](values)

    def _value(self, name: Objective, records: Sequence[RunRecord]) -> float | None:
        if name == "spread":
            return _spread([r.score for r in records if r.score is not None])
        found = [self._of_run(name, record) for record in records]
        known = [value for value in found if _is_value(value)]
        return self.combine(known) if known and len(known) == len(found) else None

    def _of_run(self, name: Objective, record: RunRecord) -> float | None:
        match name:
            case "final":
                return record.final.mean if record.final else None
            case "auc":
                return area_under_curve(record.evaluations)
            case "last_window":
                return last_window(record.evaluations, record.spec.budget["steps"])
            case "steps_to_threshold":
                return self._steps_to_threshold(record)
            case _:
                return record.score

    def _steps_to_threshold(self, record: RunRecord) -> float | None:
        """Environment steps of the first evaluation that reaches it; the budget if none does."""
        if self.threshold is None:
            return None
        reached = (e.step for e in record.evaluations if self.threshold <= e.mean <= LARGEST_SCORE)
        return float(next(reached, record.spec.budget["steps"]))


def _is_value(value: float | None) -> TypeGuard[float]:
    """Whether it is a number that may be compared: no larger one than a score can be."""
    return value is not None and abs(value) <= LARGEST_SCORE


def _spread(scores: Sequence[float]) -> float | None:
    if len(scores) < 2:
        return None
    middle = fsum(scores) / len(scores)
    return sqrt(fsum((s - middle) ** 2 for s in scores) / (len(scores) - 1))


def _mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values)


def _iqm(values: Sequence[float]) -> float:
    return float(interquartile_mean(TaskScores.from_tasks([values])))


AGGREGATES: Mapping[Aggregate, Callable[[Sequence[float]], float]] = {
    "mean": _mean,
    "median": lambda values: float(median(values)),
    "iqm": _iqm,
}
