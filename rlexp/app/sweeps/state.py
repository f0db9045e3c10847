"""Restores a sweep from its folder, so that it can be continued or inspected."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import Any

from rlexp.app.reading.catalogue import catalogue_of, collector_paused
from rlexp.app.reading.experiment_scan import READ_ERRORS, read_intact
from rlexp.app.workspace import Workspace
from rlexp.config.validate import build
from rlexp.engine.objectives import Objectives
from rlexp.engine.search import Search, SearchProblem
from rlexp.engine.sweep_source import DecisionLog, SweepSource, SweepStage
from rlexp.engine.trial_state import Proposal
from rlexp.errors import ConfigError, ProtocolError, RecordError, RlexpError
from rlexp.exchange.database import Database
from rlexp.protocol.earlier_sweeps import best_of
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.identity import canonical, short_name
from rlexp.protocol.seeds import Phase
from rlexp.protocol.shared_experience import changes_in_training
from rlexp.protocol.spec import Parent, RunSpec
from rlexp.protocol.sweep import Sweep
from rlexp.pruners import PruningPoint
from rlexp.records.run import RunRecord, State
from rlexp.records.selection import DEFAULT, Selection
from rlexp.records.stream import CandidateVerdict, StreamRegister
from rlexp.records.trial import Trial, TrialOrigin, TrialState
from rlexp.store.file_systems import is_shared
from rlexp.store.layout import ExperimentPaths
from rlexp.store.registers.streams import read_stream
from rlexp.store.runs import StoredRun
from rlexp.store.sweeps import StoredTrial, read_selection, read_trials
from rlexp.tuners import Problem, Suggester, Suggestion, Tuner
from rlexp.tuners.prior import with_prior

FINITE_TUNERS = frozenset({"grid", "pbt", "pb2"})
"""The tuners with a finite number of suggestions, which depends on no trial."""


@dataclass(frozen=True, slots=True)
class ReadOnlyLedger:
    """A ledger that refuses every change, for a sweep that is only inspected."""

    def configure(
        self, number: int, suggestion: Suggestion
    ) -> tuple[tuple[Configuration, ...], str]:
        """Raise a ProtocolError."""
        raise ProtocolError(f"an inspected sweep cannot configure trial {number}: {suggestion}")

    def find_states(
        self, configuration: Configuration, runs: Sequence[RunRecord | None]
    ) -> tuple[tuple[Parent | None, ...], str | None]:
        """Raise a ProtocolError."""
        raise ProtocolError(
            f"an inspected sweep cannot continue {len(runs)} runs as {configuration.label}"
        )

    def propose(self, proposal: Proposal, _: tuple[Configuration, ...]) -> None:
        """Raise a ProtocolError."""
        raise ProtocolError(f"an inspected sweep cannot propose trial {proposal.number}")

    def hand_over(self, spec: RunSpec) -> str | None:
        """Raise a ProtocolError."""
        raise ProtocolError(f"an inspected sweep cannot start run {spec.name}")

    def choose(self, selection: Selection) -> None:
        """Raise a ProtocolError."""
        raise ProtocolError(f"an inspected sweep cannot choose trial {selection.winner}")


def check_sweep_plug_ins(
    experiment: Experiment, storage: str | None, workspace: Workspace
) -> None:
    """Check tuner, pruner and storage of a sweep before anything is written.

    Args:
        experiment: The sweep.
        storage: URL of the Optuna study that mirrors the sweep, if one is given.
        workspace: The workspace, with the packages that may be imported.

    Raises:
        ConfigError: A setting of the tuner or pruner is wrong, the tuner cannot solve the problem,
            the URL is invalid, or it names a SQLite file in a shared folder.
    """
    sweep = experiment.sweep
    assert sweep is not None
    _tuner(experiment, workspace).open(_problem(experiment))
    build(sweep.pruner, "pruner", workspace.allowed)
    if storage is not None:
        _check_shared(Database(storage))


def _check_shared(database: Database) -> None:
    """Refuse a SQLite file in a shared folder: its locks may not reach the other machines."""
    file = database.file
    if file is not None and is_shared(file):
        raise ConfigError(
            f"sweep.storage: {file} is in a folder that several machines share, where SQLite files "
            "get damaged: leave sweep.storage out for a journal file in the sweep's folder, or use a "
            "database server or a file on a local disk"
        )


@collector_paused()
def read_runs(paths: ExperimentPaths) -> list[StoredRun]:
    """The intact runs in a sweep's folder; a damaged or copied run is left out.

    Ended runs come from the catalogue of the sweep.
    """
    catalogue, runs = catalogue_of(paths), []
    for run in paths.runs():
        with suppress(RlexpError, *READ_ERRORS):
            runs.append(catalogue.look_in_full(run, read_intact))
    catalogue.save(complete=True)
    return runs


def restore_sweep(
    paths: ExperimentPaths,
    experiment: Experiment,
    runs: Iterable[StoredRun],
    workspace: Workspace,
    ledger: DecisionLog,
    *,
    until: SweepStage = SweepStage.TEST,
    retry: bool = False,
    default: Mapping[str, Any] | None = None,
    hours: Callable[[], float] | None = None,
    around: Callable[[Suggester], Suggester] = lambda suggester: suggester,
) -> SweepSource:
    """Restore a sweep with every trial, run and decision that its folder holds.

    Args:
        paths: The sweep's folder.
        experiment: The sweep.
        runs: The result of `read_runs`.
        workspace: The workspace, with the packages that may be imported.
        ledger: Records the decisions.
        until: The last stage to work on.
        retry: Whether runs with a final failure are executed again.
        default: The parameter values of the default configuration, used before it is a trial.
        hours: Returns the hours that the search has taken; by default those of its runs.
        around: Wraps the tuner, for example to measure its time.

    Raises:
        RecordError: A file is damaged.
        ConfigError: The tuner cannot solve the problem.
    """
    if experiment.imported is not None:
        return _imported_sweep(paths, experiment, runs, ledger)
    if experiment.sweep is not None and experiment.sweep.is_stream:
        return _stream(paths, experiment, runs, ledger)
    problem = _problem(experiment)
    suggester = with_prior(_tuner(experiment, workspace).open(problem), problem)
    sweep = experiment.sweep
    assert sweep is not None
    pruner = build(sweep.pruner, "pruner", workspace.allowed)
    trials = read_trials(paths)
    question = search_problem_of(experiment, trials[0].parameters if trials else default or {})
    one_by_one = sweep.plan.allocation == "racing" or short_name(sweep.pruner) != "none"
    search = Search(question, around(suggester), pruner, one_by_one)
    stored = list(runs)
    records = {s.record.spec.id: s.record for s in stored if not s.record.may_run(retry=retry)}
    taken = search_hours(s.record for s in stored) if hours is None else 0.0
    clock = hours or (lambda: taken)
    sweeping = SweepSource(search, experiment.seeds, ledger, clock, records=records, until=until)
    sweeping.resume([(proposal_of(t), t.configurations) for t in trials])
    if trials and short_name(sweep.tuner) in FINITE_TUNERS:
        # No record says that such a tuner has no suggestion left, so it is asked.
        search.exhausted = suggester.suggest([], len(trials)) is None
    sweeping.selection = read_selection(paths)
    return sweeping


@dataclass(frozen=True, slots=True)
class _EndedSearch:
    """The tuner and the pruner of a search that another tool has made: both have nothing to do."""

    def needs(self, number: int) -> int:
        """Return `number`: every trial has ended."""
        return number

    def suggest(self, _: Sequence[Trial], number: int) -> Suggestion | None:
        """Raise a ProtocolError."""
        raise ProtocolError(f"an imported search has no trial {number}")

    def prunes(self, _: PruningPoint) -> str | None:
        """Return None: the other tool has pruned."""
        return None


def _imported_sweep(
    paths: ExperimentPaths,
    experiment: Experiment,
    runs: Iterable[StoredRun],
    ledger: DecisionLog,
) -> SweepSource:
    """A search that another tool has made, with the verdicts of that tool."""
    ended = _EndedSearch()
    question = search_problem_of(experiment, {})
    search = Search(question, ended, ended, one_by_one=False, exhausted=True, recorded=True)
    records = {stored.record.spec.id: stored.record for stored in runs}
    sweeping = SweepSource(search, experiment.seeds, ledger, lambda: 0.0, records=records)
    sweeping.resume([(proposal_of(t), t.configurations) for t in read_trials(paths)])
    return sweeping


def _stream(
    paths: ExperimentPaths,
    experiment: Experiment,
    runs: Iterable[StoredRun],
    ledger: DecisionLog,
) -> SweepSource:
    """A search whose trials come from outside, with the decisions of the register of the stream."""
    ended, register = _EndedSearch(), read_stream(paths)
    question = search_problem_of(experiment, {})
    search = Search(question, ended, ended, one_by_one=False, exhausted=True, recorded=True)
    # A run that has ended, and that the trusted code has not scored yet, has not failed.
    records = {
        s.record.spec.id: s.record
        for s in runs
        if not s.record.may_run()
        and (s.record.state is not State.COMPLETED or s.record.spec.id in register.scored)
    }
    sweeping = SweepSource(search, experiment.seeds, ledger, lambda: 0.0, records=records)
    sweeping.resume([(proposal_of(t), t.configurations) for t in read_trials(paths)])
    for number, seeds, state, reason in _rulings(register):
        entry = search.entries[number] if number < len(search.entries) else None
        # A register of a damaged stream may name runs that are gone.
        if entry is not None and all(position in entry.records for position in range(seeds)):
            search.rule(number, seeds, state, reason)
    sweeping.selection = read_selection(paths)
    return sweeping


def _rulings(register: StreamRegister) -> Iterator[tuple[int, int, TrialState, str]]:
    """Number, number of seeds, state and reason of every trial that a stream has judged."""
    decisions = register.decisions.values()
    first = [len(d.seeds) for d in decisions if d.champion == DEFAULT]
    if any(first):
        yield DEFAULT, max(first), TrialState.COMPLETE, ""
    for decision in decisions:
        kept = decision.state is CandidateVerdict.KEPT
        state = TrialState.COMPLETE if kept else TrialState.PRUNED
        if decision.seeds:
            reason = f"{decision.state}: {decision.reason}"
            yield decision.candidate, len(decision.seeds), state, reason


def search_problem_of(experiment: Experiment, parameters: Mapping[str, Any]) -> SearchProblem:
    """The settings of an experiment's search: plan, seeds, steps and objectives."""
    sweep, default = experiment.sweep, experiment.default
    if sweep is None:
        raise RecordError(f"{experiment.name} is not a sweep; 'rlexp run' executes its runs")
    return SearchProblem(
        plan=sweep.plan,
        seeds=len(experiment.seeds.seeds(Phase.TUNING)),
        steps=default.budget.steps,
        every=default.budget.evaluation_every,
        objectives=Objectives(
            names=sweep.plan.objectives,
            aggregate=sweep.plan.aggregate,
            threshold=default.score_reference.get("threshold"),
            minimised=experiment.minimised,
            score_quantity=default.budget.quantity,
            score_minimised=default.lower_is_better,
            tasks=sweep.tasks,
        ),
        default=parameters,
        given=given_configurations(sweep),
        space=sweep.space,
        root=experiment.seeds.root,
    )


