"""A sweep as a source of runs: search, promotion, selection of the winner, and test.

`SweepSource` supplies the runs of each stage and takes their results; `winner_choice` ranks the trials
and chooses the winner.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

from rlexp.engine.failure_streak import systematic_failure
from rlexp.engine.front_choice import choose_on_front, front_finalists
from rlexp.engine.search import Search
from rlexp.engine.trial_state import Proposal
from rlexp.engine.winner_choice import (
    WinnerCandidate,
    candidates,
    choose,
    finalists,
    promoted,
)
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.seeds import Phase, SeedPlan
from rlexp.protocol.shared_experience import EXPERIENCE, SharedExperience, changes_in_training
from rlexp.protocol.spec import Parent, RunSpec
from rlexp.records.events import Ending, Evaluated, StopRequest
from rlexp.records.run import RunRecord, State
from rlexp.records.selection import Selection
from rlexp.tuners import Suggestion


def _fingerprints(configurations: Sequence[Configuration]) -> tuple[str, ...]:
    return tuple(configuration.fingerprint for configuration in configurations)


def _is_changing(configurations: Sequence[Configuration], parameters: Mapping[str, Any]) -> bool:
    """Whether a searched value changes while the runs of a trial train, by a schedule."""
    return any(changes_in_training(c.parts(), parameters) for c in configurations)


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

    def finalists(self) -> list[WinnerCandidate]:
        """The trials that run on selection seeds, by the trials so far."""
        question, ranked = self.search.question, self.ranked()
        return (
            front_finalists(ranked, question)
            if question.has_front
            else finalists(ranked, question)
        )

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
        best = self.finalists()
        return [spec for c in best for spec in self.runs_of(c.number, Phase.SELECTION)]

    def _tests(self) -> list[RunSpec]:
        """The runs of the winner, of its rival, of the front and of the default on test seeds."""
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
        configurations, refused = self.ledger.configure(number, self._sharing(suggestion))
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

    def _sharing(self, suggestion: Suggestion) -> Suggestion:
        """The suggestion with the runs whose transitions its runs receive."""
        if not suggestion.shared or suggestion.parent is None:
            return suggestion
        # Twins share their runs, which count once.
        runs = {
            record.spec.id: record.spec
            for number in suggestion.shared
            for _, record in sorted(self.search.entries[number].records.items())
            if record.state is State.COMPLETED
        }
        (parent,) = self.configurations[suggestion.parent]
        experience = SharedExperience(
            before=parent.algorithm.get(EXPERIENCE),
            step=suggestion.earlier[-1][0],
            runs=tuple(runs.values()),
        )
        return replace(suggestion, experience=experience)

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
        ranked = self.finalists()
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
        question = self.search.question
        selection = (
            choose_on_front(ranked, runs, seeds, self.search.entries, question)
            if question.has_front
            else choose(ranked, runs, seeds, question)
        )
        self.ledger.choose(selection)
        self.selection = selection
        return True
