"""The headline aggregate: the aggregate that commands show first, computed as in reports."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlexp.metrics import Metric
from rlexp.metrics.estimate import (
    Ends,
    Estimate,
    Estimator,
    KeptIntervals,
    declared_ends,
    has_other_anchors,
    largest_difference,
    lasting_name,
)
from rlexp.metrics.iqm import InterquartileMean
from rlexp.protocol.identity import Plain
from rlexp.stats.aggregate import Aggregate, aggregate_of, mean
from rlexp.stats.pairs.reach import DetectableDifferences, correction_of, seeds_to_decide
from rlexp.stats.task_scores import TaskScores

if TYPE_CHECKING:
    from rlexp.stats.pairs.power import ComparisonPlan

REPORT_SETTINGS = ("conf/report.yaml", "conf/metric")
"""Files of a workspace that change the settings of its reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlineAggregate:
    """The headline aggregate and its interval; by default as in the packaged `conf/report.yaml`.

    Attributes:
        name: The metric's name in `conf/metric/`.
        metric: The aggregate of raw scores on one task.
        estimator: Method, level, repetitions and seed of the interval.
        normalised_already: Whether the workspace takes scores as normalised (`normalisation: none`).
        alpha: The family-wise level of verdicts.
        power: The probability with which a comparison should find a difference.
    """

    name: str = "iqm"
    metric: Metric = field(default_factory=InterquartileMean)
    estimator: Estimator = field(default_factory=Estimator)
    normalised_already: bool = False
    alpha: float = 0.05
    power: float = 0.8

    @property
    def title(self) -> str:
        """The aggregate's title in tables (`IQM`)."""
        return self.metric.title

    def estimate(self, scores: Sequence[float], reference: Plain) -> Estimate | None:
        """The aggregate of scores on one task, or None without scores.

        Args:
            scores: Scores of the runs, of shape (n,).
            reference: Known values of the score.
        """
        if not scores:
            return None
        runs = TaskScores.from_tasks([scores])
        return self.estimator.estimate(runs, self.metric, declared_ends(self.usable(reference)))

    def mean_of(self, values: Sequence[float], ends: Ends) -> Estimate:
        """The mean of one value per run, with the interval that reports give it.

        Args:
            values: Values of the runs, of shape (n,), n ≥ 1.
            ends: Smallest and largest possible value.
        """
        return self.estimator.estimate(TaskScores.from_tasks([values]), mean, ends)

    def plan(self, labels: int) -> "ComparisonPlan":
        """The comparison of so many labels on one task by this aggregate."""
        from rlexp.stats.pairs.power import QUICK, ComparisonPlan

        return ComparisonPlan(
            labels=max(labels, 2), statistic=self.metric, alpha=self.alpha, samples=QUICK
        )

    def detectable(
        self, scores: Sequence[float], plan: "ComparisonPlan", reference: Plain
    ) -> DetectableDifferences:
        """What a comparison with another label of this spread could find.

        Args:
            scores: Scores of the runs, of shape (n,), n ≥ 1.
            plan: The comparison.
            reference: Known values of the score.
        """
        from rlexp.stats.pairs.pilot import detectable_differences

        labels = plan.labels
        pairs = labels * (labels - 1) // 2
        return detectable_differences(
            TaskScores.from_tasks([scores]),
            plan=plan,
            floor=seeds_to_decide(1, pairs, self.alpha, correction_of(labels), labels),
            chance=self.power,
            furthest=largest_difference([declared_ends(self.usable(reference))]),
            effect_of=self._effect,
        )

    def _effect(self, plan: "ComparisonPlan", seeds: int, chance: float) -> float | None:
        """The detectable effect of a comparison, from those that are kept or computed.

        Computing it imports scipy, which takes a third of a short command.
        """
        from rlexp.stats.pairs.power import detectable_effect

        kept, name = self.estimator.kept, lasting_name(plan.statistic)
        if kept is None or name is None:
            return detectable_effect(plan, seeds, chance)
        question = repr(
            ("detectable effect", replace(plan, statistic=Aggregate("mean")), name, seeds, chance)
        )
        return kept.recall_number(
            question.encode(), lambda: detectable_effect(plan, seeds, chance)
        )

    def keeping(self, kept: KeptIntervals) -> "HeadlineAggregate":
        """The same aggregate, whose intervals are kept for later commands."""
        return replace(self, estimator=replace(self.estimator, kept=kept))

    def usable(self, reference: Plain) -> Plain:
        """The reference scores of a task; none if they are in other units than its scores."""
        return {} if self.normalised_already and has_other_anchors(reference) else reference


def read_headline_aggregate(folder: Path, allowed: Sequence[str] = ()) -> HeadlineAggregate:
    """The first aggregate of a workspace's reports that applies to raw scores.

    A workspace without report settings uses the packaged ones, which are the defaults of
    `HeadlineAggregate`: composing the configuration would take longer than everything else that is
    read.

    Args:
        folder: The workspace; its `conf/` overrides the packaged one.
        allowed: Further packages whose classes `_target_` may name.

    Raises:
        ConfigError: The report settings of the workspace are invalid.
    """
    if not any((folder / name).exists() for name in REPORT_SETTINGS):
        return HeadlineAggregate()
    from rlexp.config.config_files import packaged_root
    from rlexp.config.report_settings import read_report

    if folder.resolve() == packaged_root():
        return HeadlineAggregate()
    parts = read_report(("section=[]",), folder, allowed)
    headline = HeadlineAggregate(
        estimator=parts.settings.estimator,
        normalised_already=parts.settings.normalisation == "none",
        alpha=parts.settings.alpha,
        power=parts.settings.power,
    )
    for name, metric in parts.metrics.items():
        aggregate = aggregate_of(metric)
        # A capped metric needs normalised scores, and these are raw.
        if aggregate is None or aggregate.cap is None:
            return replace(headline, name=name, metric=metric)
    return headline
