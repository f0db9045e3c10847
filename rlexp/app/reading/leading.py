"""The aggregate that surfaces lead with: the one that reports lead with, made in the same way."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rlexp.metrics import Metric
from rlexp.metrics.estimate import Estimate, Estimator, declared_ends
from rlexp.metrics.iqm import InterquartileMean
from rlexp.protocol.identity import Plain
from rlexp.stats.aggregate import aggregate_of
from rlexp.stats.task_scores import TaskScores

OWN_SETTINGS = ("conf/report.yaml", "conf/metric")
"""What a workspace has that changes the settings of its reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leading:
    """The leading aggregate, and how its interval is made; by default as `conf/report.yaml` says.

    Attributes:
        name: Of the metric in `conf/metric/`.
        metric: The aggregate, of raw scores on one task.
        estimator: Method, level, repetitions and seed of its interval.
    """

    name: str = "iqm"
    metric: Metric = field(default_factory=InterquartileMean)
    estimator: Estimator = field(default_factory=Estimator)

    @property
    def title(self) -> str:
        """What tables call it (`IQM`)."""
        return self.metric.title

    def estimate(self, scores: Sequence[float], reference: Plain) -> Estimate | None:
        """The aggregate of scores on one task; nothing without a score.

        Args:
            scores: Of the runs, of shape (n,).
            reference: Known scores of the task (`environment.reference`).
        """
        if not scores:
            return None
        runs = TaskScores.from_tasks([scores])
        return self.estimator.estimate(runs, self.metric, declared_ends(reference))


def leading_aggregate(folder: Path, allowed: Sequence[str] = ()) -> Leading:
    """The aggregate that reports on a workspace lead with, of those that raw scores have.

    A workspace without settings of its own has the packaged ones, which are known here: to
    compose them takes longer than all else that is read.

    Args:
        folder: The workspace, whose `conf/` wins over the packaged one.
        allowed: Further packages whose classes `_target_` may name.

    Raises:
        ConfigError: The settings of its reports are wrong.
    """
    if not any((folder / name).exists() for name in OWN_SETTINGS):
        return Leading()
    from rlexp.config.report import read_report
    from rlexp.config.sources import packaged_root

    if folder.resolve() == packaged_root():
        return Leading()
    parts = read_report(("section=[]",), folder, allowed)
    for name, metric in parts.metrics.items():
        aggregate = aggregate_of(metric)
        if aggregate is None or aggregate.cap is None:
            return Leading(name=name, metric=metric, estimator=parts.settings.estimator)
    return Leading(estimator=parts.settings.estimator)
