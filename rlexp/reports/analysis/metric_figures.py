"""Panels of metrics: the estimates of every label with its interval, and its runs as dots."""

from collections.abc import Sequence

from rlexp.metrics import Metric, title_over
from rlexp.reports.analysis.estimates import LabelEstimates, is_capped, unit
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.drawing.blocks import Axis, IntervalMark, Panel


def metric_title(metric: Metric, report: ReportContext) -> str:
    """The title of a metric over the tasks of the report."""
    return title_over(metric, len(report.evidence.tasks))


def is_normalised(name: str, report: ReportContext) -> bool:
    """Whether the values of a metric are normalised scores."""
    return len(report.evidence.tasks) > 1 or is_capped(report.metrics[name])


def metric_axis(name: str, report: ReportContext) -> str:
    """The unit of a metric's values."""
    return "normalised score" if is_normalised(name, report) else unit(report.evidence)


def metric_panel(name: str, estimates: Sequence[LabelEstimates], report: ReportContext) -> Panel:
    """The panel of a metric, with a mark for each label that has a value."""
    return Panel(
        title=metric_title(report.metrics[name], report),
        axis=Axis(title=metric_axis(name, report)),
        marks=tuple(
            IntervalMark(
                label=label_estimates.label,
                interval=label_estimates.intervals[name],
                # Estimates hold their runs only where these are few.
                dots=tuple(run for runs in label_estimates.intervals[name].runs for run in runs),
            )
            for label_estimates in estimates
            if name in label_estimates.intervals
        ),
    )
