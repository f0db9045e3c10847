"""The summary card of a report: the answer, its figures, the cost and what is missing."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from math import fsum
from typing import TYPE_CHECKING

from rlexp.metrics.estimate_text import optimism_text, with_ends
from rlexp.protocol.seeds import Phase
from rlexp.records.selection import DEFAULT, Selection, configuration_name
from rlexp.reports.analysis.answer import answer, scored_by
from rlexp.reports.analysis.cost import total_cost
from rlexp.reports.analysis.estimates import aggregates, leading_metric
from rlexp.reports.analysis.looks import look_counts, looks_text
from rlexp.reports.analysis.metric_figures import metric_panel, metric_title
from rlexp.reports.analysis.registered_protocols import protocol_checks, protocols_text
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.sweep_tables import settings_table
from rlexp.reports.drawing.blocks import (
    FigureLine,
    IntervalFigure,
    LineFigure,
    LookCount,
    Panel,
    SummaryCard,
    Table,
    TableColumn,
    Tone,
)
from rlexp.reports.evidence.runs import Evidence, run_states_text, score_definition
from rlexp.reports.evidence.sweeps import SEARCH, SweepEvidence
from rlexp.text import (
    format_count,
    format_duration,
    format_percentage,
    join_first_names,
    join_names,
)

if TYPE_CHECKING:
    from rlexp.reports.analysis.curve_figures import DrawnCurves

MOST_CURVES = 4
"""Most tasks with a small learning curve on the card."""
MOST_BANDS = 4
"""Most labels whose bands are drawn in a small figure; the section of the curves has all of them."""
MOST_PARAMETERS = 10
"""Most hyperparameters on the card."""


def summary_card(
    report: ReportContext, *, curves: bool = True, intervals: bool = True
) -> SummaryCard:
    """The card of a report, with or without learning curves and the intervals of its labels."""
    reply, looks = answer(report), look_counts(report)
    tables = tuple(_sweep_tables(report))
    return SummaryCard(
        tone=reply.tone,
        text=reply.text,
        basis=reply.basis,
        intervals=_intervals(report) if intervals else None,
        # The tables of a sweep and curves together would not fit one screen.
        curves=tuple(_curves(report)) if curves and not tables else (),
        tables=tables,
        facts=tuple(_facts(report, looks)),
        looks=looks,
        protocols=protocol_checks(report),
    )


def uncompared_card(report: ReportContext, *, pending: bool = False) -> SummaryCard:
    """The card of labels that are not compared: their number, the cost and what is missing.

    Args:
        report: The report.
        pending: Whether the comparisons are being computed: the card then has the scores of every
            label and learning curves.
    """
    evidence, looks = report.evidence, look_counts(report)
    labels = format_count(len(evidence.labels), "label")
    compared = "being compared" if pending else "not compared with each other"
    return SummaryCard(
        tone=Tone.NOTE,
        text=f"{labels} on {join_first_names(evidence.tasks, 3)}, {compared}",
        basis=f"{scored_by(report)}." if pending else "",
        intervals=_intervals(report) if pending else None,
        curves=tuple(_curves(report)) if pending else (),
        facts=tuple(_facts(report, looks)),
        looks=looks,
        protocols=protocol_checks(report),
    )


def _intervals(report: ReportContext) -> IntervalFigure | None:
    """The leading metric of every label with its runs; None where no label has a value."""
    estimates = aggregates(report)
    name, _ = leading_metric(report)
    panel = metric_panel(name, estimates, report)
    if not panel.marks:
        return None
    definitions = sorted({score_definition(m.record.spec) for m in report.evidence.members})
    return IntervalFigure(
        name="answer-intervals",
        title="",
        panels=(panel,),
        note=f"{format_percentage(report.settings.level)} intervals{_dots(panel)}. "
        f"A score is {' or '.join(definitions)}.",
    )


def _dots(panel: Panel) -> str:
    return "; dots are runs" if any(mark.dots for mark in panel.marks) else ""


def _curves(report: ReportContext) -> Iterator[LineFigure]:
    """A small learning curve of each of the first tasks, where there is one."""
    from rlexp.reports.analysis.curve_figures import (
        SCORE_BY_STEPS,
        curve_figure,
        most_points,
        task_curves,
    )

    for number, task in enumerate(report.evidence.tasks[:MOST_CURVES], 1):
        drawn = task_curves(report, SCORE_BY_STEPS, task, single=False)
        if most_points(drawn) >= 2:
            figure = curve_figure(report, SCORE_BY_STEPS, number, task, drawn)
            yield replace(
                figure,
                lines=figure.lines if _has_bands(drawn) else _without_bands(figure),
                name=f"answer-curves-{number}",
                title=f"{task}: evaluations during training",
                note=_lines_and_bands(drawn, report),
            )


def _has_bands(drawn: "Sequence[DrawnCurves]") -> bool:
    """Whether a small figure has bands; those of many labels would hide its lines."""
    return len(drawn) <= MOST_BANDS and any(label.has_band for label in drawn)


def _without_bands(figure: LineFigure) -> tuple[FigureLine, ...]:
    return tuple(replace(line, low=None, high=None) for line in figure.lines)


def _lines_and_bands(drawn: "Sequence[DrawnCurves]", report: ReportContext) -> str:
    """What the lines and the bands of a small figure are, in few words."""
    if not _has_bands(drawn):
        return "Lines: IQM over runs."
    level = format_percentage(report.settings.level)
    return f"Lines: IQM over runs. Bands: {level} interval of the IQM at each step."


def _sweep_tables(report: ReportContext) -> Iterator[Table]:
    """The scores of winner and default by phase, and the searched hyperparameters, of one sweep."""
    if len(report.evidence.sweeps) != 1:
        return
    sweep = report.evidence.sweeps[0]
    if sweep.selection is not None:
        yield _scores_by_phase(sweep, sweep.selection, report)
    # A stream searches no parameters: its candidates come from outside.
    if sweep.definition.space.parameters:
        yield _parameters(sweep, report.evidence)


def _scores_by_phase(sweep: SweepEvidence, selection: Selection, report: ReportContext) -> Table:
    """The mean score of winner and default in each phase, with the number of seeds."""
    from rlexp.reports.analysis.winner_assessment import assess_winner

    assessment = assess_winner(sweep, selection, report)
    trials = tuple(dict.fromkeys((selection.winner, DEFAULT)))
    rows = []
    for phase in dict.fromkeys(m.phase for m in assessment.measured):
        scores = [assessment.of(phase, trial) for trial in trials]
        seeds = [len(s.scores) for s in scores if s is not None]
        means = [None if s is None or s.mean is None else s.mean.estimate for s in scores]
        counts = " and ".join(dict.fromkeys(map(str, seeds)))
        rows.append((phase, *means, counts))
    names = [configuration_name(trial, selection.winner) for trial in trials]
    gap = assessment.optimism
    overstated = ""
    if gap is not None:
        overstated = f" {optimism_text(gap, lower_is_better=sweep.score_minimised)}."
    return Table(
        name="answer-phases",
        title="Mean score by phase",
        columns=tuple(TableColumn(title=title) for title in ("phase", *names, "seeds")),
        rows=tuple(rows),
        note=f"Only test scores are results, and their {_leading_title(report)} decides, not the "
        f"mean.{overstated}",
    )


def _leading_title(report: ReportContext) -> str:
    _, metric = leading_metric(report)
    return metric_title(metric, report)


def _parameters(sweep: SweepEvidence, evidence: Evidence) -> Table:
    """The searched hyperparameters: default, and winner or best so far."""
    table = settings_table(sweep, evidence)
    searched = len(sweep.definition.space.parameters)
    default_won = sweep.selection is not None and sweep.selection.winner == DEFAULT
    kept = [k for k in ((0, 2) if default_won else (0, 2, 3)) if k < len(table.columns)]
    shown = min(searched, MOST_PARAMETERS)
    more = f"{searched - shown} further parameters: see below." if searched > shown else ""
    return Table(
        name="answer-parameters",
        title="Searched hyperparameters",
        columns=tuple(table.columns[k] for k in kept),
        rows=tuple(tuple(row[k] for k in kept) for row in table.rows[:shown]),
        note=more,
    )


def _facts(report: ReportContext, looks: Sequence[LookCount]) -> Iterator[tuple[str, str]]:
    evidence = report.evidence
    if text := _front(report):
        yield "Front", text
    if costs := list(_costs(evidence)):
        yield "Cost", "; ".join(costs)
    if evidence.members:
        yield "Missing", _missing(evidence)
    if text := looks_text(report, looks):
        yield "Looks", text
    if text := protocols_text(report):
        yield "Protocol", text


def _front(report: ReportContext) -> str:
    """The policies of the front of one sweep, and its hypervolume on test seeds; empty without one."""
    from rlexp.reports.analysis.front_values import front_volumes

    sweeps = report.evidence.sweeps
    front = sweeps[0].front if len(sweeps) == 1 else None
    if front is None:
        return ""
    names = join_names(policy.name for policy in front.front) or "no trial"
    about = f"{names}, by {join_names(front.objectives)}"
    if not front.frozen:
        return f"{about}; by tuning seeds so far"
    tested = [v for v in front_volumes(front, report) if v.phase == Phase.TEST]
    if not tested or tested[0].by_seed is None:
        return f"{about}; not tested yet"
    volume = tested[0].by_seed
    return f"{about}; hypervolume {with_ends(volume, volume.digits)} on {volume.n} test seeds"


def _costs(evidence: Evidence) -> Iterator[str]:
    """The cost of the runs and of every search; of a sweep alone, that of all its runs together."""
    searched = [sweep for sweep in evidence.sweeps if _cost_of(sweep, SEARCH)]
    if searched and len(evidence.experiments) == 1:
        yield _cost_of(searched[0], tuple(Phase), evidence.phase)
        return
    if any(member.record.attempts for member in evidence.members):
        yield total_cost(evidence.members).text
    for sweep in searched:
        yield f"the search of {sweep.experiment}: {_cost_of(sweep, SEARCH)}"


def _cost_of(sweep: SweepEvidence, phases: Collection[str], counted: str = "") -> str:
    """Environment steps, runs and time of some phases of a sweep; empty where there were none.

    With `counted`, also how many of the runs are of this phase.
    """
    costs = [cost for phase, cost in sweep.costs.items() if phase in phases]
    steps, seconds = sum(cost.steps for cost in costs), fsum(cost.seconds for cost in costs)
    took = f", {format_duration(seconds)} of runs" if seconds else ""
    runs = format_count(sum(cost.runs for cost in costs), "run")
    part = f" ({sweep.costs[counted].runs} with {counted} seeds)" if counted in sweep.costs else ""
    return f"{steps:,} environment steps in {runs}{part}{took}" if steps else ""


def _missing(evidence: Evidence) -> str:
    absent = [m for m in evidence.members if m.score is None]
    total = len(evidence.members)
    if not absent:
        return f"none, every planned run has a score ({total:,} of {total:,})"
    verb = "has" if len(absent) == 1 else "have"
    return f"{len(absent):,} of {total:,} runs {verb} no score ({run_states_text(absent)})"
