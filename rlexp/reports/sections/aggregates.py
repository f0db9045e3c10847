"""The section of aggregates: every metric of every label over all tasks, with intervals."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rlexp.metrics.estimate_text import few_runs, too_narrow
from rlexp.reports.analysis.estimates import LabelEstimates, aggregates, is_capped, unit
from rlexp.reports.analysis.every_run import with_every_run
from rlexp.reports.analysis.metric_figures import is_normalised, metric_panel, metric_title
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.scale import NORMALISED_ALREADY, anchors_by_task
from rlexp.reports.drawing.blocks import (
    Block,
    Callout,
    IntervalFigure,
    SectionContent,
    Table,
    TableColumn,
    Text,
    Tone,
    Value,
)
from rlexp.text import (
    decimals_for_values,
    format_percentage,
    format_runs_by_task,
    join_first_names,
    join_names,
)


@dataclass(frozen=True, slots=True)
class AggregatesSection:
    """Figure and table of every metric of every label, with intervals."""

    def part(self, report: ReportContext) -> SectionContent | None:
        """Compute the part; `None` where there is no label."""
        estimates = aggregates(report)
        if not estimates:
            return None
        blocks: list[Block] = [
            Text(text=_about(report)),
            *_unused_references(report),
            *_reasons(estimates, report),
            *_narrow(estimates, report),
        ]
        if any(label_estimates.intervals for label_estimates in estimates):
            blocks.append(_figure(estimates, report))
        blocks.append(_table(estimates, report))
        if report.settings.normalisation != "none" and any(
            is_normalised(name, report)
            for label_estimates in estimates
            for name in label_estimates.intervals
        ):
            blocks.append(_anchors(report))
        return SectionContent(name="aggregates", title="Aggregates", blocks=tuple(blocks))


def _about(report: ReportContext) -> str:
    tasks = report.evidence.tasks
    already = report.settings.normalisation == "none"
    if len(tasks) == 1:
        as_recorded = f" {_sentence(NORMALISED_ALREADY)} (normalisation=none)." if already else ""
        return (
            f"All runs on {tasks[0]}, in units of its {report.evidence.quantity(tasks[0])}. With a "
            f"single task, median and mean are those of its runs.{as_recorded}"
        )
    if already:
        return (
            f"All runs on {len(tasks)} tasks. {_sentence(NORMALISED_ALREADY)} (normalisation=none): "
            "their 0 and 1 are the anchors. If they are returns, these aggregates mean nothing. "
            "Every task has the same weight."
        )
    return (
        f"All runs on {len(tasks)} tasks. Scores are normalised per task: the lower anchor becomes "
        "0 and the upper anchor 1 (see the table of anchors). Every task has the same weight."
    )


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}"


def _unused_references(report: ReportContext) -> Iterator[Callout]:
    """Warning about tasks that declare returns, where scores are taken as normalised."""
    if tasks := report.evidence.unused_references:
        yield Callout(
            tone=Tone.WARNING,
            text=f"{join_first_names(tasks)}: the configuration declares a random score other "
            "than 0 or a threshold other than 1. Such reference scores are returns, and are not "
            "used here. If the scores are returns too, leave out normalisation=none.",
        )


def _reasons(estimates: Sequence[LabelEstimates], report: ReportContext) -> Iterator[Callout]:
    """Notices about absent aggregates and intervals, one for each reason."""
    metrics: dict[str, dict[str, None]] = {}
    for label_estimates in estimates:
        for name, reason in label_estimates.reasons.items():
            metrics.setdefault(reason, {})[name] = None
    tone = Tone.WARNING if any(e.intervals for e in estimates) else Tone.PROBLEM
    for reason, names in metrics.items():
        # A reason that concerns some aggregates must not deny the others.
        some = join_names([metric_title(report.metrics[name], report) for name in names])
        what = "aggregate" if len(names) == len(report.metrics) else some
        yield Callout(tone=tone, text=f"No {what}: {reason}.")
    # A reason is often shared by all labels: one notice lists them instead of repeating it.
    impossible: dict[str, list[str]] = {}
    for label_estimates in estimates:
        for reason in dict.fromkeys(
            i.reason for i in label_estimates.intervals.values() if i.reason
        ):
            impossible.setdefault(reason, []).append(label_estimates.label)
    for reason, labels in impossible.items():
        text = f"No interval for {join_names(labels)}: {reason}."
        yield Callout(tone=Tone.WARNING, text=text)


def _narrow(estimates: Sequence[LabelEstimates], report: ReportContext) -> Iterator[Callout]:
    """Warnings about metrics whose intervals have a coverage below the nominal level."""
    shares_by_labels: dict[tuple[str, ...], dict[str, float]] = {}
    for name, metric in report.metrics.items():
        narrow = {e.label: i for e in estimates if (i := e.intervals.get(name)) and too_narrow(i)}
        shares = [i.coverage for i in narrow.values() if i.coverage is not None]
        if shares:
            shares_by_labels.setdefault(tuple(narrow), {})[metric_title(metric, report)] = min(
                shares
            )
    for labels, shares_by_title in shares_by_labels.items():
        yield Callout(
            tone=Tone.WARNING,
            text=f"Intervals of {join_names(shares_by_title)} are too narrow for {join_names(labels)}: "
            f"with this number of runs, {format_percentage(report.settings.level)} intervals contained the "
            f"true value in {format_percentage(min(shares_by_title.values()))} of simulations. Add seeds.",
        )


def _figure(estimates: Sequence[LabelEstimates], report: ReportContext) -> IntervalFigure:
    names = [
        name
        for name in report.metrics
        if any(name in label_estimates.intervals for label_estimates in estimates)
    ]
    return IntervalFigure(
        name="aggregates-figure",
        title="Aggregates with intervals",
        panels=tuple(metric_panel(name, estimates, report) for name in names),
        note=f"{format_percentage(report.settings.level)} intervals{_dots(estimates)}."
        f"{_lower_is_better(names, report)}",
    )


def _dots(estimates: Sequence[LabelEstimates]) -> str:
    few = any(
        few_runs(i) for label_estimates in estimates for i in label_estimates.intervals.values()
    )
    return "; where runs are few, dots show single runs" if few else ""


def _lower_is_better(names: Sequence[str], report: ReportContext) -> str:
    lower = [
        metric_title(metric, report)
        for metric in (report.metrics[name] for name in names)
        # Capped metrics are of normalised scores, which are better the higher they are.
        if metric.higher_is_better is (report.evidence.is_minimised and not is_capped(metric))
    ]
    return f" Lower is better for {join_names(lower)}." if lower else ""


def _table(estimates: Sequence[LabelEstimates], report: ReportContext) -> Table:
    columns = [TableColumn(title="label", label=True), TableColumn(title="runs")]
    columns += [
        TableColumn(title=metric_title(metric, report)) for metric in report.metrics.values()
    ]
    table = Table(
        name="aggregates",
        title="Aggregates",
        columns=tuple(columns),
        rows=tuple(_row(label_estimates, report) for label_estimates in estimates),
        note=f"Runs: with a score, of planned. In units of the {unit(report.evidence)}"
        f"{_other_units(report)}.{_lower_is_better(list(report.metrics), report)}",
    )
    return with_every_run(table, metric_title(next(iter(report.metrics.values())), report))


def _other_units(report: ReportContext) -> str:
    capped = [metric_title(m, report) for m in report.metrics.values() if is_capped(m)]
    several = len(report.evidence.tasks) > 1
    return f"; {join_names(capped)} in normalised scores" if capped and not several else ""


def _row(estimates: LabelEstimates, report: ReportContext) -> tuple[Value, ...]:
    values = (estimates.intervals.get(name) for name in report.metrics)
    return (estimates.label, _runs(estimates), *values)


def _runs(estimates: LabelEstimates) -> str:
    """Number of runs with a score, of planned; for several tasks also the number on each."""
    count = f"{estimates.n:,} of {estimates.planned:,}"
    sizes = next((i.sizes for i in estimates.intervals.values()), ())
    return f"{count}: {format_runs_by_task(sizes)}" if len(sizes) > 1 else count


def _anchors(report: ReportContext) -> Block:
    anchors = anchors_by_task(report.evidence, report.settings)
    rows = [
        (task, task_anchors.low, task_anchors.high, task_anchors.source)
        for task, task_anchors in anchors.items()
        if task_anchors
    ]
    digits = decimals_for_values(end for _, low, high, _ in rows for end in (low, high))
    return Table(
        name="anchors",
        title="Normalisation anchors",
        columns=(
            TableColumn(title="task"),
            TableColumn(title="low (becomes 0)", digits=digits),
            TableColumn(title="high (becomes 1)", digits=digits),
            TableColumn(title="source"),
        ),
        rows=tuple(rows),
        note="Normalised score: (score − low) / (high − low). Scores outside the anchors are "
        "not clipped.",
    )
