"""The answer of a report on one line: which label is better, or what a single label scores.

The page, the terminal and the notebook show this line first. It is made of the estimates and
verdicts of `rlexp.reports.analysis.estimates`, so it never differs from the sections.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rlexp.metrics import full_title
from rlexp.metrics.estimate_text import decimals_of_width, ends, possible
from rlexp.protocol.seeds import Phase
from rlexp.records.selection import DEFAULT, configuration_name
from rlexp.reports.analysis.ablation_answer import ablation_answer, ablation_basis
from rlexp.reports.analysis.ablation_effects import ablation_effects
from rlexp.reports.analysis.estimates import (
    LabelPair,
    aggregates,
    is_reflected,
    leading_metric,
    pairs,
    unit,
    verdict_unit,
)
from rlexp.reports.analysis.identical_runs import identical_labels, is_told_apart
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.sweep_tables import incumbents
from rlexp.reports.drawing.blocks import Tone
from rlexp.reports.evidence.runs import Evidence, run_states_text
from rlexp.reports.evidence.sweeps import SweepEvidence
from rlexp.stats.pairs.pairwise_family import Verdict
from rlexp.stats.pairs.verdict import Decision
from rlexp.text import (
    decimals_for_span,
    format_count,
    format_number,
    format_p_value,
    format_percentage,
    format_roughly,
    join_first_names,
    join_names,
)

PHASE_CAVEATS = {
    Phase.TUNING: "hyperparameters may have been chosen by these scores",
    Phase.SELECTION: "the best configuration was chosen by these scores",
}
FEW_LABELS = 4
"""Most labels that the answer names one by one."""
MOST_NAMED = 3
"""Most labels that the answer names of those with the same verdict, where labels are many."""
AGAINST: Mapping[Verdict | None, str] = {
    Verdict.WORSE: "worse than",
    Verdict.EQUIVALENT: "equivalent to",
    Verdict.UNDECIDED: "undecided against",
    None: "not compared with",
}
"""What the label with the best score is to others that it is not better than."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to the question of a report.

    Attributes:
        tone: `good` where the question is decided, `note` where it is not, `problem` where there
            is no result.
        text: The answer on one line, without a final stop.
        basis: What the answer rests on: metric, test, p-value, runs. A sentence; may be empty.
    """

    tone: Tone
    text: str
    basis: str = ""


def answer(report: ReportContext) -> Answer:
    """The answer to the question of a report."""
    evidence = report.evidence
    if not evidence.labels:
        return _no_runs(evidence)
    scored = sum(cell.n for cell in evidence.cells.values())
    if not scored:
        states = run_states_text(evidence.members)
        tone = Tone.NOTE if evidence.is_under_way else Tone.PROBLEM
        return Answer(tone=tone, text=f"no run has a score yet: {states}")
    if evidence.phase is not Phase.TEST:
        return _with_direction(_of_choosing(report), report)
    if (reply := _of_ablation(evidence)) is not None:
        return _with_direction(reply, report)
    if len(evidence.labels) == 1:
        return _with_direction(_single(report), report)
    compared = pairs(report)
    reply = _of_pair(compared[0], report) if len(compared) == 1 else _of_pairs(compared, report)
    return _with_direction(reply, report)


def _of_ablation(evidence: Evidence) -> Answer | None:
    """What did it, where the report is about one ablation as a whole."""
    if len(evidence.experiments) != 1 or len(evidence.ablations) != 1:
        return None
    effects = ablation_effects(evidence.ablations[0], evidence)
    if effects is None:
        return None
    tone, text = ablation_answer(effects)
    return Answer(tone=tone, text=text.rstrip("."), basis=ablation_basis(effects))


def _with_direction(reply: Answer, report: ReportContext) -> Answer:
    """The answer, which says where lower scores are better."""
    if not is_reflected(report):
        return reply
    return replace(reply, basis=f"{reply.basis} Lower is better.".lstrip())


def _no_runs(evidence: Evidence) -> Answer:
    names = join_names(experiment.name for experiment in evidence.experiments)
    if len(evidence.sweeps) != 1:
        return Answer(tone=Tone.NOTE, text=f"{names} has no {evidence.phase} run yet")
    return _search(evidence.sweeps[0])


def _stream(sweep: SweepEvidence) -> Answer:
    """The state of a stream that takes candidates; its first trial is the first champion."""
    candidates = [trial for trial in sweep.trials if trial.number != DEFAULT]
    kept = [trial for trial in candidates if trial.state == "complete"]
    count = format_count(len(candidates), "candidate")
    champion = configuration_name(kept[-1].number if kept else DEFAULT, None)
    return Answer(
        tone=Tone.NOTE,
        text=f"{sweep.experiment} takes candidates: {count} so far, {len(kept)} kept",
        basis=f"The champion is {champion}.",
    )


def _search(sweep: SweepEvidence) -> Answer:
    """The state of a search without a winner."""
    if sweep.definition.is_stream:
        return _stream(sweep)
    trials = format_count(len(sweep.trials), "trial")
    best = incumbents(sweep)
    head = f"{sweep.experiment} has no winner yet: {trials}"
    if sweep.imported:
        head = f"{sweep.experiment} is the search of another tool: {trials}"
    if not best:
        # A trial with a score on the first tuning seeds is complete there, and may be promoted.
        seeds = len(sweep.tuning_seeds)
        where = f" on all {seeds} tuning seeds" if seeds > 1 and not sweep.imported else ""
        return Answer(tone=Tone.NOTE, text=f"{head}, none is complete{where}")
    value = best[-1].value
    digits = decimals_for_span(abs(value)) if value else 0
    return Answer(
        tone=Tone.NOTE,
        text=f"{head}; trial {best[-1].number} is the best so far with "
        f"{format_number(value or 0.0, digits)}",
        basis="A tuning score overestimates, and is no result.",
    )


def _of_choosing(report: ReportContext) -> Answer:
    """The best of a phase that serves to choose, which is no result."""
    phase, sweeps = report.evidence.phase, report.evidence.sweeps
    best = _chosen(sweeps[0]) if len(sweeps) == 1 else _best_of_phase(report)
    return Answer(
        tone=Tone.WARNING,
        text=f"{phase} runs decide nothing{best and f': {best}'}",
        basis=f"{PHASE_CAVEATS[phase].capitalize()}, so they overestimate. Only test runs are "
        "results.",
    )


def _chosen(sweep: SweepEvidence) -> str:
    """The configuration that a sweep has chosen, or its best trial so far; empty without one."""
    if sweep.selection is not None:
        winner = sweep.selection.winner
        return f"{configuration_name(winner, winner)} was chosen, and its test runs are the result"
    best = incumbents(sweep)
    return f"trial {best[-1].number} is the best so far" if best else ""


def _best_of_phase(report: ReportContext) -> str:
    """The label with the best score; empty where it has none."""
    best, (name, _) = aggregates(report)[0], leading_metric(report)
    if name not in best.intervals:
        return ""
    interval, phase = best.intervals[name], report.evidence.phase
    shown = format_number(interval.estimate, interval.digits)
    seeds = seeds_text(report.evidence, (best.label,), best.tasks)
    several = len(report.evidence.labels) > 1
    verb = f"has the best {phase} score," if several else f"has a {phase} score of"
    return f"{best.label} {verb} {shown} {seeds}"


def _single(report: ReportContext) -> Answer:
    """The leading metric of the only label."""
    estimates = aggregates(report)[0]
    name, _ = leading_metric(report)
    if name not in estimates.intervals:
        return Answer(tone=Tone.PROBLEM, text=f"no result: {estimates.reasons[name]}")
    interval = estimates.intervals[name]
    shown = format_number(interval.estimate, interval.digits)
    where = join_first_names(estimates.tasks, 3)
    seeds = seeds_text(report.evidence, (estimates.label,), estimates.tasks)
    level = format_percentage(interval.level)
    if not possible(interval):
        return Answer(
            tone=Tone.NOTE,
            text=f"{estimates.label} scores {shown} on {where} {seeds}",
            basis=f"{scored_by(report)}. No interval: {interval.reason}.",
        )
    return Answer(
        tone=Tone.GOOD,
        text=f"{estimates.label} scores {shown} {ends(interval, 2)} on {where} {seeds}",
        basis=f"{scored_by(report)} with its {level} interval.",
    )


def scored_by(report: ReportContext) -> str:
    """The leading metric and what it aggregates, as the beginning of a sentence."""
    _, metric = leading_metric(report)
    title = full_title(metric, len(report.evidence.tasks))
    return f"{title[0].upper()}{title[1:]} of the {unit(report.evidence)}"


def _of_pair(pair: LabelPair, report: ReportContext) -> Answer:
    names = f"{pair.first} and {pair.second}"
    identical = identical_labels(report).get((pair.first, pair.second))
    if identical is not None and not is_told_apart(pair):
        return Answer(
            tone=Tone.WARNING, text=f"{names} have identical runs", basis=identical.sentence
        )
    if pair.decision is None:
        if report.evidence.is_under_way:
            text = f"{names} cannot be compared yet"
            return Answer(tone=Tone.NOTE, text=text, basis=f"{pair.reason}.")
        return Answer(
            tone=Tone.PROBLEM, text=f"{names} cannot be compared", basis=f"{pair.reason}."
        )
    seeds = seeds_text(report.evidence, (pair.first, pair.second), pair.tasks)
    decision, basis = pair.decision, _basis(pair, pair.decision, report)
    match decision.verdict:
        case Verdict.BETTER:
            text = f"{pair.first} is better than {pair.second} by {_gap(decision, 1)} {seeds}"
        case Verdict.WORSE:
            text = f"{pair.second} is better than {pair.first} by {_gap(decision, -1)} {seeds}"
        case Verdict.EQUIVALENT:
            margin = report.settings.margin
            text = f"{names} are equivalent within ±{margin:g} {seeds}"
        case _:
            text = f"{names}: {_undecided(decision, seeds)}{_could_be_seen(decision)}"
            return Answer(tone=Tone.NOTE, text=text, basis=basis)
    # A verdict on incomplete or unusual data is no full success.
    caveat = pair.left_out or pair.warning or _absent(pair, report.evidence)
    return Answer(tone=Tone.WARNING if caveat else Tone.GOOD, text=text, basis=basis)


def _absent(pair: LabelPair, evidence: Evidence) -> bool:
    cells = [evidence.cells[n, task] for n in (pair.first, pair.second) for task in pair.tasks]
    return any(member.score is None for cell in cells for member in cell.members)


def _gap(decision: Decision, sign: int) -> str:
    """The difference with its interval, positive for the better label."""
    difference = decision.member.comparison.difference
    low, high = (difference.low, difference.high)[::sign]
    digits = decimals_of_width(difference)
    shown = format_number(sign * difference.estimate, digits)
    if low is None or high is None:
        return shown
    return f"{shown} [{format_number(sign * low, digits)}, {format_number(sign * high, digits)}]"


def _undecided(decision: Decision, seeds: str) -> str:
    """That the pair is undecided, or that so few seeds cannot decide it, whatever their scores."""
    if decision.member.out_of_reach and not decision.member.comparison.permutation.repetitions:
        return f"undecided, and {seeds.removeprefix('with ')} cannot decide"
    return f"undecided {seeds}"


def _fewest(decision: Decision) -> int:
    return min(size for side in decision.member.comparison.sizes for size in side)


def _could_be_seen(decision: Decision) -> str:
    """The difference that the comparison could find with its seeds; empty if it is not known."""
    detectable = decision.detectable
    if detectable is None or not detectable.seeds:
        return ""
    number, size = next(
        ((n, d) for n, d in zip(detectable.seeds, detectable.differences, strict=True) if d),
        (0, None),
    )
    if size is None:
        return "; with so few seeds no difference could be found"
    size_text = format_roughly(size)
    if number > _fewest(decision):
        return f"; {number} seeds could find a difference of {size_text}"
    return f"; a difference of {size_text} could be found"


def _basis(pair: LabelPair, decision: Decision, report: ReportContext) -> str:
    """The metric, the observed difference of an undecided pair, the test and its p-value."""
    _, metric = leading_metric(report)
    member = decision.member
    parts = []
    if decision.verdict is Verdict.UNDECIDED:
        parts.append(_observed(pair, decision))
    if member.adjusted_p is not None:
        parts.append(format_p_value(member.adjusted_p))
    parts.append(member.comparison.deciding.method)
    what = f"Difference of the {full_title(metric)} of the {verdict_unit(report)}"
    return f"{what}: {', '.join(parts)}.{_with_more_seeds(decision)}"


def _with_more_seeds(decision: Decision) -> str:
    """What twice as many seeds could find, as a sentence; empty where it is not known."""
    detectable = decision.detectable
    if detectable is None or not detectable.seeds or detectable.differences[-1] is None:
        return ""
    size = format_roughly(detectable.differences[-1])
    return (
        f" With {detectable.seeds[-1]} seeds each, a difference of {size} would be found with "
        f"{format_percentage(decision.power)} power."
    )


def _observed(pair: LabelPair, decision: Decision) -> str:
    estimate = decision.member.comparison.difference.estimate
    if estimate == 0:
        return "no observed difference"
    better, sign = (pair.first, 1) if estimate > 0 else (pair.second, -1)
    return f"observed {_gap(decision, sign)} in favour of {better}"


def _of_pairs(compared: Sequence[LabelPair], report: ReportContext) -> Answer:
    """The answer about three labels or more."""
    labels = report.evidence.labels
    beats = [_order(pair) for pair in compared]
    orders = [order for order in beats if order is not None]
    decided = sum(is_decided(pair) for pair in compared)
    count = f"{decided} of {format_count(len(compared), 'pair')} decided"
    seeds = seeds_text(report.evidence, labels, report.evidence.tasks)
    _, metric = leading_metric(report)
    basis = f"Differences of the {full_title(metric)} of the {verdict_unit(report)}, {count}{_error_rate(report)}."
    if len(labels) > FEW_LABELS:
        return replace(_of_best(compared, labels, seeds), basis=basis)
    if not decided:
        text = f"{join_names(labels)}: undecided {seeds}"
        return Answer(tone=Tone.NOTE, text=text, basis=basis)
    for label in labels:
        beaten = [worse for better, worse in orders if better == label]
        if len(beaten) == len(labels) - 1:
            text = f"{label} is better than {join_names(beaten)} {seeds}"
            return Answer(tone=Tone.GOOD, text=text, basis=basis)
    worse_than_some = {worse for _, worse in orders}
    leaders = [label for label in labels if label not in worse_than_some]
    if not worse_than_some:
        text = f"{join_names(labels)}: no label is better than another {seeds}"
    elif len(orders) == 1:
        ((better, worse),) = orders
        text = f"{better} is better than {worse} {seeds}; no other label is better than another"
    elif len(leaders) == 1:
        text = f"{leaders[0]} leads {seeds}, but is not better than every other label"
    else:
        text = f"{join_names(leaders)} lead {seeds}: no label is better than they are"
    return Answer(tone=Tone.NOTE, text=text, basis=basis)


def _of_best(compared: Sequence[LabelPair], labels: Sequence[str], seeds: str) -> Answer:
    """The answer about many labels: the one with the best score, and which it is better than."""
    best, *others = _best_first(compared, labels)
    if not any(is_decided(pair) for pair in compared):
        return Answer(
            tone=Tone.NOTE, text=f"{_none_decided(compared, labels, seeds)}; {best} scores best"
        )
    groups = _by_verdict(best, others, compared)
    if groups[Verdict.BETTER] == others:
        return Answer(
            tone=Tone.GOOD, text=f"{best} is better than all {len(others)} other labels {seeds}"
        )
    beaten = groups.pop(Verdict.BETTER)
    lead = f"is better than {join_first_names(beaten, MOST_NAMED)}" if beaten else "scores best"
    clauses = [
        f"{AGAINST[verdict]} {join_first_names(names, MOST_NAMED)}"
        for verdict, names in groups.items()
        if names
    ]
    return Answer(tone=Tone.NOTE, text="; ".join([f"{best} {lead} {seeds}", *clauses]))


def _none_decided(compared: Sequence[LabelPair], labels: Sequence[str], seeds: str) -> str:
    """That no pair of many labels is decided, or that so few seeds cannot decide any."""
    if all(pair.decision and pair.decision.member.out_of_reach for pair in compared):
        return f"{seeds.removeprefix('with ')} cannot decide between {len(labels)} labels"
    return f"no pair of {len(labels)} labels is decided {seeds}"


def _best_first(compared: Sequence[LabelPair], labels: Sequence[str]) -> list[str]:
    """The labels by how many others they score higher than, as their pairs observe it."""
    higher = Counter(
        pair.first if pair.decision.member.comparison.difference.estimate > 0 else pair.second
        for pair in compared
        if pair.decision is not None and pair.decision.member.comparison.difference.estimate
    )
    return sorted(labels, key=lambda label: -higher[label])


def _by_verdict(
    best: str, others: Sequence[str], compared: Sequence[LabelPair]
) -> dict[Verdict | None, list[str]]:
    """The other labels by the verdict on the best one; None where there is no comparison."""
    groups: dict[Verdict | None, list[str]] = {v: [] for v in (Verdict.BETTER, *AGAINST)}
    by_names = {frozenset((pair.first, pair.second)): pair for pair in compared}
    for other in others:
        pair = by_names[frozenset((best, other))]
        verdict = pair.decision.verdict if pair.decision else None
        if (order := _order(pair)) is not None:
            verdict = Verdict.BETTER if order[0] == best else Verdict.WORSE
        groups[verdict].append(other)
    return groups


def _error_rate(report: ReportContext) -> str:
    return f", with a family-wise error of at most {format_percentage(report.settings.alpha)}"


def _order(pair: LabelPair) -> tuple[str, str] | None:
    """The better and the worse label of a pair; None where neither is better."""
    match pair.decision and pair.decision.verdict:
        case Verdict.BETTER:
            return pair.first, pair.second
        case Verdict.WORSE:
            return pair.second, pair.first
        case _:
            return None


def is_decided(pair: LabelPair) -> bool:
    """Whether the verdict on a pair is anything but undecided."""
    return pair.decision is not None and pair.decision.verdict is not Verdict.UNDECIDED


def seeds_text(evidence: Evidence, labels: Sequence[str], tasks: Sequence[str]) -> str:
    """The number of scored seeds of labels on tasks (`with 5 seeds on each of 2 tasks`)."""
    cells = [evidence.cell(label, task) for label in labels for task in tasks]
    counts = [cell.n for cell in cells if cell is not None]
    few, many = min(counts), max(counts)
    seeds = format_count(many, "seed") if few == many else f"{few} to {many} seeds"
    return f"with {seeds}" + (f" on each of {len(tasks)} tasks" if len(tasks) > 1 else "")
