"""The section of verdicts: the question of the report, and a verdict on every pair of labels."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlexp.metrics import title_over
from rlexp.metrics.estimate import FEW
from rlexp.metrics.estimate_text import decimals_of_width, possible, with_ends
from rlexp.reports.analysis.estimates import (
    LabelEstimates,
    LabelPair,
    aggregates,
    best_labels_first,
    is_reflected,
    leading_metric,
    order_of_difference,
    pairs,
    unit,
    verdict_unit,
)
from rlexp.reports.analysis.fairness import warnings
from rlexp.reports.analysis.identical_runs import identical_labels, is_told_apart
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.score_words import worst_end
from rlexp.reports.drawing.blocks import (
    Block,
    Callout,
    SectionContent,
    Table,
    TableColumn,
    Text,
    Tone,
)
from rlexp.reports.evidence.runs import Evidence, run_states_text, score_definition
from rlexp.stats.pairs.pairwise_family import Verdict
from rlexp.stats.pairs.verdict import Decision
from rlexp.text import (
    decimals_for_span,
    format_count,
    format_number,
    format_percentage,
    join_first_names,
    join_names,
)

MANY = 15
"""Number of pairs above which there is one notice per label instead of one per pair."""
MOST_COLUMNS = 12
"""Most labels for which a table shows the verdict on every pair."""
WORDS = {
    "better than": "better",
    "worse than": "worse",
    "equivalent to": "equivalent",
    "identical to": "identical runs",
    "undecided against": "undecided",
    "not comparable to": "not comparable",
}
"""Verdicts in the cells of the table, by the relation of a label to another one."""
DECIDED = {Verdict.BETTER, Verdict.WORSE, Verdict.EQUIVALENT}


@dataclass(frozen=True, slots=True)
class VerdictsSection:
    """Notice for each pair of labels, or the aggregate of a single label."""

    def part(self, report: ReportContext) -> SectionContent | None:
        """Compute the part."""
        compared = pairs(report)
        blocks = (
            *_question(report),
            *_matrix(report, compared),
            *_answers(report, compared),
            *_unfair(report.evidence),
        )
        return SectionContent(name="verdicts", title="Question and verdicts", blocks=blocks)


def _nothing(evidence: Evidence, names: str) -> Callout:
    """Notice that no run of the phase is planned."""
    if evidence.sweeps:
        text = f"{names} has no {evidence.phase} run yet, and only such runs are results."
        return Callout(tone=Tone.NOTE, text=text)
    text = f"{names} plans no run of the {evidence.phase} phase, so there is nothing to report."
    return Callout(tone=Tone.PROBLEM, text=text)


def _question(report: ReportContext) -> Iterator[Block]:
    evidence = report.evidence
    names = join_names(experiment.name for experiment in evidence.experiments)
    if not evidence.labels:
        yield _nothing(evidence, names)
        return
    labels, tasks = join_first_names(evidence.labels), join_first_names(evidence.tasks)
    question = (
        f"Which of {labels} scores" if len(evidence.labels) > 1 else f"What does {labels} score"
    )
    words = ("", " lower", " lowest") if evidence.is_minimised else ("", " higher", " highest")
    best = words[min(len(evidence.labels), 3) - 1]
    yield Text(text=f"{question}{best} on {tasks}? {_score(evidence)}")
    if len(evidence.labels) > 1:
        yield Text(text=_rule(report))


def _score(evidence: Evidence) -> str:
    """Sentence about the budget and the score of a run."""
    budgets = [m.record.spec.budget for m in evidence.members]
    definitions = sorted({score_definition(m.record.spec) for m in evidence.members})
    steps = sorted({budget["steps"] for budget in budgets})
    trained = " or ".join(f"{step:,}" for step in steps)
    return (
        f"A run trains for {trained} environment steps; its score is {' or '.join(definitions)}."
    )


def _rule(report: ReportContext) -> str:
    settings, several = report.settings, len(report.evidence.tasks) > 1
    _, metric = leading_metric(report)
    what = f"the difference of the {metric.title}"
    over = " over all tasks" if several else ""
    margin = (
        "No margin was declared, so no pair is called equivalent."
        if settings.margin is None
        else f"Differences within ±{settings.margin:g} are declared irrelevant."
    )
    return (
        f"A verdict is about {what}{over} ({verdict_unit(report)}), {order_of_difference(report)}. A "
        f"permutation test at family-wise level {settings.alpha:g} decides. {margin}"
    )


def _matrix(report: ReportContext, compared: Sequence[LabelPair]) -> Iterator[Block]:
    """Table with the verdict on every pair of three labels or more: row against column."""
    labels = best_labels_first(report)
    if not 3 <= len(labels) <= MOST_COLUMNS:
        return
    words = {(pair.first, pair.second): _relation(pair.first, pair, report) for pair in compared}
    words |= {(pair.second, pair.first): _relation(pair.second, pair, report) for pair in compared}
    yield Table(
        name="verdicts",
        title="Verdict on every pair",
        columns=(
            TableColumn(title="label", label=True),
            *(TableColumn(title=label) for label in labels),
        ),
        rows=tuple(
            (row, *(WORDS.get(words.get((row, column), "")) for column in labels))
            for row in labels
        ),
        note="The label of the row against that of the column.",
    )


def _answers(report: ReportContext, compared: tuple[LabelPair, ...]) -> Iterator[Callout]:
    if len(report.evidence.labels) == 1:
        yield _reached(report, aggregates(report)[0])
        return
    yield from _winner(report.evidence, compared)
    if len(compared) <= MANY:
        yield from (_notice(pair, report) for pair in compared)
    else:
        yield from (
            _summary(label, involved, report)
            for label, involved in _pairs_by_label(compared).items()
        )
        yield from _out_of_reach(compared)
        yield from _warned(compared)


def _pairs_by_label(compared: tuple[LabelPair, ...]) -> dict[str, list[LabelPair]]:
    by_label: dict[str, list[LabelPair]] = {}
    for pair in compared:
        by_label.setdefault(pair.first, []).append(pair)
        by_label.setdefault(pair.second, []).append(pair)
    return by_label


def _out_of_reach(compared: tuple[LabelPair, ...]) -> Iterator[Callout]:
    """Notice about the pairs for which no verdict is possible with their runs, of many pairs."""
    decisions = [
        pair.decision for pair in compared if pair.decision and pair.decision.member.out_of_reach
    ]
    if decisions:
        counts = f"{len(decisions):,} of {format_count(len(compared), 'pair')}"
        text = f"No verdict is possible on {counts}: {decisions[0].reason}."
        yield Callout(tone=Tone.WARNING, text=text)


def _reached(report: ReportContext, estimates: LabelEstimates) -> Callout:
    """Notice with the leading metric of the only label."""
    name, metric = next(iter(report.metrics.items()))
    if name not in estimates.intervals:
        return Callout(tone=Tone.PROBLEM, text=f"No result: {estimates.reasons[name]}.")
    interval = estimates.intervals[name]
    title = title_over(metric, len(estimates.tasks))
    level = f", {format_percentage(interval.level)} interval" if possible(interval) else ""
    text = (
        f"{estimates.label} reaches {with_ends(interval, 2)}: {title} "
        f"of the {unit(report.evidence)}, {estimates.n} of {format_count(estimates.planned, 'run')} on "
        f"{format_count(len(estimates.tasks), 'task')}{level}."
    )
    return Callout(tone=Tone.GOOD if possible(interval) else Tone.WARNING, text=text)


def _winner(evidence: Evidence, compared: tuple[LabelPair, ...]) -> Iterator[Callout]:
    """Notice about a label that is better than all others, of three labels or more."""
    if len(evidence.labels) < 3:
        return
    beaten = Counter(map(_winner_of, compared))
    for label in evidence.labels:
        if beaten[label] == len(evidence.labels) - 1:
            yield Callout(tone=Tone.GOOD, text=f"{label} is better than every other label.")


def _winner_of(pair: LabelPair) -> str | None:
    match pair.decision and pair.decision.verdict:
        case Verdict.BETTER:
            return pair.first
        case Verdict.WORSE:
            return pair.second
        case _:
            return None


def _notice(pair: LabelPair, report: ReportContext) -> Callout:
    evidence = report.evidence
    identical = identical_labels(report).get((pair.first, pair.second))
    if identical is not None and not is_told_apart(pair):
        return Callout(tone=Tone.WARNING, text=identical.sentence)
    if pair.decision is None:
        text = f"{pair.first} and {pair.second} cannot be compared: {pair.reason}."
        tone = Tone.NOTE if evidence.is_under_way else Tone.PROBLEM
        return Callout(tone=tone, text=text)
    verdict, decision = pair.decision.verdict, pair.decision
    # The head of the sentence says already which label is better.
    reason = decision.reason.removeprefix("higher: ").removeprefix("lower: ")
    more = f"; {decision.detectable.text}" if decision.detectable else ""
    head = {
        Verdict.BETTER: f"{pair.first} is better than {pair.second}",
        Verdict.WORSE: f"{pair.first} is worse than {pair.second}",
        Verdict.EQUIVALENT: f"{pair.first} and {pair.second} are equivalent",
        Verdict.UNDECIDED: f"Undecided between {pair.first} and {pair.second}",
    }[verdict]
    tone = Tone.GOOD if verdict in DECIDED else Tone.NOTE
    # A verdict on incomplete or unusual data is no plain success: its notice becomes a warning.
    caveats = "".join(_caveats(pair, evidence))
    if caveats and tone is Tone.GOOD:
        tone = Tone.WARNING
    means = _means(pair, decision, report)
    text = f"{head}: {reason}{more}.{means} {_runs(pair, evidence)}{caveats}"
    return Callout(tone=tone, text=text)


def _means(pair: LabelPair, decision: Decision, report: ReportContext) -> str:
    """A sentence about the difference of the means, which the verdict is not about."""
    comparison = decision.member.comparison
    metric, means = comparison.difference.estimate, comparison.mean_difference
    if metric == means.estimate:
        return ""
    text = f" The means differ by {with_ends(means, decimals_of_width(means))}."
    if metric * means.estimate >= 0:
        return text
    better = pair.first if means.estimate > 0 else pair.second
    side = "lower" if is_reflected(report) else "higher"
    return (
        f"{text} The mean of {better} is {side}, unlike the metric of the verdict: single runs far "
        "from the others move a mean."
    )


def _runs(pair: LabelPair, evidence: Evidence) -> str:
    sides = [
        [evidence.cells[label, task].scores for task in pair.tasks]
        for label in (pair.first, pair.second)
    ]
    first, second = (sum(map(len, tasks)) for tasks in sides)
    runs = [f" ({_every_run(tasks)})" if first + second < FEW else "" for tasks in sides]
    sizes = f"{format_count(first, 'run')}{runs[0]} against {second:,}{runs[1]}"
    return f"{sizes} on {format_count(len(pair.tasks), 'task')}."


def _every_run(tasks: Sequence[NDArray[np.float64]]) -> str:
    """Scores of few runs, in units of their task's return; semicolons separate tasks."""
    span = max(float(np.ptp(scores)) for scores in tasks)
    digits = decimals_for_span(span, max(float(np.abs(scores).max()) for scores in tasks))
    return "; ".join(
        ", ".join(format_number(score, digits) for score in sorted(scores.tolist()))
        for scores in tasks
    )


