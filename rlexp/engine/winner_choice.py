"""Which trials of a sweep are promoted and become finalists, and which one wins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from rlexp.engine.relative_values import ranked_merits
from rlexp.engine.search import SearchProblem, promotions
from rlexp.engine.trial_state import TrialProgress, steps_of
from rlexp.records.run import RunRecord
from rlexp.records.selection import FIXED, SCHEDULE, Finalist, Rival, Selection
from rlexp.records.trial import TrialState
from rlexp.stats.pareto import by_front
from rlexp.text import format_count


@dataclass(frozen=True, slots=True)
class WinnerCandidate:
    """A trial that can win: it has a run on every tuning seed at the full budget."""

    number: int
    scores: tuple[float, ...]
    merits: tuple[float, ...]
    values: tuple[float, ...]
    changing: bool = False

    @property
    def rank(self) -> tuple[float, float, int]:
        """Sort key, best first: first objective, then smaller variance, then lower number."""
        return (-self.merits[0], _spread(self.scores), self.number)


def promoted(entries: Sequence[TrialProgress], question: SearchProblem) -> list[int]:
    """The numbers of the screened trials that are promoted to all tuning seeds, best first.

    If a promoted trial fails, the next best trial is promoted as well. All trials are promoted
    where every trial is run on all seeds from the start.
    """
    complete = [
        (e.trial.values, e.proposal.number)
        for e in entries
        if e.trial is not None
        and e.trial.state is TrialState.COMPLETE
        and e.proposal.steps == question.steps
        and e.twin is None
    ]
    if question.screening == question.runs:
        return [number for _, number in complete]
    left = promotions(question, sum(map(steps_of, entries)))
    ranked = [n for _, n in sorted(complete, key=lambda item: (-item[0][0], item[1]))]
    if question.has_front:
        ranked = [complete[position][1] for position in by_front([v for v, _ in complete])]
    numbers = _first_whole(ranked, left, entries, question)
    # In a population, the best schedule and the best fixed configuration are compared on all seeds.
    for changing in (True, False):
        kind = [n for n in ranked if entries[n].proposal.changing is changing]
        if len(kind) < len(ranked):
            numbers += [n for n in _first_whole(kind, 1, entries, question) if n not in numbers]
    return numbers


def _first_whole(
    ranked: Sequence[int], count: int, entries: Sequence[TrialProgress], question: SearchProblem
) -> list[int]:
    """The first trials of an order, so many that `count` of them have not failed on further seeds."""
    numbers = []
    for number in ranked:
        if count == 0:
            break
        numbers.append(number)
        count -= not _failed_after_promotion(entries[number], question)
    return numbers


def candidates(
    entries: Sequence[TrialProgress], question: SearchProblem, cache: dict[int, WinnerCandidate]
) -> list[WinnerCandidate]:
    """The trials that can win, best first.

    Args:
        entries: The trials.
        question: The settings of the search.
        cache: Candidates of earlier calls, by number; new candidates are added.
    """
    for entry in entries:
        if entry.proposal.number in cache or not _is_whole(entry, question):
            continue
        if (candidate := _candidate(entry, question)) is not None:
            cache[candidate.number] = candidate
    compared = list(cache.values())
    if question.ranks:
        # A new candidate changes the ranks of all others.
        compared = _ranked_candidates([entries[c.number] for c in compared], question)
    return sorted(compared, key=lambda c: c.rank)


def _ranked_candidates(
    entries: Sequence[TrialProgress], question: SearchProblem
) -> list[WinnerCandidate]:
    """Candidates with their ranks among each other as scores and values."""
    whole = range(question.runs)
    runs = {e.proposal.number: [e.records[p] for p in whole] for e in entries}
    objectives = question.objectives
    scores = {n: objectives.by_seed(m) for n, m in ranked_merits(runs, objectives).items()}
    values = {number: (objectives.combine(each),) for number, each in scores.items()}
    return [WinnerCandidate(n, each, values[n], values[n]) for n, each in scores.items()]


def finalists(ranked: Sequence[WinnerCandidate], question: SearchProblem) -> list[WinnerCandidate]:
    """The candidates that run on selection seeds: the best ones.

    In a population, the best schedule and the best fixed configuration are among them. In an older sweep of
    several objectives, which has no rule of choice, they are candidates that no other candidate dominates.
    `front_finalists` gives the finalists of newer sweeps of several objectives.
    """
    if len(question.objectives.names) == 1:
        best = list(ranked[: question.plan.finalists])
        firsts = (next((c for c in ranked if c.changing is kind), None) for kind in (True, False))
        return best + [c for c in firsts if c is not None and c not in best and _has_kinds(ranked)]
    front = [c for c in ranked if not any(_dominates(o.merits, c.merits) for o in ranked)]
    return front[: question.plan.finalists]


def _has_kinds(ranked: Sequence[WinnerCandidate]) -> bool:
    """Whether there are schedules and fixed configurations among candidates."""
    return len({c.changing for c in ranked}) > 1


def _rival(
    ranked: Sequence[WinnerCandidate], winner: int, merits: Mapping[int, float]
) -> Rival | None:
    """The best finalist of the other kind: a fixed configuration beside a schedule, or the reverse."""
    kinds = {c.number: c.changing for c in ranked}
    others = [c for c in ranked if c.changing is not kinds[winner]]
    scored = [c for c in others if c.number in merits]
    if not others:
        return None
    best = max(scored, key=lambda c: merits[c.number]) if scored else others[0]
    return Rival(number=best.number, label=SCHEDULE if best.changing else FIXED)


def choose(
    ranked: Sequence[WinnerCandidate],
    selection: Mapping[int, Sequence[RunRecord]],
    seeds: int,
    question: SearchProblem,
) -> Selection:
    """Choose the winner among the finalists.

    Args:
        ranked: The finalists, best first by tuning seeds; one or more.
        selection: Runs of each finalist on selection seeds, by number.
        seeds: Number of selection seeds.
        question: The settings of the search.
    """
    again = {c.number: selection.get(c.number, ()) for c in ranked}
    scored = tuple(
        Finalist(number=c.number, tuning=c.scores, selection=scores)
        for c, scores in zip(ranked, _selection_scores(again, question), strict=True)
    )
    objective, where = _objective_in_words(question)
    aggregate = question.plan.aggregate
    merits = _selection_merits(again, seeds, question)
    if not merits:
        why = (
            f"no finalist has a {objective} on all {where}{format_count(seeds, 'selection seed')}"
            if seeds
            else "there are no selection seeds to select by"
        )
        tuning = format_count(question.seeds, "tuning seed")
        rule = f"best {aggregate} {objective} on {where}{tuning} ({why})"
        winner = ranked[0].number
        rival = _rival(ranked, winner, merits)
        return Selection(winner=winner, finalists=scored, rule=rule, rival=rival)
    # `max` returns the first of equal finalists: the one that is better on tuning seeds.
    winner = max(merits, key=lambda number: merits[number])
    rule = (
        f"best {aggregate} {objective} on {where}{format_count(seeds, 'selection seed')} among "
        f"{format_count(len(merits), 'finalist')}, the best on {format_count(question.seeds, 'tuning seed')}"
    )
    rival = _rival(ranked, winner, merits)
    return Selection(winner=winner, finalists=scored, rule=rule, rival=rival)


def _objective_in_words(question: SearchProblem) -> tuple[str, str]:
    """The first objective, and the tasks on which it is measured, for the rule of a choice."""
    if not question.objectives.tasks:
        return question.objectives.names[0], ""
    kind = "rank" if question.ranks else "normalised score"
    return kind, f"{question.tasks} tasks × "


def _selection_scores(
    runs: Mapping[int, Sequence[RunRecord]], question: SearchProblem
) -> list[tuple[float, ...]]:
    """The score of each finalist on each selection seed; seeds without a score are left out."""
    objectives = question.objectives
    if not question.ranks:
        return [objectives.seed_scores(records) for records in runs.values()]
    merits = ranked_merits(runs, objectives) if all(runs.values()) else {}
    return [objectives.by_seed(merits.get(number, ())) for number in runs]


def _selection_merits(
    runs: Mapping[int, Sequence[RunRecord]], seeds: int, question: SearchProblem
) -> dict[int, float]:
    """The first objective of each finalist with a score on all selection seeds, by number."""
    whole = {n: r for n, r in runs.items() if is_scored(r, seeds, question)}
    if question.ranks:
        # Only whole finalists are compared: a missing run is no rank.
        objectives = question.objectives
        merits = ranked_merits(whole, objectives)
        return {n: objectives.combine(objectives.by_seed(m)) for n, m in merits.items()}
    by_number = {number: _merit(records, question) for number, records in whole.items()}
    return {number: merit for number, merit in by_number.items() if merit is not None}


def is_scored(records: Sequence[RunRecord], seeds: int, question: SearchProblem) -> bool:
    """Whether a finalist has a score on each selection seed and task."""
    scored = sum(record.score is not None for record in records)
    return seeds > 0 and scored >= seeds * question.tasks


def _failed_after_promotion(entry: TrialProgress, question: SearchProblem) -> bool:
    """Whether a run of the trial failed on a tuning seed after the screening."""
    further = range(question.screening, question.runs)
    records = [entry.records[p] for p in further if p in entry.records]
    return any(record.score is None for record in records)


def _is_whole(entry: TrialProgress, question: SearchProblem) -> bool:
    """Whether a trial is complete and has a run on every seed and task at the full budget.

    A twin is left out: its configuration is a candidate already.
    """
    complete = entry.trial is not None and entry.trial.state is TrialState.COMPLETE
    at_full_budget = entry.proposal.steps == question.steps and entry.twin is None
    return complete and at_full_budget and all(p in entry.records for p in range(question.runs))


def _candidate(entry: TrialProgress, question: SearchProblem) -> WinnerCandidate | None:
    records = [entry.records[p] for p in range(question.runs)]
    scores = question.objectives.seed_scores(records)
    values = question.objectives.values(records)
    if values is None or len(scores) < question.seeds:
        return None
    merits = question.objectives.oriented(values)
    proposal = entry.proposal
    return WinnerCandidate(proposal.number, scores, merits, values, proposal.changing)


def _merit(records: Sequence[RunRecord], question: SearchProblem) -> float | None:
    """The first objective on all selection seeds, greater is better; None if a seed lacks it."""
    values = question.objectives.values(records)
    return question.objectives.oriented(values)[0] if values else None


def _spread(scores: Sequence[float]) -> float:
    mean = fsum(scores) / len(scores)
    return fsum((s - mean) ** 2 for s in scores)


def _dominates(first: Sequence[float], second: Sequence[float]) -> bool:
    pairs = list(zip(first, second, strict=True))
    return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)
