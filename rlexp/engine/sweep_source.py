"""A sweep as a source of runs: search, promotion, selection of the winner, and test.

The first functions rank the trials and choose the winner; `SweepSource` supplies the runs of each
stage and takes their results.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import fsum
from typing import Any, Protocol

from rlexp.engine.failure_streak import systematic_failure
from rlexp.engine.relative_values import ranked_merits
from rlexp.engine.search import Search, SearchProblem, promotions
from rlexp.engine.trial_state import Proposal, TrialProgress, steps_of
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.seeds import Phase, SeedPlan
from rlexp.protocol.spec import Parent, RunSpec
from rlexp.protocol.value_schedule import changes
from rlexp.records.events import Ending, Evaluated, StopRequest
from rlexp.records.run import RunRecord
from rlexp.records.selection import FIXED, SCHEDULE, Finalist, Rival, Selection
from rlexp.records.trial import TrialState
from rlexp.text import format_count
from rlexp.tuners import Suggestion


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

    With several objectives, only candidates that no other candidate dominates. In a population, the
    best schedule and the best fixed configuration are among them.
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
            f"no finalist has a {objective} on all {where}{seeds} selection seeds"
            if seeds
            else "there are no selection seeds to select by"
        )
        rule = f"best {aggregate} {objective} on {where}{question.seeds} tuning seeds ({why})"
        winner = ranked[0].number
        rival = _rival(ranked, winner, merits)
        return Selection(winner=winner, finalists=scored, rule=rule, rival=rival)
    # `max` returns the first of equal finalists: the one that is better on tuning seeds.
    winner = max(merits, key=lambda number: merits[number])
    rule = (
        f"best {aggregate} {objective} on {where}{seeds} selection seeds among "
        f"{format_count(len(merits), 'finalist')}, the best on {question.seeds} tuning seeds"
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
    whole = {n: r for n, r in runs.items() if _is_scored(r, seeds, question)}
    if question.ranks:
        # Only whole finalists are compared: a missing run is no rank.
        objectives = question.objectives
        merits = ranked_merits(whole, objectives)
        return {n: objectives.combine(objectives.by_seed(m)) for n, m in merits.items()}
    by_number = {number: _merit(records, question) for number, records in whole.items()}
    return {number: merit for number, merit in by_number.items() if merit is not None}


def _is_scored(records: Sequence[RunRecord], seeds: int, question: SearchProblem) -> bool:
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


def _fingerprints(configurations: Sequence[Configuration]) -> tuple[str, ...]:
    return tuple(configuration.fingerprint for configuration in configurations)


def _is_changing(configurations: Sequence[Configuration], parameters: Mapping[str, Any]) -> bool:
    """Whether a searched value changes while the runs of a trial train, by a schedule."""
    return any(changes(c.parts(), parameters) for c in configurations)


class SweepStage(StrEnum):
    """The stages of a sweep."""

    SEARCH = "search"
    PROMOTION = "promotion"
    SELECTION = "selection"
    TEST = "test"
    DONE = "done"


class DecisionLog(Protocol):
    """Stores the decisions of a sweep, each before the sweep acts on it."""

    def configure(
        self, number: int, suggestion: Suggestion
    ) -> tuple[tuple[Configuration, ...], str]:
        """The configuration of a trial on each task; none and the reason where one is invalid."""
        ...

    def find_states(
        self, configuration: Configuration, runs: Sequence[RunRecord | None]
    ) -> tuple[tuple[Parent | None, ...], str | None]:
        """The states from which runs of a trial continue; and why others begin at step 0.

        Args:
            configuration: The configuration of the trial.
            runs: The run with fewer steps on each tuning seed; None on seeds without such a run.
        """
        ...

    def propose(self, proposal: Proposal, configurations: tuple[Configuration, ...]) -> None:
        """Store a proposed trial with its configuration on each task; with none if it is invalid."""
        ...

    def hand_over(self, spec: RunSpec) -> str | None:
        """Give a run the state that it continues from; returns why this is impossible, or None."""
        ...

    def choose(self, selection: Selection) -> None:
        """Store the selection."""
        ...


@dataclass(slots=True)
class SweepSource:
    """Supplies the runs of a sweep in their order, and takes their results.

    Attributes:
        search: The search with the trials so far.
        seeds: The seeds of the experiment.
        ledger: Stores the decisions.
        hours: Returns the wall-clock time of the search so far.
        configurations: The valid configurations of trials on each task, by number.
        records: Runs that have ended for good, by id.
        selection: The selection; None before the winner is chosen.
        until: The last stage to execute.
        halted: Why the sweep cannot go on; None if it can.
    """

    search: Search
    seeds: SeedPlan
    ledger: DecisionLog
    hours: Callable[[], float]
    configurations: dict[int, tuple[Configuration, ...]] = field(default_factory=dict)
    records: dict[str, RunRecord] = field(default_factory=dict)
    selection: Selection | None = None
    until: SweepStage = SweepStage.TEST
    halted: str | None = None
    _candidates: dict[int, WinnerCandidate] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _specs: dict[tuple[int, int], RunSpec] = field(default_factory=dict)
    _owners: dict[str, tuple[int, int]] = field(default_factory=dict)
    _first: dict[tuple[str, ...], int] = field(default_factory=dict)
    """The first trial with each configuration, by its fingerprints on all tasks."""

    @property
    def waiting(self) -> int:
        """The number of due runs that were not taken yet."""
        return sum(spec.id not in self._taken for spec in self._due())

    @property
    def stage(self) -> SweepStage:
        """The stage of the next run."""
        if self.selection is not None:
            return SweepStage.TEST if self._missing(self._tests()) else SweepStage.DONE
        if not self.search.is_over(self.hours()):
            return SweepStage.SEARCH
        return SweepStage.PROMOTION if self._missing(self._promotions()) else SweepStage.SELECTION

    def stage_runs(self) -> tuple[int, int]:
        """The number of ended runs, and of all runs, of the present stage."""
        match self.stage:
            case SweepStage.SEARCH:
                screening = self.search.question.screening
                specs = [spec for (_, p), spec in self._specs.items() if p < screening]
            case SweepStage.PROMOTION:
                specs = self._promotions()
            case SweepStage.SELECTION:
                specs = self._selections()
            case _:
                specs = self._tests()
        return len(specs) - len(self._missing(specs)), len(specs)

    def take(self) -> RunSpec | None:
        """The next run to start; None if there is none until another run has ended."""
        while self.halted is None:
            for spec in self._due():
                if spec.id not in self._taken:
                    return self._start(spec)
            if not self._advance():
                return None
        return None

    def _start(self, spec: RunSpec) -> RunSpec | None:
        """The run, with the state that it continues from; None if the state is gone."""
        if spec.parent is not None:
            self.halted = self.ledger.hand_over(spec)
        if self.halted is not None:
            return None
        self._taken.add(spec.id)
        return spec

    def evaluated(self, spec: RunSpec, evaluations: Sequence[Evaluated]) -> None:
        """Take in the evaluations of a run in progress; its trial may be pruned by them."""
        if (owner := self._owners.get(spec.id)) is not None:
            self.search.observe(*owner, evaluations)

    def stopping(self, spec: RunSpec) -> StopRequest | None:
        """The request to end the run of a pruned trial; None if the run should go on."""
        owner = self._owners.get(spec.id)
        stop = self.search.unneeded(*owner) if owner is not None else None
        return None if stop is None else StopRequest(Ending.PRUNED, stop.reason, stop.step or None)

    def ended(self, record: RunRecord) -> None:
        """Take in the record of a run that has ended for good."""
        self.records[record.spec.id] = record
        if (owner := self._owners.get(record.spec.id)) is not None:
            self.search.end(*owner, record)

    def runs_of(self, number: int, phase: Phase = Phase.TUNING) -> list[RunSpec]:
        """The runs of a trial in a phase, in order of the seeds, and of the tasks within a seed."""
        if phase is not Phase.TUNING:
            seeds, configurations = self.seeds.seeds(phase), self.configurations[number]
            return [c.spec(phase, self.seeds.root, seed) for seed in seeds for c in configurations]
        positions = range(self.search.question.runs)
        return [self._specs[number, p] for p in positions if (number, p) in self._specs]

    def due_runs(self) -> list[RunSpec]:
        """The runs of the present stage that have not ended, whether they were taken or not."""
        return list(self._due())

    def trial_of(self, spec: RunSpec) -> int:
        """The number of the first trial with the configuration of a run."""
        owner = self._owners.get(spec.id)
        if owner is not None:
            return owner[0]
        return next(n for each, n in self._first.items() if spec.fingerprint in each)

    def ranked(self) -> list[WinnerCandidate]:
        """The trials that can win so far, best first; the first one is the incumbent."""
        return candidates(self.search.entries, self.search.question, self._candidates)

    def resume(self, proposals: Sequence[tuple[Proposal, tuple[Configuration, ...]]]) -> None:
        """Add the trials that earlier commands proposed, in the order of their numbers."""
        for proposal, configurations in proposals:
            self._begin(proposal, configurations)

    def _begin(self, proposal: Proposal, configurations: tuple[Configuration, ...]) -> None:
        """Add a trial; trials with the same configuration share their runs."""
        number = proposal.number
        if not configurations:
            self.search.add(proposal)
            return
        self.configurations[number] = configurations
        # Equal configurations share all their runs.
        fingerprints = _fingerprints(configurations)
        elder = self._first.get(fingerprints)
        self.search.add(proposal, twin=elder)
        if elder is not None:
            shared = {p: self._specs[elder, p] for p in range(self.search.question.runs)}
            self._specs.update({(number, p): spec for p, spec in shared.items()})
            return
        self._first[fingerprints] = number
        pairs = [(s, c) for s in self.seeds.seeds(Phase.TUNING) for c in configurations]
        for position, (seed, configuration) in enumerate(pairs):
            spec = configuration.tuning_spec(self.search.question.plan, self.seeds, seed)
            if (parent := proposal.parent_of(position)) is not None:
                spec = spec.again(Phase.TUNING, self.seeds.root, seed, parent)
            self._specs[number, position] = spec
            self._owners[spec.id] = (number, position)
            if (record := self.records.get(spec.id)) is not None:
                self.search.end(number, position, record)

    def _due(self) -> Iterator[RunSpec]:
        """The runs of the present stage that have not ended."""
        if self.selection is not None:
            yield from self._missing(self._tests())
            return
        yield from (self._specs[key] for key in self.search.due_runs())
        if self.search.is_over(self.hours()):
            ahead = self._missing(self._promotions())
            yield from ahead or self._missing(self._selections())

    def _missing(self, specs: Sequence[RunSpec]) -> list[RunSpec]:
        return [spec for spec in specs if spec.id not in self.records]

    def _promotions(self) -> list[RunSpec]:
        """The runs of the promoted trials on the further tuning seeds."""
        numbers = promoted(self.search.entries, self.search.question)
        positions = range(self.search.question.screening, self.search.question.runs)
        return [self._specs[number, p] for p in positions for number in numbers]

    def _selections(self) -> list[RunSpec]:
        """The runs of the finalists on selection seeds."""
        if self.until is SweepStage.SEARCH:
            return []
        best = finalists(self.ranked(), self.search.question)
        return [spec for c in best for spec in self.runs_of(c.number, Phase.SELECTION)]

    def _tests(self) -> list[RunSpec]:
        """The runs of the winner, of its rival and of the default configuration on test seeds."""
        if self.selection is None or self.until is not SweepStage.TEST:
            return []
        # The default configuration may have won: then its runs are made once.
        numbers = dict.fromkeys(self.selection.tested)
        return [
            configuration.spec(Phase.TEST, self.seeds.root, seed)
            for seed in self.seeds.seeds(Phase.TEST)
            for number in numbers
            for configuration in self.configurations[number]
        ]

    def _advance(self) -> bool:
        """Suggest a trial or choose the winner, if possible now; returns whether that was done."""
        if self.selection is not None:
            return False
        self.halted = systematic_failure(self.search)
        if self.halted is not None:
            return False
        number = self.search.due(self.hours())
        if number is not None:
            return self._suggest(number)
        if not self.search.is_over(self.hours()) or self.until is SweepStage.SEARCH:
            return False
        if self._missing(self._promotions()) or self._missing(self._selections()):
            return False
        return self._choose()

    def _suggest(self, number: int) -> bool:
        suggestion = self.search.suggest(number)
        if suggestion is not None:
            self._propose(number, suggestion)
        return True

    def enter(self, suggestion: Suggestion) -> int:
        """Add a trial that the user proposes, after the default and the given configurations.

        Suggestions of later trials depend on it as on every other trial.

        Args:
            suggestion: The configuration, at the full budget.

        Returns:
            The number of the trial.
        """
        question = self.search.question
        first = [Suggestion(question.default), *question.given]
        for number in range(len(self.search.entries), len(first)):
            self._propose(number, first[number])
        number = len(self.search.entries)
        self._propose(number, suggestion)
        return number

    def _propose(self, number: int, suggestion: Suggestion) -> None:
        configurations, refused = self.ledger.configure(number, suggestion)
        parents, anew = self._find_states(suggestion, configurations)
        proposal = Proposal(
            number=number,
            parameters=suggestion.parameters,
            steps=suggestion.steps or self.search.question.steps,
            refused=None if configurations else refused,
            parent=suggestion.parent,
            parents=parents,
            anew=anew,
            origin=suggestion.origin,
            changing=_is_changing(configurations, suggestion.parameters),
        )
        # Stored first: after a crash, the resumed sweep has the trial that its runs belong to.
        self.ledger.propose(proposal, configurations)
        self._begin(proposal, configurations)

    def _find_states(
        self, suggestion: Suggestion, configurations: tuple[Configuration, ...]
    ) -> tuple[tuple[Parent | None, ...], str | None]:
        """The states from which the runs of a new trial continue; and why others do not."""
        question = self.search.question
        if not configurations or suggestion.parent is None or not question.plan.continuation:
            return (), None
        if _fingerprints(configurations) in self._first:
            # A twin makes no runs.
            return (), None
        entry = self.search.entries[suggestion.parent]
        # Only runs that were judged whole: whether another run of a pruned trial came to its end
        # depends on how fast it was asked to stop.
        judged = len(entry.judged_runs())
        positions = range(question.screening)
        runs = [entry.records.get(p) if p < judged else None for p in positions]
        # No sweep on several tasks continues runs.
        return self.ledger.find_states(configurations[0], runs)

    def _choose(self) -> bool:
        ranked = finalists(self.ranked(), self.search.question)
        if not ranked:
            self.halted = (
                "no trial has a score on every tuning seed at the full budget, so none can win"
            )
            return False
        seeds = len(self.seeds.seeds(Phase.SELECTION))
        runs = {
            c.number: [self.records[s.id] for s in self.runs_of(c.number, Phase.SELECTION)]
            for c in ranked
        }
        selection = choose(ranked, runs, seeds, self.search.question)
        self.ledger.choose(selection)
        self.selection = selection
        return True
