"""A sweep as a source of runs: search, choice and test, one after the other."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import fsum
from typing import Protocol

from rlexp.engine.progress import Progress, Proposal, steps_of
from rlexp.engine.search import Question, Search, promotions
from rlexp.engine.systematic import systematic_failure
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.seeds import Phase, SeedPlan
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Ending, Evaluated, StopRequest
from rlexp.records.run import RunRecord
from rlexp.records.selection import DEFAULT, Finalist, Selection
from rlexp.records.trial import TrialState
from rlexp.tuners import Suggestion


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


class Stage(StrEnum):
    """Where a sweep stands."""

    SEARCH = "search"
    PROMOTION = "promotion"
    SELECTION = "selection"
    TEST = "test"
    DONE = "done"


class Ledger(Protocol):
    """Where a sweep writes down what it decides, before it acts on it."""

    def configure(self, number: int, suggestion: Suggestion) -> tuple[Configuration | None, str]:
        """The configuration of a trial; nothing, and why, where it cannot be run."""
        ...

    def propose(self, proposal: Proposal, configuration: Configuration | None) -> None:
        """Write a trial down."""
        ...

    def choose(self, selection: Selection) -> None:
        """Freeze the choice."""
        ...


@dataclass(slots=True)
class Sweeping:
    """Gives out the runs of a sweep in their order, and takes their results.

    Attributes:
        search: With the trials so far.
        configurations: Of the trials that can be run, by number.
        records: Runs that are over for good, by id.
        selection: The choice, once it was made.
        until: The last stage to work on.
        hours: Wall-clock that the search has taken.
        halted: Why the sweep cannot go on, if it cannot.
    """

    search: Search
    seeds: SeedPlan
    ledger: Ledger
    hours: Callable[[], float]
    configurations: dict[int, Configuration] = field(default_factory=dict)
    records: dict[str, RunRecord] = field(default_factory=dict)
    selection: Selection | None = None
    until: Stage = Stage.TEST
    halted: str | None = None
    _candidates: dict[int, Candidate] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _specs: dict[tuple[int, int], RunSpec] = field(default_factory=dict)
    _owners: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def waiting(self) -> int:
        """Runs that are known to follow those that run now."""
        return sum(spec.id not in self._taken for spec in self._wanted())

    @property
    def stage(self) -> Stage:
        """What the next run is for."""
        if self.selection is not None:
            return Stage.TEST if self._missing(self._tests()) else Stage.DONE
        if not self.search.is_over(self.hours()):
            return Stage.SEARCH
        return Stage.PROMOTION if self._missing(self._promotions()) else Stage.SELECTION

    def stage_runs(self) -> tuple[int, int]:
        """How many runs of the present stage are over, and how many there are."""
        match self.stage:
            case Stage.SEARCH:
                screening = self.search.question.screening
                specs = [spec for (_, p), spec in self._specs.items() if p < screening]
            case Stage.PROMOTION:
                specs = self._promotions()
            case Stage.SELECTION:
                specs = self._selections()
            case _:
                specs = self._tests()
        return len(specs) - len(self._missing(specs)), len(specs)

    def take(self) -> RunSpec | None:
        """The next run to start; nothing where there is none, or none until another has ended."""
        while self.halted is None:
            for spec in self._wanted():
                if spec.id not in self._taken:
                    self._taken.add(spec.id)
                    return spec
            if not self._advance():
                return None
        return None

    def evaluated(self, spec: RunSpec, evaluations: Sequence[Evaluated]) -> None:
        """A run goes on: its trial may now be given up."""
        if (owner := self._owners.get(spec.id)) is not None:
            self.search.observe(*owner, evaluations)

    def stopping(self, spec: RunSpec) -> StopRequest | None:
        """Why a run is to end early: its trial was given up."""
        owner = self._owners.get(spec.id)
        stop = self.search.unneeded(*owner) if owner is not None else None
        return None if stop is None else StopRequest(Ending.PRUNED, stop.reason, stop.step or None)

    def ended(self, record: RunRecord) -> None:
        """A run is over for good."""
        self.records[record.spec.id] = record
        if (owner := self._owners.get(record.spec.id)) is not None:
            self.search.end(*owner, record)

    def runs_of(self, number: int) -> list[RunSpec]:
        """The runs of a trial that were or may be made, in order of the tuning seeds."""
        positions = range(self.search.question.seeds)
        return [self._specs[number, p] for p in positions if (number, p) in self._specs]

    def ranked(self) -> list[Candidate]:
        """The trials that can win so far, best first; the incumbent leads."""
        return candidates(self.search.entries, self.search.question, self._candidates)

    def resume(self, proposals: Sequence[tuple[Proposal, Configuration | None]]) -> None:
        """Take up trials that were proposed before, in the order of their numbers."""
        for proposal, configuration in proposals:
            self._begin(proposal, configuration)

    def _begin(self, proposal: Proposal, configuration: Configuration | None) -> None:
        """Add a trial. Two of one configuration share their runs, which are never made twice."""
        number = proposal.number
        if configuration is None:
            self.search.add(proposal)
            return
        self.configurations[number] = configuration
        seeds = self.seeds.seeds(Phase.TUNING)
        specs = [configuration.spec(Phase.TUNING, self.seeds.root, seed) for seed in seeds]
        owner = self._owners.get(specs[0].id)
        self.search.add(proposal, twin=None if owner is None else owner[0])
        for position, spec in enumerate(specs):
            self._specs[number, position] = spec
            self._owners.setdefault(spec.id, (number, position))
            if owner is None and (record := self.records.get(spec.id)) is not None:
                self.search.end(number, position, record)

    def _wanted(self) -> Iterator[RunSpec]:
        """Runs of the present stage that are not over."""
        if self.selection is not None:
            yield from self._missing(self._tests())
            return
        yield from (self._specs[pair] for pair in self.search.wanted())
        if self.search.is_over(self.hours()):
            ahead = self._missing(self._promotions())
            yield from ahead or self._missing(self._selections())

    def _missing(self, specs: Sequence[RunSpec]) -> list[RunSpec]:
        return [spec for spec in specs if spec.id not in self.records]

    def _promotions(self) -> list[RunSpec]:
        """Runs on all tuning seeds of the trials that go on to them."""
        numbers = promoted(self.search.entries, self.search.question)
        positions = range(self.search.question.screening, self.search.question.seeds)
        return [self._specs[number, p] for p in positions for number in numbers]

    def _selections(self) -> list[RunSpec]:
        """Runs of the finalists on selection seeds."""
        if self.until is Stage.SEARCH:
            return []
        chosen = finalists(self.ranked(), self.search.question)
        return [spec for c in chosen for spec in self._on_selection(c.number)]

    def _on_selection(self, number: int) -> list[RunSpec]:
        seeds = self.seeds.seeds(Phase.SELECTION)
        configuration = self.configurations[number]
        return [configuration.spec(Phase.SELECTION, self.seeds.root, seed) for seed in seeds]

    def _tests(self) -> list[RunSpec]:
        """Runs of the winner and of the default configuration on test seeds."""
        if self.selection is None or self.until is not Stage.TEST:
            return []
        numbers = dict.fromkeys((self.selection.winner, DEFAULT))
        return [
            self.configurations[number].spec(Phase.TEST, self.seeds.root, seed)
            for seed in self.seeds.seeds(Phase.TEST)
            for number in numbers
        ]

    def _advance(self) -> bool:
        """Decide what comes next, if that can be decided now; says whether anything changed."""
        if self.selection is not None:
            return False
        self.halted = systematic_failure(self.search)
        if self.halted is not None:
            return False
        number = self.search.due(self.hours())
        if number is not None:
            return self._suggest(number)
        if not self.search.is_over(self.hours()) or self.until is Stage.SEARCH:
            return False
        if self._missing(self._promotions()) or self._missing(self._selections()):
            return False
        return self._choose()

    def _suggest(self, number: int) -> bool:
        suggestion = self.search.suggest(number)
        if suggestion is None:
            return True
        configuration, refused = self.ledger.configure(number, suggestion)
        proposal = Proposal(
            number=number,
            parameters=suggestion.parameters,
            steps=suggestion.steps or self.search.question.steps,
            refused=None if configuration is not None else refused,
            parent=suggestion.parent,
        )
        self.ledger.propose(proposal, configuration)
        self._begin(proposal, configuration)
        return True

    def _choose(self) -> bool:
        ranked = finalists(self.ranked(), self.search.question)
        if not ranked:
            self.halted = (
                "no trial has a score on every tuning seed at the full budget, so none can win"
            )
            return False
        seeds = len(self.seeds.seeds(Phase.SELECTION))
        runs = {
            c.number: [self.records[s.id] for s in self._on_selection(c.number)] for c in ranked
        }
        selection = choose(ranked, runs, seeds, self.search.question)
        self.ledger.choose(selection)
        self.selection = selection
        return True
