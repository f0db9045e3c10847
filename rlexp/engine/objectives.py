"""The objectives of a search: values of a trial's runs, aggregated over the tuning seeds."""

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
    """The objectives of a search and the aggregate over runs.

    Attributes:
        names: The objectives; the first one decides the ranking.
        aggregate: The aggregate over the seeds of a trial.
        threshold: Return at which a task counts as solved, for `steps_to_threshold`.
    """

    names: tuple[Objective, ...]
    aggregate: Aggregate
    threshold: float | None = None

    def values(self, records: Sequence[RunRecord]) -> tuple[float, ...] | None:
        """The value of each objective in its units; None where a run lacks a value.

        Args:
            records: Completed runs of one configuration, in order of their seeds.
        """
        values = [self._value(name, records) for name in self.names]
        return None if None in values else tuple(v for v in values if v is not None)

    def oriented(self, values: Sequence[float]) -> tuple[float, ...]:
        """The values with signs such that greater is better."""
        pairs = zip(self.names, values, strict=True)
        return tuple(-v if name in MINIMISED else v for name, v in pairs)

    def merits(self, records: Sequence[RunRecord]) -> tuple[float, ...]:
        """The first objective of each run, with the sign such that greater is better.

        Empty where a run lacks a value, or the objective is not defined for a single run.
        """
        per_run = [self._of_run(self.names[0], record) for record in records]
        values = [value for value in per_run if _is_value(value)]
        if self.names[0] == "spread" or len(values) < len(per_run):
            return ()
        sign = -1 if self.names[0] in MINIMISED else 1
        return tuple(sign * value for value in values)

    def combine(self, values: Sequence[float]) -> float:
        """The aggregate over seeds."""
        return AGGREGATES[self.aggregate](values)

    def _value(self, name: Objective, records: Sequence[RunRecord]) -> float | None:
        if name == "spread":
            return _spread([r.score for r in records if r.score is not None])
        per_run = [self._of_run(name, record) for record in records]
        values = [value for value in per_run if _is_value(value)]
        return self.combine(values) if values and len(values) == len(per_run) else None

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
        """Environment steps of the first evaluation at the threshold; the budget without one."""
        if self.threshold is None:
            return None
        # A diverged evaluation exceeds every score, and does not mean that the task is solved.
        reached = (e.step for e in record.evaluations if self.threshold <= e.mean <= LARGEST_SCORE)
        return float(next(reached, record.spec.budget["steps"]))


def _is_value(value: float | None) -> TypeGuard[float]:
    """Whether a value can be compared: a number no larger than a score can be."""
    # Every comparison with NaN is false, so NaN is no value, either.
    return value is not None and abs(value) <= LARGEST_SCORE


def _spread(scores: Sequence[float]) -> float | None:
    if len(scores) < 2:
        return None
    # `fsum` rounds once: the sum does not depend on the order of the scores.
    mean = fsum(scores) / len(scores)
    return sqrt(fsum((s - mean) ** 2 for s in scores) / (len(scores) - 1))


def _mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values)


def _iqm(values: Sequence[float]) -> float:
    return float(interquartile_mean(TaskScores.from_tasks([values])))


AGGREGATES: Mapping[Aggregate, Callable[[Sequence[float]], float]] = {
    "mean": _mean,
    "median": lambda values: float(median(values)),
    "iqm": _iqm,
}
