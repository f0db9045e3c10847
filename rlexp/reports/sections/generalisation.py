"""The section of generalisation: the gap to held-out contexts, and the worst test contexts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Len

from rlexp.protocol.seeds import Phase
from rlexp.reports.analysis.context_figures import figures
from rlexp.reports.analysis.every_run import with_every_run
from rlexp.reports.analysis.generalisation import (
    GeneralisationGap,
    Robustness,
    TrainingShift,
    generalisation_gap,
    robustness,
    training_shift,
)
from rlexp.reports.analysis.held_out_episodes import (
    ContextTests,
    context_tests,
    has_contexts,
    is_examined,
    unlike,
)
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.drawing.blocks import (
    REMARK_COLUMN,
    Axis,
    Block,
    Callout,
    IntervalFigure,
    IntervalMark,
    Panel,
    SectionContent,
    Table,
    TableColumn,
    Text,
    Tone,
    Value,
    without_empty_remarks,
)
from rlexp.reports.evidence.runs import Evidence, LabelTaskRuns
from rlexp.stats.interval import Interval
from rlexp.text import decimals_for_span, format_percentage, join_names

ABOUT = (
    "Undiscounted returns of the final policy: the mean over the episodes of each run, then the "
    "mean over runs. Intervals are for the mean over runs."
)
NOTHING_HELD_OUT = (
    "Runs of the {phase} phase are scored on training contexts, so that held-out contexts cannot "
    "influence a choice. These numbers say nothing about held-out contexts."
)
GAP = (
    "Held out: the test, whose distribution differs from that of training. Gap: in distribution "
    "minus held out, per run, so that its mean is the difference of the means. Above 0, the policy "
    "is better on the training distribution."
)
SHIFT = (
    "Jensen-Shannon divergence between the contexts or levels of all training episodes and their "
    "target: the declared test distribution of contexts, or all training levels as likely. It is 0 "
    "for equal distributions and 1 for ones without overlap; the mean over the parameters of a "
    "context. With few episodes it is above 0 for draws from the target, too."
)
WORST = (
    "Mean return of every context of a run, all contexts with the same weight; then the smallest "
    "of them (worst case), and the mean of the worst {tail} of them (CVaR). The smallest of noisy "
    "means underestimates the smallest true mean, and more so with fewer episodes per context."
)


@dataclass(frozen=True, slots=True)
class GeneralisationSection:
    """Tables of the gap and the worst test contexts, and maps over two context parameters.

    Attributes:
        tail: Share of the worst contexts over which CVaR is the mean.
        mastery: Mean return from which a context is mastered; `threshold` takes the one that the
            task declares, and `None` does not count mastered contexts.
        parameters: Axes of the maps; `None` takes the first two parameters that vary.
        bins: Number of bins of a parameter with too many values for a cell each.
    """

    tail: Annotated[float, Gt(0), Le(1)]
    mastery: float | Literal["threshold"] | None
    parameters: Annotated[tuple[str, ...], Len(1, 2)] | None
    bins: Annotated[int, Ge(2), Le(40)]

    def part(self, report: ReportContext) -> SectionContent | None:
        """Compute the part; `None` where no run was tested on contexts or in distribution.

        Raises:
            ConfigError: A parameter in `parameters` does not vary in any test.
        """
        evidence = report.evidence
        if not is_examined(evidence) and not has_contexts(evidence):
            return None
        cells = [cell for task in evidence.tasks for cell in evidence.of_task(task)]
        tests = [cell_tests for cell in cells if (cell_tests := context_tests(cell))]
        blocks: list[Block] = [*_refused(tests), *_unlike(tests, evidence), Text(text=ABOUT)]
        if evidence.phase is not Phase.TEST:
            blocks.append(Text(text=NOTHING_HELD_OUT.format(phase=evidence.phase)))
        if is_examined(evidence):
            gaps = [generalisation_gap(cell, report.settings) for cell in cells]
            blocks += [*_figure(gaps, report), _gaps(gaps)]
        blocks += _shifts([s for c in cells if (s := training_shift(c, report.settings))])
        whole = [cell_tests for cell_tests in tests if cell_tests.why_not_comparable is None]
        if whole:
            results = [robustness(t, report.settings, self.tail, self._mastery(t)) for t in whole]
            what = "test" if evidence.phase is Phase.TEST else "training"
            blocks.append(self._contexts(results, f"Worst {what} contexts"))
            blocks += figures(whole, report.settings, self.parameters, self.bins)
        return SectionContent(name="generalisation", title="Generalisation", blocks=tuple(blocks))

    def _mastery(self, tests: ContextTests) -> float | None:
        if self.mastery != "threshold":
            return self.mastery
        reference: Any = tests.cell.members[0].configuration.reference
        threshold = reference.get("threshold")
        return None if threshold is None else float(threshold)

    def _contexts(self, results: Sequence[Robustness], title: str) -> Table:
        digits = _digits([i for result in results for i in (result.worst, result.tail)])
        mastered = {m for result in results if (m := self._mastery(result.tests)) is not None}
        # Tasks may have different thresholds, and then no single number describes the column.
        above = f" (≥ {mastered.pop():g})".replace("-", "−") if len(mastered) == 1 else ""
        columns: tuple[TableColumn, ...] = (
            TableColumn(title="task"),
            TableColumn(title="label", label=True),
            TableColumn(title="runs"),
            TableColumn(title="contexts"),
            TableColumn(title="episodes per context"),
            TableColumn(title="worst case", digits=digits),
            TableColumn(title=f"CVaR {format_percentage(self.tail)}", digits=digits),
            TableColumn(title=f"mastered{above}", digits=2),
            REMARK_COLUMN,
        )
        rows = [self._row(result) for result in results]
        # Without a threshold the column would be empty in every row.
        if self.mastery is None:
            columns, rows = columns[:7] + columns[8:], [row[:7] + row[8:] for row in rows]
        table = Table(
            name="generalisation-contexts",
            title=title,
            columns=columns,
            rows=tuple(rows),
            note=f"{WORST.format(tail=format_percentage(self.tail))}{self._share()}",
        )
        return with_every_run(without_empty_remarks(table))

    def _share(self) -> str:
        if self.mastery is None:
            return ""
        return " Mastered: the share of the contexts whose mean return reaches the threshold."

    def _row(self, result: Robustness) -> tuple[Value, ...]:
        tests, cell = result.tests, result.tests.cell
        remarks = [result.remark] if result.remark else []
        if not tests.same:
            remarks.append("the contexts differ between runs")
        if self.mastery is not None and result.mastered is None:
            remarks.append("no threshold is declared")
        return (
            cell.task,
            cell.label,
            f"{len(tests.runs):,} of {cell.planned:,}",
            _span([len(run.means) for run in tests.runs]),
            _span([int(n) for run in tests.runs for n in run.episodes]),
            result.worst,
            result.tail,
            result.mastered,
            "; ".join(remarks) or None,
        )


def _span(counts: Sequence[int]) -> int | str:
    low, high = min(counts), max(counts)
    return low if low == high else f"{low:,}–{high:,}"


def _refused(tests: Sequence[ContextTests]) -> Iterator[Callout]:
    for cell_tests in tests:
        if cell_tests.why_not_comparable:
            cell = cell_tests.cell
            text = f"No generalisation of {cell.label} on {cell.task}: {cell_tests.why_not_comparable}."
            yield Callout(tone=Tone.PROBLEM, text=text)


def _unlike(tests: Sequence[ContextTests], evidence: Evidence) -> Iterator[Callout]:
    for task in evidence.tasks:
        task_tests = [t for t in tests if t.cell.task == task and t.why_not_comparable is None]
        for text in unlike(task_tests):
            ending = "their numbers come from different tests"
            yield Callout(tone=Tone.WARNING, text=f"{text}; {ending}.")


def _figure(gaps: Sequence[GeneralisationGap], report: ReportContext) -> Iterator[IntervalFigure]:
    tasks = dict.fromkeys(gap.cell.task for gap in gaps if gap.gap)
    panels = tuple(
        Panel(
            title=task,
            axis=Axis(title="in distribution minus held out"),
            marks=tuple(
                IntervalMark(label=gap.cell.label, interval=gap.gap, dots=gap.gaps)
                for gap in gaps
                if gap.gap and gap.cell.task == task
            ),
            marked=(("no gap", 0.0),),
        )
        for task in tasks
    )
    if panels:
        yield IntervalFigure(
            name="generalisation-gap",
            title="Generalisation gap by task",
            panels=panels,
            note=f"{format_percentage(report.settings.level)} intervals; dots are runs.",
        )


def _gaps(gaps: Sequence[GeneralisationGap]) -> Table:
    digits = _digits([i for gap in gaps for i in (gap.in_distribution, gap.held_out) if i])
    table = Table(
        name="generalisation",
        title="In distribution and held out",
        columns=(
            TableColumn(title="task"),
            TableColumn(title="label", label=True),
            TableColumn(title="runs"),
            TableColumn(title="in distribution", digits=digits),
            TableColumn(title="held out", digits=digits),
            TableColumn(title="gap", digits=digits),
            REMARK_COLUMN,
        ),
        rows=tuple(
            (
                gap.cell.task,
                gap.cell.label,
                f"{gap.n:,} of {gap.cell.planned:,}",
                gap.in_distribution,
                gap.held_out,
                gap.gap,
                gap.remark,
            )
            for gap in gaps
        ),
        note=f"{GAP}{_counted_as_worst([gap.cell for gap in gaps])}",
    )
    return with_every_run(without_empty_remarks(table))


def _shifts(shifts: Sequence[TrainingShift]) -> Iterator[Table]:
    """A table of the shift of training, where runs recorded one."""
    if not shifts:
        return
    table = Table(
        name="generalisation-shift",
        title="Shift of training",
        columns=(
            TableColumn(title="task"),
            TableColumn(title="label", label=True),
            TableColumn(title="runs"),
            TableColumn(title="shift in bits", digits=3),
            REMARK_COLUMN,
        ),
        rows=tuple(
            (
                shift.cell.task,
                shift.cell.label,
                f"{len(shift.shifts):,} of {shift.cell.planned:,}",
                shift.mean,
                shift.remark,
            )
            for shift in shifts
        ),
        note=SHIFT,
    )
    yield with_every_run(without_empty_remarks(table))


def _counted_as_worst(cells: Sequence[LabelTaskRuns]) -> str:
    affected = [f"{cell.label} on {cell.task}" for cell in cells if cell.counted_as_worst]
    return (
        f" Failed runs of {join_names(affected)} count in the scores, but are left out here."
        if affected
        else ""
    )


def _digits(every: Sequence[Interval]) -> int:
    """Digits that distinguish the ends of the narrowest interval, or the estimates without one."""
    widths = [i.high - i.low for i in every if i.low is not None and i.high is not None]
    estimates = [i.estimate for i in every] or [0.0]
    # Equal scores give an interval of width 0, which would ask for infinitely many digits.
    spans = [width for width in widths if width > 0] or [max(estimates) - min(estimates)]
    return min(3, decimals_for_span(min(spans)))