def _caveats(pair: LabelPair, evidence: Evidence) -> Iterator[str]:
    """Sentences about what a verdict does not cover, and about runs on which it is less certain."""
    if pair.warning:
        yield f" {pair.warning}"
    if pair.left_out:
        yield f" It does not cover {join_names(pair.left_out)}, where one of the labels has no score."
    for label in (pair.first, pair.second):
        cells = [evidence.cells[label, task] for task in pair.tasks]
        absent = [m for cell in cells for m in cell.members if m.score is None]
        if absent:
            worst = sum(cell.counted_as_worst for cell in cells)
            end = worst_end(evidence)
            counts = f", {worst} of them counted as the task's {end}" if worst else ""
            yield (
                f" {format_count(len(absent), 'run')} of {label} on these tasks without a score "
                f"({run_states_text(absent)}){counts}: see the bounds below."
            )


def _summary(label: str, involved: Sequence[LabelPair], report: ReportContext) -> Callout:
    """Notice with the relations of one label to all others."""
    labels_by_relation: dict[str, list[str]] = {}
    for pair in involved:
        other = pair.second if pair.first == label else pair.first
        labels_by_relation.setdefault(_relation(label, pair, report), []).append(other)
    order = (
        "better than",
        "worse than",
        "equivalent to",
        "identical to",
        "undecided against",
        "not comparable to",
    )
    relations = [
        f"{word} {join_first_names(labels_by_relation[word])}"
        for word in order
        if word in labels_by_relation
    ]
    undecided = set(labels_by_relation).isdisjoint(("better than", "worse than", "equivalent to"))
    return Callout(
        tone=Tone.NOTE if undecided else Tone.GOOD, text=f"{label}: {'; '.join(relations)}."
    )


def _warned(compared: tuple[LabelPair, ...]) -> Iterator[Callout]:
    """Notice about the pairs whose verdicts may not hold their level, of many pairs."""
    warned = [pair for pair in compared if pair.warning]
    if warned:
        names = join_first_names([f"{pair.first} and {pair.second}" for pair in warned])
        counts = f"{len(warned)} of {format_count(len(compared), 'pair')}"
        text = f"Verdicts may not hold their level on {counts}: {names}. {warned[0].warning}"
        yield Callout(tone=Tone.WARNING, text=text)


def _relation(label: str, pair: LabelPair, report: ReportContext) -> str:
    if (pair.first, pair.second) in identical_labels(report) and not is_told_apart(pair):
        return "identical to"
    if pair.decision is None:
        return "not comparable to"
    if (winner := _winner_of(pair)) is not None:
        return "better than" if winner == label else "worse than"
    equivalent = pair.decision.verdict is Verdict.EQUIVALENT
    return "equivalent to" if equivalent else "undecided against"


def _unfair(evidence: Evidence) -> Iterator[Callout]:
    """Warnings about the fairness of the comparison; notes are part of the protocol section."""
    yield from (notice for notice in warnings(evidence) if notice.tone is Tone.WARNING)