def given_configurations(sweep: Sweep) -> tuple[Suggestion, ...]:
    """The configurations that a sweep tries after the default: given ones, the guess, earlier ones."""
    enqueued = [
        Suggestion(values, origin=TrialOrigin.ENQUEUED) for values in sweep.plan.enqueue or ()
    ]
    guess = [] if sweep.guess is None else [Suggestion(sweep.guess, origin=TrialOrigin.PRIOR)]
    earlier = [Suggestion(v, origin=TrialOrigin.EARLIER) for v in best_of(sweep.earlier)]
    given: dict[str, Suggestion] = {}
    for suggestion in (*enqueued, *guess, *earlier):
        given.setdefault(canonical(suggestion.parameters), suggestion)
    # A sweep may enqueue a configuration twice, and older ones hold both trials.
    return (*enqueued, *list(given.values())[len(enqueued) :])


def proposal_of(trial: StoredTrial) -> Proposal:
    """The proposal from which the search restores a stored trial."""
    return Proposal(
        number=trial.number,
        parameters=trial.parameters,
        steps=trial.steps,
        refused=trial.refused if trial.configuration is None else None,
        parent=trial.parent,
        parents=trial.parents,
        anew=trial.anew,
        origin=trial.origin,
        changing=trial.configuration is not None
        and changes_in_training(trial.configuration.parts(), trial.parameters),
    )


def search_hours(records: Iterable[RunRecord]) -> float:
    """Hours during which at least one tuning run was executed."""
    # Overlapping runs count once: this is the union of their intervals.
    spans = sorted(
        (r.started, r.ended)
        for r in records
        if r.spec.phase is Phase.TUNING and r.started is not None and r.ended is not None
    )
    total, until = 0.0, -inf
    for start, end in spans:
        total += max(end - max(start, until), 0.0)
        until = max(until, end)
    return total / 3600


def _tuner(experiment: Experiment, workspace: Workspace) -> Tuner:
    assert experiment.sweep is not None
    tuner: Tuner = build(experiment.sweep.tuner, "tuner", workspace.allowed)
    return tuner


def _problem(experiment: Experiment) -> Problem:
    sweep = experiment.sweep
    if sweep is None:
        raise RecordError(f"{experiment.name} is not a sweep; 'rlexp run' executes its runs")
    return Problem(
        space=sweep.space,
        objectives=len(sweep.plan.objectives),
        steps=experiment.default.budget.steps,
        seed=experiment.seeds.root,
        earlier=tuple(trial for earlier in sweep.earlier for trial in earlier.trials),
    )
