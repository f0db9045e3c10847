"""A sweep as a source of runs: search, choice and test, one after the other."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from rlexp.engine.choice import Candidate, candidates, choose, finalists, promoted
from rlexp.engine.progress import Proposal
from rlexp.engine.search import Search
from rlexp.engine.systematic import systematic_failure
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.seeds import Phase, SeedPlan
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Ending, Evaluated, StopRequest
from rlexp.records.run import RunRecord
from rlexp.records.selection import DEFAULT, Selection
from rlexp.tuners import Suggestion


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
