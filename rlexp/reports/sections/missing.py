"""The section of missing and failed runs, with bounds on the aggregates."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlexp.metrics import title_over
from rlexp.protocol.seeds import Phase
from rlexp.reports.analysis.answer import PHASE_CAVEATS
from rlexp.reports.analysis.estimates import NO_BOUND, AggregateBounds, bounds, is_capped, unit
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.drawing.blocks import (
    Block,
    Callout,
    SectionContent,
    Table,
    TableColumn,
    Text,
    Tone,
    Value,
)
from rlexp.reports.evidence.restarts import RestartCounts
from rlexp.reports.evidence.runs import Evidence, PlannedRun, run_states_text, state
from rlexp.text import decimals_for_span, format_count, join_names

WHY = (
    "A run continues from a checkpoint bit for bit or restarts from the first step, and the same "
    "seeds give the same numbers."
)
"""Reason why the number of attempts of a run does not change its result."""


@dataclass(frozen=True, slots=True)
class MissingRunsSection:
    """Runs without a score, bounds on the aggregates, and runs that took several attempts."""

    def part(self, report: ReportContext) -> SectionContent | None:
        """Compute the part; `None` where no run is planned."""
        evidence = report.evidence
        if not evidence.members:
            return None
        absent = [m for cell in evidence.cells.values() for m in cell.members if m.score is None]
        blocks = [*_phases(evidence), *_summary(evidence, absent), *_lacking(evidence)]
        if absent:
            blocks += [Text(text=_opening(evidence, absent)), _runs(absent)]
            blocks += _bounds(report)
        blocks += _past(evidence)
        blocks += [Callout(tone=Tone.WARNING, text=line) for line in evidence.problems]
        return SectionContent(
            name="missing", title="Missing and failed runs", blocks=tuple(blocks)
        )


def _phases(evidence: Evidence) -> Iterator[Block]:
    """Notices about a phase other than test, and about runs of other phases."""
    if evidence.phase is not Phase.TEST:
        yield Callout(
            tone=Tone.PROBLEM,
            text=f"These are {evidence.phase} runs, not test runs: {PHASE_CAVEATS[evidence.phase]}, so "
            "they overestimate performance on new seeds. Do not report them as results.",
        )
    if any(evidence.left_out.values()):
        others = join_names(
            f"{n:,} {phase}" for phase, n in sorted(evidence.left_out.items()) if n
        )
        text = f"The same experiments also hold {others} runs, which this report leaves out."
        yield Callout(tone=Tone.NOTE, text=text)


def _summary(evidence: Evidence, absent: list[PlannedRun]) -> Iterator[Callout]:
    """A notice where all runs have a score, or none has.

    Where some lack one, the failed checks of the report have a box that says so for each label.
    """
    if not absent:
        total = len(evidence.members)
        text = f"Every planned run has a score: {total:,} of {total:,}."
        yield Callout(tone=Tone.GOOD, text=text)
    elif len(absent) == len(evidence.members):
        tone = Tone.NOTE if evidence.is_under_way else Tone.PROBLEM
        yield Callout(tone=tone, text=f"No run has a score: {_counts(evidence, absent)}.")


def _opening(evidence: Evidence, absent: list[PlannedRun]) -> str:
    """How many runs have no score, where no notice says it, and how failed runs count."""
    rule = _rule(evidence)
    if len(absent) == len(evidence.members):
        return rule
    return f"Runs without a score: {_counts(evidence, absent)}. {rule}"


def _counts(evidence: Evidence, absent: list[PlannedRun]) -> str:
    """How many runs have no score, by state."""
    return f"{len(absent):,} of {len(evidence.members):,} ({run_states_text(absent)})"


def _lacking(evidence: Evidence) -> Iterator[Callout]:
    """Warnings about labels without a planned run on a task."""
    for label in evidence.labels:
        tasks = {cell.task for cell in evidence.of_label(label)}
        if lacking := [task for task in evidence.tasks if task not in tasks]:
            text = f"{label} has no planned run on {join_names(lacking)}, so it has no aggregate."
            yield Callout(tone=Tone.WARNING, text=text)


def _rule(evidence: Evidence) -> str:
    """How failed runs count, by experiment."""
    rules = {
        "missing": "a failed run has no score, like an unfinished run",
        "worst": "a failed run counts as the minimum score that its task declares",
    }
    by_experiment = [f"in {e.name} {rules[e.failures]}" for e in evidence.experiments]
    text = (
        "; ".join(by_experiment)
        if len(by_experiment) > 1
        else rules[evidence.experiments[0].failures]
    )
    text = f"{text[0].upper()}{text[1:]}."
    if all(e.imported is not None for e in evidence.experiments):
        return f"{text} Imported runs cannot be continued."
    return (
        f"{text} Repeat the command of an experiment to execute its unfinished runs; add --retry "
        "to repeat final failures, too."
    )


def _runs(absent: list[PlannedRun]) -> Table:
    columns = ("run", "label", "task", "seed", "state", "reason", "step", "of")
    return Table(
        name="missing",
        title="Runs without a score",
        columns=tuple(TableColumn(title=c, digits=0, label=c == "label") for c in columns),
        rows=tuple(_row(member) for member in absent),
        note="Step: environment steps that the run reached; of: those of its budget.",
    )


def _row(member: PlannedRun) -> tuple[Value, ...]:
    spec, record = member.record.spec, member.record
    reason = record.reason or member.problem
    steps = (record.step, spec.budget["steps"])
    return (member.name, member.label, member.task, spec.seed, state(member), reason, *steps)


def _past(evidence: Evidence) -> Iterator[Block]:
    """Runs that took several attempts, and how each further attempt began."""
    resumed = [m for m in evidence.members if m.record.continuations or m.record.restarts]
    if not resumed:
        return
    past = RestartCounts.of(m.record for m in resumed)
    yield Text(text=f"{_begun(past)}. These runs count in full. {WHY}")
    if past.drifted:
        text = (
            f"{format_count(past.drifted, 'run')} continued with other versions: "
            f"{join_names(past.changes)}. With unchanged versions, the numbers might be different."
        )
        yield Callout(tone=Tone.WARNING, text=text)
    columns = (
        "run",
        "label",
        "task",
        "seed",
        "attempts",
        "continued at step",
        "restarts",
        "why",
    )
    yield Table(
        name="continued",
        title="Runs that took several attempts",
        columns=tuple(TableColumn(title=c, digits=0, label=c == "label") for c in columns),
        rows=tuple(_attempts(member) for member in resumed),
        note="Why: the reason why a checkpoint was refused, if one was.",
    )


def _begun(past: RestartCounts) -> str:
    starts = [f"{format_count(past.continued, 'run')} continued from a checkpoint"]
    starts = starts if past.continued else []
    if past.restarted:
        starts.append(f"{format_count(past.restarted, 'run')} restarted")
    return join_names(starts)


def _attempts(member: PlannedRun) -> tuple[Value, ...]:
    record = member.record
    steps = join_names(f"{event.step:,}" for event in record.continuations) or None
    reasons = "; ".join(dict.fromkeys(f"step {e.step:,}: {e.reason}" for e in record.refused))
    seed, anew = record.spec.seed, record.restarts
    identity = (member.name, member.label, member.task, seed, record.attempts)
    return (*identity, steps, anew, reasons or None)


def _bounds(report: ReportContext) -> Iterator[Block]:
    every = [b for b in bounds(report) if _has_aggregate(b)]
    if not every:
        return
    # Digits follow the spread of the bounds, which may be far wider than the scores.
    ends = [v for b in every for v in (b.low, b.high) if v is not None]
    digits = decimals_for_span(max(ends) - min(ends)) if ends else 2
    numeric = ("without these runs", "at least", "at most")
    columns = ("label", "metric", "runs without a score", *numeric)
    capped = any(is_capped(report.metrics[b.metric]) for b in every)
    scale = unit(report.evidence) + (" (optimality gap: normalised)" if capped else "")
    reasons = dict.fromkeys(f" {b.reason}." for b in every if b.reason)
    yield Table(
        name="bounds",
        title="Bounds on the aggregates",
        columns=tuple(
            TableColumn(title=c, digits=digits if c in numeric else 0, label=c == "label")
            for c in columns
        ),
        rows=tuple(_bound(b, report) for b in every),
        note=f"Aggregates over {format_count(len(report.evidence.tasks), 'task')}, in "
        f"{scale}. At least and at most: the aggregate if all runs without a score had the "
        f"minimum, or the maximum, that their task declares.{''.join(reasons)}",
    )


def _has_aggregate(bound: AggregateBounds) -> bool:
    """Whether there is such an aggregate; the section of aggregates says why there is none."""
    numbers = (bound.alone, bound.low, bound.high)
    return any(n is not None for n in numbers) or (bound.reason or "").startswith(NO_BOUND)


def _bound(bound: AggregateBounds, report: ReportContext) -> tuple[Value, ...]:
    title = title_over(report.metrics[bound.metric], len(report.evidence.tasks))
    return (bound.label, title, bound.absent, bound.alone, bound.low, bound.high)
