"""The objectives of a search: values of a trial's runs, aggregated over the tuning seeds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, isnan, nan, sqrt
from statistics import median
from typing import TypeGuard

from rlexp.protocol.measures import RETURN
from rlexp.protocol.sweep import (
    LOWEST_SCORE,
    MINIMISED,
    RECORDED_OBJECTIVES,
    Aggregate,
    SweepTask,
    oriented,
)
from rlexp.records.events import Evaluated
from rlexp.records.run import LARGEST_SCORE, RunRecord, area_under_curve, last_window
from rlexp.stats.aggregate import interquartile_mean
from rlexp.stats.task_scores import TaskScores


@dataclass(frozen=True, slots=True, kw_only=True)
class Objectives:
    """The objectives of a search and the aggregate over runs.

    Attributes:
        names: The objectives; the first one decides the ranking.
        aggregate: The aggregate over the seeds of a trial.
        threshold: Value of the score's quantity at which a task counts as solved, for
            `steps_to_threshold`.
        minimised: The objectives whose lower values are better.
        score_quantity: What the score is made of: `return`, or the name of a measure.
        score_minimised: Whether lower scores are better.
        tasks: The tasks of a sweep on several ones, on which the objective is the normalised score. The
            runs of a configuration are then ordered by seed, and by task within a seed. Empty for a
            sweep on one task.
    """

    names: tuple[str, ...]
    aggregate: Aggregate
    threshold: float | None = None
    minimised: frozenset[str] = MINIMISED
    score_quantity: str = RETURN
    score_minimised: bool = False
    tasks: tuple[SweepTask, ...] = ()

    def values(self, records: Sequence[RunRecord]) -> tuple[float, ...] | None:
        """The value of each objective in its units; None where a run lacks a value.

        Args:
            records: Completed runs of one configuration, in order of their seeds.
        """
        if self.tasks:
            merits = self.merits(records)
            return (self.combine(self.by_seed(merits)),) if merits else None
        values = [self._value(name, records) for name in self.names]
        return None if None in values else tuple(v for v in values if v is not None)

    def of_run(self, record: RunRecord) -> tuple[float, ...] | None:
        """The value of each objective of one run; None where one is missing.

        NaN for `spread`, which is a number of several runs.
        """
        values = [nan if n == "spread" else self._of_run(n, record) for n in self.names]
        present = [v for v in values if v is not None and (isnan(v) or _is_value(v))]
        return tuple(present) if len(present) == len(values) else None

    def oriented(self, values: Sequence[float]) -> tuple[float, ...]:
        """The values with signs such that greater is better."""
        return oriented(values, self.names, self.minimised)

    def merits(self, records: Sequence[RunRecord]) -> tuple[float, ...]:
        """The first objective of each run, with the sign such that greater is better.

        Empty where a run lacks a value, or the objective is not defined for a single run.
        """
        if self.tasks:
            shares = [self._normalised(r.score, position) for position, r in enumerate(records)]
            return tuple(s for s in shares if s is not None) if None not in shares else ()
        per_run = [self._of_run(self.names[0], record) for record in records]
        values = [value for value in per_run if _is_value(value)]
        if self.names[0] == "spread" or len(values) < len(per_run):
            return ()
        sign = -1 if self.names[0] in self.minimised else 1
        return tuple(sign * value for value in values)

    def by_seed(self, merits: Sequence[float]) -> tuple[float, ...]:
        """The mean over the tasks of each seed; the last seed may have fewer tasks.

        Args:
            merits: Normalised scores of runs, ordered by seed, and by task within a seed.
        """
        count = max(len(self.tasks), 1)
        starts = range(0, len(merits), count)
        return tuple(_mean(merits[start : start + count]) for start in starts)

    def seed_scores(self, records: Sequence[RunRecord]) -> tuple[float, ...]:
        """The score of each seed; on several tasks, the mean normalised score over the tasks.

        A seed is left out if a run of it has no score.

        Args:
            records: Runs of one configuration, by seed, and by task within a seed.
        """
        count = max(len(self.tasks), 1)
        groups = (records[start : start + count] for start in range(0, len(records), count))
        if not self.tasks:
            return tuple(r.score for (r,) in groups if r.score is not None)
        return tuple(_mean(merits) for group in groups if (merits := self.merits(group)))

    def _normalised(self, score: float | None, position: int) -> float | None:
        """The normalised score of a run, by the position of the run; None without a score."""
        if not _is_value(score):
            return None
        share = self.tasks[position % len(self.tasks)].normalised(score)
        return share if _is_value(share) else None

    @property
    def pruned_by(self) -> str:
        """The quantity by whose evaluations trials are pruned: `return`, or a measure."""
        first = self.names[0]
        if first in RECORDED_OBJECTIVES:
            return RETURN if first in {"final", "auc", "last_window"} else self.score_quantity
        return first

    @property
    def pruning_sign(self) -> int:
        """The sign that makes greater values of the pruned quantity better: 1 or -1."""
        if self.tasks:
            return 1
        if self.pruned_by == self.names[0]:
            return -1 if self.names[0] in self.minimised else 1
        return -1 if self._scores_low and self.pruned_by == self.score_quantity else 1

    @property
    def _scores_low(self) -> bool:
        """Whether lower scores are better, by their direction or by the first objective."""
        return self.score_minimised or self.names[0] == LOWEST_SCORE

    def height(self, evaluation: Evaluated, position: int = 0) -> float:
        """The value by which a pruner judges an evaluation; greater is better.

        Args:
            evaluation: An evaluation of a run.
            position: The position of the run among those of its trial, which gives its task.
        """
        if self.tasks:
            task = self.tasks[position % len(self.tasks)]
            return task.normalised(evaluation.mean_of(self.score_quantity))
        return self.pruning_sign * evaluation.mean_of(self.pruned_by)

    def judged(self, record: RunRecord, position: int = 0) -> float | None:
        """The value by which a pruner judges a whole run; greater is better."""
        if self.tasks:
            return self._normalised(record.score, position)
        first = self.names[0]
        # The mean return of a run that is scored by a measure is an objective of its own.
        by_score = first in RECORDED_OBJECTIVES and self.pruned_by == self.score_quantity
        value = record.score if by_score else self._of_run(first, record)
        if not _is_value(value):
            return None
        minimised = self._scores_low if by_score else first in self.minimised
        return -value if minimised else value

    def combine(self, values: Sequence[float]) -> float:
        """The aggregate over seeds."""
        return AGGREGATES[self.aggregate](values)

    def _value(self, name: str, records: Sequence[RunRecord]) -> float | None:
        if name == "spread":
            return _spread([r.score for r in records if r.score is not None])
        per_run = [self._of_run(name, record) for record in records]
        values = [value for value in per_run if _is_value(value)]
        return self.combine(values) if values and len(values) == len(per_run) else None

    def _of_run(self, name: str, record: RunRecord) -> float | None:
        match name:
            case "final":
                return record.final.mean if record.final else None
            case "auc":
                return area_under_curve(record.evaluations)
            case "last_window":
                return last_window(record.evaluations, record.spec.budget["steps"])
            case "steps_to_threshold":
                return self._steps_to_threshold(record)
            case "score" | "lowest_score":
                return record.score
            case _:
                return record.final.mean_of(name) if record.final else None

    def _steps_to_threshold(self, record: RunRecord) -> float | None:
        """Environment steps of the first evaluation at the threshold; the budget without one."""
        if self.threshold is None:
            return None
        sign = -1 if self.score_minimised else 1
        for evaluation in record.evaluations:
            height = evaluation.mean_of(self.score_quantity)
            # A diverged evaluation exceeds every score, and does not mean that the task is solved.
            if _is_value(height) and sign * height >= sign * self.threshold:
                return float(evaluation.step)
        return float(record.spec.budget["steps"])


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
