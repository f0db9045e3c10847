"""Who goes on: from all trials to those on every tuning seed, to finalists, to the winner."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from rlexp.engine.limits import promotions
from rlexp.engine.progress import Progress, steps_of
from rlexp.engine.question import Question
from rlexp.records.run import RunRecord
from rlexp.records.selection import Finalist, Selection
from rlexp.records.trial import TrialState


@dataclass(frozen=True, slots=True)
class Candidate:
    """A trial that was run on every tuning seed at the full budget: only such a one can win."""

    number: int
    scores: tuple[float, ...]
    merits: tuple[float, ...]
    values: tuple[float, ...]

    @property
    def rank(self) -> tuple[float, float, int]:
        """Sorts the better first: by the leading objective, then the steadier, then the earlier."""
        return (-self.merits[0], _spread(self.scores), self.number)


def promoted(entries: Sequence[Progress], question: Question) -> list[int]:
    """The screened trials that go on to all tuning seeds, best first; the others stay behind.

    For one that fails there, the next one goes on, too. Everything is promoted where trials are
    run on all seeds from the start.
    """
    complete = [
        (e.trial.values, e.proposal.number)
        for e in entries
        if e.trial is not None
        and e.trial.state is TrialState.COMPLETE
        and e.proposal.steps == question.steps
        and e.twin is None
    ]
    if question.screening == question.seeds:
        return [number for _, number in complete]
    left = promotions(question, sum(map(steps_of, entries)))
    numbers = []
    for _, number in sorted(complete, key=lambda pair: (-pair[0][0], pair[1])):
        if left == 0:
            break
        numbers.append(number)
        left -= not _fell(entries[number], question)
    return numbers


def candidates(
    entries: Sequence[Progress], question: Question, known: dict[int, Candidate]
) -> list[Candidate]:
    """The trials that can win, best first.

    Args:
        entries: The trials.
        question: What the search is about.
        known: Candidates found before, by number; those found now are added.
    """
    for entry in entries:
        if entry.proposal.number in known or not _is_whole(entry, question):
            continue
        if (candidate := _candidate(entry, question)) is not None:
            known[candidate.number] = candidate
    return sorted(known.values(), key=lambda c: c.rank)


def finalists(ranked: Sequence[Candidate], question: Question) -> list[Candidate]:
    """The candidates that are scored again: the best, or the best that no other dominates."""
    if len(question.objectives.names) == 1:
        return list(ranked[: question.plan.finalists])
    front = [c for c in ranked if not any(_dominates(o.merits, c.merits) for o in ranked)]
    return front[: question.plan.finalists]


def choose(
    chosen: Sequence[Candidate],
    selection: Mapping[int, Sequence[RunRecord]],
    seeds: int,
    question: Question,
) -> Selection:
    """The winner among finalists.

    Args:
        chosen: The finalists, best first by tuning seeds; one or more.
        selection: Runs of each on selection seeds, by number.
        seeds: How many selection seeds there are.
        question: What the search was about.
    """
    told = [
        Finalist(
            number=c.number,
            tuning=c.scores,
            selection=tuple(r.score for r in selection.get(c.number, ()) if r.score is not None),
        )
        for c in chosen
    ]
    objective = question.objectives.names[0]
    aggregate = question.plan.aggregate
    found = [(c.number, _merit(selection.get(c.number, ()), seeds, question)) for c in chosen]
    merits = {number: merit for number, merit in found if merit is not None}
    if not merits:
        why = (
            f"no finalist has a {objective} on all {seeds} selection seeds"
            if seeds
            else "there are no selection seeds to select by"
        )
        rule = f"best {aggregate} {objective} on {question.seeds} tuning seeds ({why})"
        return Selection(winner=chosen[0].number, finalists=tuple(told), rule=rule)
    # Of equal finalists, the first: the better on tuning seeds.
    winner = max(merits, key=lambda number: merits[number])
    rule = (
        f"best {aggregate} {objective} on {seeds} selection seeds among {len(merits)} finalists, "
        f"which were the best on {question.seeds} tuning seeds"
    )
    return Selection(winner=winner, finalists=tuple(told), rule=rule)


def _fell(entry: Progress, question: Question) -> bool:
    """Whether a run of the trial failed on a further tuning seed."""
    further = range(question.screening, question.seeds)
    found = [entry.records[p] for p in further if p in entry.records]
    return any(record.score is None for record in found)


def _is_whole(entry: Progress, question: Question) -> bool:
    """Whether a trial was judged well and has a run on every tuning seed at the full budget.

    A twin is left out: its configuration takes part already.
    """
    complete = entry.trial is not None and entry.trial.state is TrialState.COMPLETE
    at_full_budget = entry.proposal.steps == question.steps and entry.twin is None
    return complete and at_full_budget and all(p in entry.records for p in range(question.seeds))


def _candidate(entry: Progress, question: Question) -> Candidate | None:
    records = [entry.records[p] for p in range(question.seeds)]
    scores = tuple(r.score for r in records if r.score is not None)
    values = question.objectives.values(records)
    if values is None or len(scores) < question.seeds:
        return None
    return Candidate(entry.proposal.number, scores, question.objectives.oriented(values), values)


def _merit(records: Sequence[RunRecord], seeds: int, question: Question) -> float | None:
    """The leading objective on all selection seeds, greater is better; nothing where one lacks."""
    if not seeds or sum(record.score is not None for record in records) < seeds:
        return None
    values = question.objectives.values(records)
    return question.objectives.oriented(values)[0] if values else None


def _spread(scores: Sequence[float]) -> float:
    middle = fsum(scores) / len(scores)
    return fsum((s - middle) ** 2 for s in scores)


def _dominates(first: Sequence[float], second: Sequence[float]) -> bool:
    pairs = list(zip(first, second, strict=True))
    return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)
