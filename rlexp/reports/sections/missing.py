"""Missing and failed runs, and what they could change."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlexp.protocol.seeds import Phase
from rlexp.reports.analysis.estimates import AggregateBounds, bounds, unit
from rlexp.reports.analysis.inquiry import Inquiry
from rlexp.reports.drawing.blocks import Block, Column, Notice, Part, Table, Text, Tone, Value
from rlexp.reports.evidence.restarts import Past
from rlexp.reports.evidence.runs import Evidence, Member, state, states
from rlexp.text import counted, digits_for, listed

MEANING = {
    Phase.TUNING: "hyperparameters may have been chosen by these very scores",
    Phase.SELECTION: "the winner was chosen by these very scores",
}


WHY = (
    "A checkpoint is continued from bit for bit or not at all, and the same seeds give the same "
    "numbers from the first step on."
)
"""Why it does not matter in how many attempts a run was made."""


@dataclass(frozen=True, slots=True)
class MissingRunsSection:
    """What has no score and why, bounds on the aggregates, and what was left out."""

    def part(self, report: Inquiry) -> Part | None:
        """Compute the part; nothing where no run was asked for."""
        evidence = report.evidence
        if not evidence.members:
            return None
        absent = [m for cell in evidence.cells.values() for m in cell.members if m.score is None]
        blocks = [*_phases(evidence), _summary(evidence, absent), *_lacking(evidence)]
        if absent:
            blocks += [Text(text=_rule(evidence)), _runs(absent)]
            blocks += _bounds(report)
        blocks += _past(evidence)
        blocks += [Notice(tone=Tone.WARNING, text=line) for line in evidence.problems]
        return Part(name="missing", title="Missing and failed runs", blocks=tuple(blocks))


def _phases(evidence: Evidence) -> Iterator[Block]:
    """The wrong phase, and runs of other phases that nothing is said about."""
    if evidence.phase is not Phase.TEST:
        yield Notice(
            tone=Tone.PROBLEM,
            text=f"These are {evidence.phase} runs, not test runs: {MEANING[evidence.phase]}, so "
            "they promise more than new seeds will keep. Nothing here is a result to report.",
        )
    if any(evidence.left_out.values()):
        others = listed(f"{n:,} {phase}" for phase, n in sorted(evidence.left_out.items()) if n)
        text = f"The same experiments hold {others} runs, which nothing here is about."
        yield Notice(tone=Tone.NOTE, text=text)


def _summary(evidence: Evidence, absent: list[Member]) -> Notice:
    total = len(evidence.members)
    if not absent:
        text = f"Every run that was asked for has a score: {total:,} of {total:,}."
        return Notice(tone=Tone.GOOD, text=text)
    every = len(absent) == total
    return Notice(
        tone=Tone.PROBLEM if every else Tone.WARNING,
        text=f"{'No run has a score' if every else 'Runs without a score'}: "
        f"{len(absent):,} of {total:,} ({states(absent)}).",
    )


def _lacking(evidence: Evidence) -> Iterator[Notice]:
    """Labels that were not asked for on a task."""
    for label in evidence.labels:
        tasks = {cell.task for cell in evidence.of_label(label)}
        if lacking := [task for task in evidence.tasks if task not in tasks]:
            text = f"{label} was not asked for on {listed(lacking)}: it has no aggregate."
            yield Notice(tone=Tone.WARNING, text=text)


def _rule(evidence: Evidence) -> str:
    """How failed runs count, by experiment."""
    rules = {
        "missing": "failed runs have no score, like runs that did not finish",
        "worst": "failed runs count as the least score that their task declares",
    }
    by_experiment = [f"in {e.name} {rules[e.failures]}" for e in evidence.experiments]
    text = (
        "; ".join(by_experiment)
        if len(by_experiment) > 1
        else rules[evidence.experiments[0].failures]
    )
    text = f"{text[0].upper()}{text[1:]}."
    if all(e.imported is not None for e in evidence.experiments):
        return f"{text} Imported runs end where their records do."
    return (
        f"{text} Repeating the command of an experiment runs what did not "
        "finish; with --retry it tries final failures again."
    )


def _runs(absent: list[Member]) -> Table:
    columns = ("run", "label", "task", "seed", "state", "reason", "step", "of")
    return Table(
        name="missing",
        title="Runs without a score",
        columns=tuple(Column(title=c, digits=0, label=c == "label") for c in columns),
        rows=tuple(_row(member) for member in absent),
        note="Step is how far a run came, of the environment steps that it was asked for.",
    )


def _row(member: Member) -> tuple[Value, ...]:
    spec, record = member.record.spec, member.record
    reason = record.reason or member.problem
    steps = (record.step, spec.budget["steps"])
    return (member.name, member.label, member.task, spec.seed, state(member), reason, *steps)


def _past(evidence: Evidence) -> Iterator[Block]:
    """Runs that took several attempts, and how these began."""
    resumed = [m for m in evidence.members if m.record.continuations or m.record.restarts]
    if not resumed:
        return
    past = Past.of(m.record for m in resumed)
    yield Text(text=f"{_begun(past)}: they count in full. {WHY}")
    if past.drifted:
        text = (
            f"{counted(past.drifted, 'run')} continued with other versions: "
            f"{listed(past.changes)}. Without that, the numbers might be others."
        )
        yield Notice(tone=Tone.WARNING, text=text)
    columns = (
        "run",
        "label",
        "task",
        "seed",
        "attempts",
        "continued at step",
        "began anew",
        "why",
    )
    yield Table(
        name="continued",
        title="Runs that took several attempts",
        columns=tuple(Column(title=c, digits=0, label=c == "label") for c in columns),
        rows=tuple(_attempts(member) for member in resumed),
        note="Why: the reason for which a checkpoint was refused, where there was one.",
    )


def _begun(past: Past) -> str:
    starts = [f"{counted(past.continued, 'run')} continued from a checkpoint"]
    starts = starts if past.continued else []
    if past.restarted:
        starts.append(f"{counted(past.restarted, 'run')} began anew")
    return listed(starts)


def _attempts(member: Member) -> tuple[Value, ...]:
    record = member.record
    steps = listed(f"{event.step:,}" for event in record.continuations) or None
    reasons = "; ".join(dict.fromkeys(f"step {e.step:,}: {e.reason}" for e in record.refused))
    seed, anew = record.spec.seed, record.restarts
    identity = (member.name, member.label, member.task, seed, record.attempts)
    return (*identity, steps, anew, reasons or None)


def _bounds(report: Inquiry) -> Iterator[Block]:
    every = bounds(report)
    ends = [v for b in every for v in (b.low, b.high) if v is not None]
    digits = digits_for(max(ends) - min(ends)) if ends else 2
    numeric = ("without these runs", "at least", "at most")
    columns = ("label", "metric", "runs without a score", *numeric, "remark")
    yield Table(
        name="bounds",
        title="What these runs could change",
        columns=tuple(
            Column(title=c, digits=digits if c in numeric else 0, label=c == "label")
            for c in columns
        ),
        rows=tuple(_bound(b, report) for b in every),
        note=f"Aggregates over {counted(len(report.evidence.tasks), 'task')}, in "
        f"{unit(report.evidence)} (optimality gap: normalised). At least and at most: had all "
        "runs without a score the least, or the greatest, that their task declares.",
    )


def _bound(bound: AggregateBounds, report: Inquiry) -> tuple[Value, ...]:
    title = report.metrics[bound.metric].title
    return (bound.label, title, bound.absent, bound.alone, bound.low, bound.high, bound.reason)
