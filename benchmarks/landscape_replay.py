"""Replay of whole sweeps: the real planner, tuners and pruners on tabulated runs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from landscape_draws import RepeatDraws
from landscape_runs import configuration, journal, stopped_journal
from landscape_snapping import Snapping
from landscape_table import Landscape

from rlexp.engine.objectives import Objectives
from rlexp.engine.search import Search, SearchProblem
from rlexp.engine.sweep_source import SweepSource
from rlexp.engine.trial_state import Proposal
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.seeds import Phase, SeedPlan
from rlexp.protocol.spec import Parent, RunSpec
from rlexp.protocol.sweep import SweepPlan
from rlexp.pruners import Pruner
from rlexp.records.events import Evaluated, Event
from rlexp.records.run import RunRecord
from rlexp.records.selection import Selection
from rlexp.tuners import Problem, Suggestion, Tuner

_ENDED = object()


@dataclass(frozen=True)
class Replay:
    """A sweep to replay; its fields determine everything.

    Attributes:
        landscape: Where.
        tuner: Who suggests.
        pruner: Who gives up.
        plan: With a number for `lag`.
        seeds: How many seeds of the landscape there are to tune on; the others are for the test.
        number: Decides which these are, which configuration is the default one, and what the
            tuner draws.
    """

    landscape: Landscape
    tuner: Tuner
    pruner: Pruner
    plan: SweepPlan
    seeds: int
    number: int

    @cached_property
    def draws(self) -> RepeatDraws:
        """The order of the seeds and the default configuration."""
        return RepeatDraws(self.landscape, self.number)

    @property
    def steps(self) -> int:
        """Environment steps of a run at the full budget."""
        return self.landscape.steps[-1]

    @cached_property
    def seed_plan(self) -> SeedPlan:
        """The seed plan: tuning seeds, no selection seeds, and all other seeds for the test."""
        tests = len(self.draws.order) - self.seeds
        return SeedPlan(root=0, tuning=self.seeds, selection=0, test=tests)

    def seed(self, phase: Phase, index: int) -> int:
        """The seed of the landscape for a seed of the plan."""
        return int(self.draws.order[index + (self.seeds if phase is Phase.TEST else 0)])

    def question(self) -> SearchProblem:
        """The fixed settings of the search."""
        return SearchProblem(
            plan=self.plan,
            seeds=self.seeds,
            steps=self.steps,
            every=self.landscape.steps[0],
            objectives=Objectives(names=self.plan.objectives, aggregate=self.plan.aggregate),
            default=self.landscape.rows[self.draws.default],
        )

    def problem(self) -> Problem:
        """The search problem of the tuner."""
        return Problem(
            space=self.landscape.space,
            objectives=len(self.plan.objectives),
            steps=self.steps,
            seed=self.number,
        )


@dataclass
class Table:
    """Makes configurations of trials and tabulated runs, and stores the selection."""

    replay: Replay
    selection: Selection | None = None
    rows: dict[int, int] = field(default_factory=dict)

    def configure(
        self, number: int, suggestion: Suggestion
    ) -> tuple[tuple[Configuration, ...], str]:
        """The configuration of a trial; its number in the landscape stands in the algorithm."""
        landscape = self.replay.landscape
        row = landscape.nearest(suggestion.parameters)
        self.rows[number] = row
        return (configuration(landscape, row, suggestion.steps or self.replay.steps),), ""

    def find_states(
        self, configuration: Configuration, runs: Sequence[RunRecord | None]
    ) -> tuple[tuple[Parent | None, ...], str | None]:
        """No states, because a landscape holds scores only: every run begins at step 0."""
        del configuration
        return tuple(None for _ in runs), None

    def propose(self, proposal: Proposal, configurations: tuple[Configuration, ...]) -> None:
        """Nothing, because a replay stores no files."""

    def hand_over(self, spec: RunSpec) -> str | None:
        """Nothing, because no run continues another."""

    def choose(self, selection: Selection) -> None:
        """Store the selection."""
        self.selection = selection

    def events(self, spec: RunSpec) -> tuple[Event, ...]:
        """The journal of a run, as the landscape tells it."""
        seed = self.replay.seed(spec.phase, spec.seed)
        return journal(self.replay.landscape, spec.algorithm["row"], seed, spec.budget["steps"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a replayed sweep.

    Attributes:
        tuning: Mean score of the winner on the tuning seeds; nothing where none could win.
        test: Its mean score on the other seeds, the worst of the task where it crashed.
        row: Of the winner in the landscape.
        winner: Number of the trial.
        trials: How many there were.
        states: How many of them ended in each way.
        spent: Environment steps of all runs but those of the test.
        records: Every run.
    """

    tuning: float | None
    test: float | None
    row: int | None
    winner: int | None
    trials: int
    states: Mapping[str, int]
    spent: int
    records: tuple[RunRecord, ...]


def run(replay: Replay, workers: int = 1, generator: np.random.Generator | None = None) -> Outcome:
    """Replay a sweep: search, selection and test.

    Args:
        replay: The sweep.
        workers: Runs at a time.
        generator: Decides which of them comes to its next evaluation; without, the eldest does.
    """
    table = Table(replay)
    snapping = Snapping(
        replay.tuner.open(replay.problem()), replay.landscape, replay.draws.default
    )
    search = Search(
        question=replay.question(), suggester=snapping, pruner=replay.pruner, one_by_one=True
    )
    sweeping = SweepSource(search=search, seeds=replay.seed_plan, ledger=table, hours=lambda: 0.0)
    running: list[Iterator[None]] = []
    while True:
        while len(running) < workers and (spec := sweeping.take()) is not None:
            running.append(_train(sweeping, spec, table.events(spec)))
        if not running:
            return _outcome(sweeping, table)
        turn = 0 if generator is None else int(generator.integers(len(running)))
        if next(running[turn], _ENDED) is _ENDED:
            del running[turn]


def _train(sweeping: SweepSource, spec: RunSpec, events: Sequence[Event]) -> Iterator[None]:
    """Yield after each evaluation of a run, until it ends or must stop."""
    curve: list[Evaluated] = []
    for event in events:
        if isinstance(event, Evaluated) and not event.final:
            curve.append(event)
            sweeping.evaluated(spec, curve)
            if (request := sweeping.stopping(spec)) is not None:
                stopped = stopped_journal(curve, request)
                sweeping.ended(RunRecord.fold(spec, [stopped]))
                return
            yield
    sweeping.ended(RunRecord.fold(spec, [events]))


def _outcome(sweeping: SweepSource, table: Table) -> Outcome:
    records = tuple(sweeping.records.values())
    trials = [entry.trial for entry in sweeping.search.entries if entry.trial is not None]
    states = [str(trial.state) for trial in trials]
    winner = table.selection.winner if table.selection else None
    row = None if winner is None else table.rows[winner]
    return Outcome(
        tuning=None if table.selection is None else float(np.mean(table.selection.chosen.tuning)),
        test=None if row is None else _test_score(table.replay, row),
        row=row,
        winner=winner,
        trials=len(trials),
        states={state: states.count(state) for state in sorted(set(states))},
        spent=sum(r.spent for r in records if r.spec.phase is not Phase.TEST),
        records=records,
    )


def _test_score(replay: Replay, row: int) -> float:
    return float(replay.landscape.scores[row, replay.draws.order[replay.seeds :]].mean())
