"""The section of measurements: losses and other metrics that were logged in training."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rlexp.records.logged_values import OFFLINE_PREFIX
from rlexp.reports.analysis.curve_figures import (
    curve_figure,
    most_points,
    score_metric,
    task_curves,
    view_of,
)
from rlexp.reports.analysis.logged_metrics import logged_metrics
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.drawing.blocks import Block, LineFigure, SectionContent, Text
from rlexp.reports.evidence.runs import Evidence

ABOUT = (
    "Metrics that learners logged in training, with their libraries' names and at their "
    "libraries' intervals, and further values of the evaluations in training (eval/…). The line is "
    "the interquartile mean (IQM) over runs, computed as in the learning curves: between two "
    "values a run keeps the earlier one, and after its last value it no longer counts. The band is "
    "pointwise, from resampling whole runs. 'rlexp plot EXPERIMENT --metric NAME' also shows "
    "single runs."
)
POINTS = 50
"""Most points of a curve: the figures are small, and many in a large report."""
CLOCK = "time/"
"""Beginning of metrics that count time and steps."""


@dataclass(frozen=True, slots=True)
class MeasurementsSection:
    """A small figure for each metric on each task, and the names of metrics without one."""

    def part(self, report: ReportContext) -> SectionContent | None:
        """Compute the part; `None` where nothing was logged besides what is scored."""
        names = [
            metric.metric
            for metric in logged_metrics(report.evidence)
            if metric.metric != score_metric(report.evidence)
            and not metric.metric.startswith(CLOCK)
        ]
        if not names:
            return None
        constant = [name for name in names if _is_constant(report.evidence, name)]
        points = min(POINTS, report.settings.curve_points)
        small = replace(report, settings=replace(report.settings, curve_points=points))
        figures = list(_figures(small, [name for name in names if name not in constant]))
        drawn = {figure.y.title for figure in figures}
        once = [name for name in names if name not in drawn and name not in constant]
        blocks: list[Block] = [Text(text=ABOUT), *figures]
        if constant:
            blocks.append(Text(text=f"Constant in every run: {', '.join(constant)}."))
        offline = [name for name in once if name.startswith(OFFLINE_PREFIX)]
        if offline:
            blocks.append(
                Text(text=f"Logged before the first environment step: {', '.join(offline)}.")
            )
        if others := [name for name in once if name not in offline]:
            blocks.append(Text(text=f"Logged at most once in every run: {', '.join(others)}."))
        return SectionContent(
            name="measurements",
            title="Losses and other measurements",
            blocks=tuple(blocks),
            folded=True,
        )


def _figures(report: ReportContext, names: Sequence[str]) -> Iterator[LineFigure]:
    for number, task in enumerate(report.evidence.tasks, 1):
        for name in names:
            view = view_of(name, report.evidence)
            drawn = task_curves(report, view, task, single=False)
            if most_points(drawn) > 1:
                yield curve_figure(report, view, number, task, drawn)


def _is_constant(evidence: Evidence, name: str) -> bool:
    """Whether every run that logged a metric more than once logged the same value each time."""
    every = [m.logged[name].values for m in evidence.members if name in m.logged]
    several = [values for values in every if len(values) > 1]
    return bool(several) and all(np.ptp(values) == 0 for values in several)
