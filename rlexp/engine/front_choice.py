"""The front of a sweep of several objectives: its finalists, its reference point, and the choice on it."""

from collections.abc import Mapping, Sequence

from rlexp.engine.search import SearchProblem
from rlexp.engine.trial_state import TrialProgress
from rlexp.engine.winner_choice import WinnerCandidate, is_scored
from rlexp.protocol.front_rule import FrontRule, read_rule
from rlexp.records.run import RunRecord
from rlexp.records.selection import Finalist, Front, FrontMember, Selection
from rlexp.records.trial import TrialState
from rlexp.stats.pareto import default_reference, front_of, hypervolume, spread_out
from rlexp.text import format_count

DECLARED = "declared as sweep.reference_point"
DERIVED = (
    "the worst value of each objective among {}, on the tuning seeds that all of them have, minus a tenth "
    "of the range"
)


def front_finalists(
    ranked: Sequence[WinnerCandidate], question: SearchProblem
) -> list[WinnerCandidate]:
    """The candidates that no other candidate dominates on tuning seeds.

    If there are more than `plan.finalists`, the candidates that together dominate the largest volume are kept.

    Args:
        ranked: The candidates, best first by the first objective.
        question: The settings of the search.
    """
    front = [ranked[position] for position in front_of([c.merits for c in ranked])]
    if len(front) <= question.plan.finalists:
        return front
    declared = question.reference
    reference = default_reference([c.merits for c in ranked]) if declared is None else declared
    kept = spread_out([c.merits for c in front], reference, question.plan.finalists)
    return [front[position] for position in kept]


def reference_point(
    entries: Sequence[TrialProgress], question: SearchProblem, chosen: Front | None
) -> tuple[tuple[float, ...], str] | None:
    """The point from which hypervolumes are measured, greater is better, and where it comes from.

    It is the one that the choice wrote down. Before the choice it is the declared one, or one below all
    complete trials at the full budget, by their values on the seeds on which every trial runs. None before
    the first such trial.

    Args:
        entries: The trials.
        question: The settings of the search.
        chosen: The front that the choice wrote down; None before.
    """
    if chosen is not None:
        return question.objectives.oriented(chosen.reference), chosen.reference_rule
    if question.reference is not None:
        return question.reference, DECLARED
    values = [merits for merits in searched_merits(entries, question) if merits is not None]
    if not values:
        return None
    return default_reference(values), DERIVED.format(format_count(len(values), "complete trial"))


def searched_merits(
    entries: Sequence[TrialProgress], question: SearchProblem
) -> list[tuple[float, ...] | None]:
    """The objectives of each trial on the seeds on which every trial runs, greater is better.

    None for trials without a value at the full budget, and for repetitions of an earlier configuration.
    """
    return [
        e.trial.values
        if e.trial is not None
        and e.trial.state is TrialState.COMPLETE
        and e.proposal.steps == question.steps
        and e.twin is None
        else None
        for e in entries
    ]


def hypervolumes(
    entries: Sequence[TrialProgress], question: SearchProblem, reference: Sequence[float]
) -> tuple[float | None, ...]:
    """The hypervolume of the trials up to each one; None before the first complete trial.

    Args:
        entries: The trials.
        question: The settings of the search.
        reference: The reference point, greater is better.
    """
    volumes: list[float | None] = []
    front: list[tuple[float, ...]] = []
    volume: float | None = None
    for merits in searched_merits(entries, question):
        if merits is not None:
            grown = [*front, merits]
            positions = front_of(grown)
            # A trial that is not on the front changes no volume, and most trials are not.
            if len(front) in positions:
                front = [grown[position] for position in positions]
                volume = hypervolume(front, reference)
        volumes.append(volume)
    return tuple(volumes)


def choose_on_front(
    ranked: Sequence[WinnerCandidate],
    selection: Mapping[int, Sequence[RunRecord]],
    seeds: int,
    entries: Sequence[TrialProgress],
    question: SearchProblem,
) -> Selection:
    """Choose the winner on the front of the finalists, by the declared rule.

    Args:
        ranked: The finalists; one or more.
        selection: Runs of each finalist on selection seeds, by number.
        seeds: Number of selection seeds.
        entries: All trials, from which the reference point is derived.
        question: The settings of the search.
    """
    again = _selection_values(ranked, selection, seeds, question)
    compared = [c for c in ranked if c.number in again] or list(ranked)
    objectives = question.objectives
    merits = [objectives.oriented(again.get(c.number, c.values)) for c in compared]
    positions = front_of(merits)
    on_front = [merits[position] for position in positions]
    rule = _rule(question)
    members = [compared[position] for position in positions]
    winner = members[rule.best(on_front)]
    reference = reference_point(entries, question, None)
    assert reference is not None  # a finalist is a complete trial
    return Selection(
        winner=winner.number,
        finalists=tuple(
            Finalist(
                number=c.number,
                tuning=c.scores,
                selection=objectives.seed_scores(selection.get(c.number, ())),
            )
            for c in ranked
        ),
        rule=f"{rule.text(on_front)} ({question.plan.aggregate}s on "
        f"{_where(len(compared), seeds if again else 0, question, some=seeds > 0)})",
        front=Front(
            objectives=objectives.names,
            minimised=tuple(name for name in objectives.names if name in objectives.minimised),
            # The signs of a value and of its merit are the same in both directions.
            reference=objectives.oriented(reference[0]),
            reference_rule=reference[1],
            members=tuple(
                FrontMember(number=c.number, tuning=c.values, selection=again.get(c.number, ()))
                for c in sorted(members, key=lambda c: c.number)
            ),
        ),
    )


def _rule(question: SearchProblem) -> FrontRule:
    objectives = question.objectives
    return read_rule(question.plan.choose, objectives.names, objectives.minimised)


def _selection_values(
    ranked: Sequence[WinnerCandidate],
    selection: Mapping[int, Sequence[RunRecord]],
    seeds: int,
    question: SearchProblem,
) -> dict[int, tuple[float, ...]]:
    """The objectives of each finalist that has all of them on all selection seeds, by number."""
    whole = {
        c.number: selection[c.number]
        for c in ranked
        if is_scored(selection.get(c.number, ()), seeds, question)
    }
    values = {number: question.objectives.values(records) for number, records in whole.items()}
    return {number: each for number, each in values.items() if each is not None}


def _where(compared: int, seeds: int, question: SearchProblem, *, some: bool) -> str:
    """The seeds that decided, and the finalists that they were compared on."""
    if seeds:
        return (
            f"{format_count(seeds, 'selection seed')}, on the front of "
            f"{format_count(compared, 'finalist')}"
        )
    why = (
        "no finalist has every objective on all selection seeds"
        if some
        else "there are no selection seeds to select by"
    )
    return f"{format_count(question.seeds, 'tuning seed')}: {why}"
