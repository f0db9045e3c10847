"""`rlexp sweep`: searches on tuning seeds, selects a winner once, and tests it."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from signal import Signals
from typing import TYPE_CHECKING, Any, ClassVar

from rlexp.app.data_frames import DataRow, data_frame
from rlexp.app.execution.checkpoints import (
    drift_command,
)
from rlexp.app.execution.checks.device_check import check_devices
from rlexp.app.execution.early_session import opened_early
from rlexp.app.execution.estimate import store_rates
from rlexp.app.execution.extension import check_states
from rlexp.app.execution.launch import execute_source
from rlexp.app.execution.launch_settings import LaunchOptions, LaunchSettings
from rlexp.app.execution.memory_plan import check_memory
from rlexp.app.execution.preparation import check_scripts
from rlexp.app.execution.probes import Costs, find_costs, parallel_runs
from rlexp.app.observer import Observer
from rlexp.app.plans import SweepOutline
from rlexp.app.reading.run_rows import Scores, scores_of_evidence
from rlexp.app.reporting.build import card_context_of, make_report
from rlexp.app.reporting.evidence import collect_evidence
from rlexp.app.reporting.experiment_commands import (
    ExperimentState,
    experiment_commands,
    failed_for_good,
    permission_of,
    with_more_seeds,
)
from rlexp.app.reporting.next_commands import undecided_sequential
from rlexp.app.results import Displayed, NextCommand, Schema
from rlexp.app.sweeps.continuation import RunStates, release_buffers
from rlexp.app.sweeps.merging import merge_with_existing_sweep
from rlexp.app.sweeps.outline import begun_runs, outline_of
from rlexp.app.sweeps.progress import (
    SweepMonitor,
    note_dashboard,
    open_mirror,
    remaining_runs,
    trial_lines,
)
from rlexp.app.sweeps.request import (
    Configurer,
    FolderLedger,
    RequestedSweep,
    read_sweep,
)
from rlexp.app.sweeps.state import check_sweep_plug_ins, read_runs, restore_sweep, search_hours
from rlexp.app.sweeps.suggestion_time import SuggestionTime
from rlexp.app.sweeps.trial_rows import TRIAL_COLUMNS, trial_rows
from rlexp.app.sweeps.tries import enter, new_tries, read_tries
from rlexp.app.tracking.mirror_client import catch_up, note_missing_packages
from rlexp.app.workspace import Workspace
from rlexp.config.report_settings import read_report
from rlexp.engine.failure_streak import first_failed_run
from rlexp.engine.sweep_source import SweepSource, SweepStage
from rlexp.errors import ConfigError, did_you_mean
from rlexp.executors import Remote
from rlexp.protocol.budget import KEEP_BELOW
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.records.run import State
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.drawing.blocks import ReportDocument
from rlexp.reports.evidence.restarts import RestartCounts
from rlexp.reports.evidence.sweeps import PhaseCost
from rlexp.store.files import probe_writable, read_file
from rlexp.store.layout import ExperimentPaths
from rlexp.store.ledger_writer import LedgerWriter
from rlexp.store.locks.lease import hold
from rlexp.store.provenance import read_code
from rlexp.store.runs import StoredRun, folder_size, write_experiment
from rlexp.store.secrets import without_secrets
from rlexp.store.sweeps import check_untested

if TYPE_CHECKING:
    from pandas import DataFrame

SECTIONS = "section=[winner,front,verdicts]"
"""The sections of the report in a `SweepOutcome`."""
LOG_LINES = 30
"""Lines of a failed run's log in a `SweepOutcome`."""
UNTIL = (SweepStage.SEARCH, SweepStage.SELECTION, SweepStage.TEST)
"""Stages that `--until` accepts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions(LaunchOptions):
    """Options of `rlexp sweep` other than its definition and overrides.

    Attributes:
        until: The stage after which the command stops.
        tries: Configurations that the user proposes as trials, each as words.
    """

    until: SweepStage = SweepStage.TEST
    tries: tuple[str, ...] = ()

    @property
    def flags(self) -> list[str]:
        """The options that change which runs are started, as typed."""
        until = [] if self.until is SweepStage.TEST else ["--until", str(self.until)]
        return [*(["--retry"] if self.retry else []), *until]


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """The reason why a sweep stopped early.

    Attributes:
        reason: What went wrong.
        run: The first failed run of the search (`EXPERIMENT/RUN`); null if none failed.
        log: The last lines of the log of that run.
    """

    reason: str
    run: str | None
    log: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOutcome(Displayed):
    """The state of a sweep after a command.

    Attributes:
        experiment: The name of the experiment.
        folder: The folder of its records.
        stage: The present stage (`search`, `promotion`, `selection`, `test` or `done`).
        ran: Number of runs that ended during this command.
        halt: The reason why the sweep stopped early; null if it did not.
        trials: Number of trials by state, and of proposed trials.
        suggestions: The time that the tuner took for suggestions.
        past: Number of runs that continued from checkpoints or started again from step 0.
        cost: Runs, steps and seconds, by phase.
        unit: The unit of steps: `environment_steps`, or `environment.unit`.
        report: The winner, its test scores and the verdicts.
        complete: Whether the sweep finished the requested stage, with a score of every test run.
        interrupted: The signal that ended the command (`SIGINT`); null if none did.
        secret_words: Number of overrides that `next` leaves out because they contain a secret.
        next: Suggested next commands.
        scores: Test scores by label and seed, in Python only.
        trial_rows: A row for each trial, in Python only.
    """

    schema: ClassVar[Schema] = Schema("sweep-outcome")

    experiment: str
    folder: str
    stage: str
    ran: int
    halt: Halt | None
    trials: Mapping[str, int]
    suggestions: SuggestionTime
    past: RestartCounts
    cost: Mapping[str, PhaseCost]
    unit: str
    report: ReportDocument
    complete: bool
    interrupted: str | None
    secret_words: int
    next: tuple[NextCommand, ...]
    scores: Scores = field(default_factory=dict, repr=False, compare=False)
    trial_rows: tuple[DataRow, ...] = field(default=(), repr=False, compare=False)

    def to_pandas(self) -> "DataFrame":
        """A data frame with a row for each trial, with or without a value.

        Raises:
            ConfigError: pandas is not installed.
        """
        return data_frame(self.trial_rows, TRIAL_COLUMNS)


OpenedSweep = tuple[SweepSource, FolderLedger, dict[str, int]]
"""A sweep, its decision log, and the environment steps that each of its runs has spent."""


def read_stage(word: str) -> SweepStage:
    """The stage with the given name.

    Raises:
        ConfigError: `--until` does not accept this stage.
    """
    if word not in UNTIL:
        raise ConfigError(
            f"--until: there is no stage {word!r}{did_you_mean(word, UNTIL)} "
            f"(there are: {', '.join(UNTIL)})"
        )
    return SweepStage(word)


def sweep(
    name: str | None,
    overrides: Sequence[str],
    options: SweepOptions,
    workspace: Workspace,
    observer: Observer,
) -> SweepOutcome | SweepOutline:
    """Run the missing stages of a sweep; with `dry_run`, only plan them.

    Raises:
        RlexpError: The definition, the options or the records are wrong; nothing was started.
    """
    command = ("rlexp", "sweep", *([name] if name else []), *overrides)
    request = read_sweep(name, overrides, workspace)
    return run_sweep(request, command, options, workspace, observer)


def run_sweep(
    request: RequestedSweep,
    command: tuple[str, ...],
    options: SweepOptions,
    workspace: Workspace,
    observer: Observer,
) -> SweepOutcome | SweepOutline:
    """Run the missing parts of search, selection and test.

    Args:
        request: The sweep.
        command: The command as the user typed it.
        options: Further options.
        workspace: The workspace of the sweep.
        observer: Receives the plan, the trials and remarks.

    Returns:
        The state of the sweep afterwards; with `dry_run`, the plan.

    Raises:
        RlexpError: The request, the options or the records are wrong; nothing was started.
    """
    paths = workspace.layout.experiment(request.experiment.name)
    plan = request.request.plan
    experiment = merge_with_existing_sweep(paths, request.experiment, plan)
    configurer = Configurer(request, workspace, {})
    configurer.check_default()
    tries = read_tries(options.tries, configurer)
    check_sweep_plug_ins(experiment, request.request.plan.storage, workspace)
    configurer.check_code(experiment, command)
    launch = _launch_settings_of(request, experiment, command, options, workspace)
    if not paths.definition.exists():
        check_devices([experiment.default.compute.device], launch.executor)
    if not options.dry_run:
        probe_writable(paths.folder if paths.folder.exists() else workspace.layout.root)
    if options.dry_run:
        return _outline(
            *(paths, experiment, configurer, launch, options),
            *(tries, workspace, observer),
        )
    # Before the lock, whose file is in the folder of the sweep.
    if not paths.definition.exists():
        # Trials are not checked: what a script answers may depend on the moment, and trials may not.
        check_scripts(request.experiment.defaults, launch, workspace, observer)
    with hold(paths.lock, f"sweep {paths.name}", now=time.time()):
        # Another command may have changed the sweep before this one got the lock, so it is read
        # again.
        experiment = merge_with_existing_sweep(paths, request.experiment, plan)
        opened = _open(paths, experiment, configurer, options, workspace)
        begun = [spec for spec in begun_runs(paths, opened[0]) if spec.parent is not None]
        check_states(paths, begun, launch)
        opened[1].note = observer.note
        entering = new_tries(tries, opened[0])
        missing = bool(entering) or has_work(opened[0])
        with opened_early(launch, workspace, missing=missing) as early:
            costs = _costs(
                *(experiment, opened[0], early, configurer, options, workspace, observer)
            )
            write_experiment(paths, experiment)
            enter(entering, opened[0])
            return _search(
                *(paths, experiment, configurer, early, command, options),
                *(workspace, observer, opened, costs),
            )


def _outline(
    paths: ExperimentPaths,
    experiment: Experiment,
    configurer: Configurer,
    launch: LaunchSettings,
    options: SweepOptions,
    tries: Sequence[Mapping[str, Any]],
    workspace: Workspace,
    observer: Observer,
) -> SweepOutline:
    """The plan of the command, with the configurations of `--try` among the given ones."""
    note_missing_packages(launch.trackers, observer)
    sweeping = _open(paths, experiment, configurer, options, workspace)[0]
    entering = new_tries(tries, sweeping)
    code = read_code(workspace.folder, workspace.layout.root)
    costs = _costs(experiment, sweeping, launch, configurer, options, workspace, observer)
    outline = outline_of(paths, experiment, sweeping, launch, code, costs, workspace)
    return replace(outline, enqueued=outline.enqueued + len(entering))


def _costs(
    experiment: Experiment,
    sweeping: SweepSource,
    launch: LaunchSettings,
    configurer: Configurer,
    options: SweepOptions,
    workspace: Workspace,
    observer: Observer,
) -> Costs:
    """What the runs of a sweep cost, by those of its default configuration.

    Raises:
        ConfigError: The default configuration cannot be built; or it, or a trial with the largest
            searched values, does not fit into the memory.
    """
    if not has_work(sweeping):
        return Costs(configurer.spaces)
    root = experiment.seeds.root
    first = [default.spec(Phase.TUNING, root, 0) for default in experiment.defaults]
    runs = max(remaining_runs(sweeping), len(first))
    specs = list(islice(cycle(first), runs))
    _check_memory(specs, launch, configurer)
    costs = find_costs(
        specs, launch, workspace, observer, configurer.spaces, probing=options.probe
    )
    costs.check(first)
    return costs


def _check_memory(
    specs: Sequence[RunSpec], launch: LaunchSettings, configurer: Configurer
) -> None:
    """Check the memory of the default configuration, and of trials with the largest values.

    Args:
        specs: Runs of the default configuration, as many as the sweep needs at most.
        launch: How the runs are executed.
        configurer: Makes the configurations of trials.

    Raises:
        ConfigError: They do not fit; names the words that make them fit.
    """
    keys = configurer.asked.request.space.keys
    default = "the default configuration"
    check_memory(specs, launch, configurer.spaces, which=default, searched=keys)
    # Every run at a time may be one of the largest.
    largest = configurer.largest_specs() * parallel_runs(launch, len(specs))
    check_memory(
        largest, launch, configurer.spaces, which="the largest searched values", searched=keys
    )


def _launch_settings_of(
    request: RequestedSweep,
    experiment: Experiment,
    command: tuple[str, ...],
    options: SweepOptions,
    workspace: Workspace,
) -> LaunchSettings:
    continues = experiment.sweep is not None and experiment.sweep.plan.continuation
    return LaunchSettings(
        # With the words of a study file instead of its name: `rlexp resume` needs no such file.
        command=("rlexp", "sweep", *request.words),
        executor=request.executor,
        threads=experiment.default.compute.threads,
        operational={
            **request.operational,
            "allow_drift": options.allow_drift,
            "until": str(options.until),
            # Only until no trial can continue them any more: see `release_buffers`.
            **({KEEP_BELOW: experiment.default.budget.steps} if continues else {}),
        },
        with_drift=drift_command(command, workspace, *options.flags),
        trackers=request.trackers,
    )


def _search(
    paths: ExperimentPaths,
    experiment: Experiment,
    configurer: Configurer,
    launch: LaunchSettings,
    command: Sequence[str],
    options: SweepOptions,
    workspace: Workspace,
    observer: Observer,
    opened: OpenedSweep,
    costs: Costs,
) -> SweepOutcome:
    """Execute the missing runs, record the sweep, and return its outcome."""
    sweeping, ledger, spent = opened
    before = set(sweeping.records)
    interrupted: Signals | None = None
    mirror = open_mirror(paths, experiment, configurer.asked.request.plan.storage, observer)
    if has_work(sweeping):
        check_devices([experiment.default.compute.device], launch.executor, recorded=True)
        workers = launch.executor.workers_for(launch.threads)
        watched = SweepMonitor(sweeping, mirror, workers, spent, paths.name)
        try:
            interrupted = execute_source(
                paths,
                sweeping,
                launch,
                workspace,
                observer,
                show=lambda code: observer.sweep_plan(
                    outline_of(paths, experiment, sweeping, launch, code, costs, workspace)
                ),
                watch=lambda: watched.watch(observer),
            )
        finally:
            watched.close(observer)
        _remember(paths, sweeping, before, launch)
    else:
        # An earlier command may have been killed before it wrote the ledger, copied trials to
        # `sweep.storage` or pushed to trackers.
        LedgerWriter(paths).enter_late()
        SweepMonitor(sweeping, mirror, 1, spent, paths.name).close(observer)
        catch_up(paths, launch.trackers, launch.command, workspace, observer)
    note_dashboard(paths, configurer.asked.request.plan.storage, workspace.folder, observer)
    if KEEP_BELOW in launch.operational and launch.operational["keep_last"] is None:
        release_buffers(paths, sweeping)
    return _outcome(
        paths,
        experiment,
        sweeping,
        ledger,
        command,
        ran=len(set(sweeping.records) - before),
        complete=_is_done(sweeping, options.until),
        interrupted=interrupted,
        workspace=workspace,
    )


def _open(
    paths: ExperimentPaths,
    experiment: Experiment,
    configurer: Configurer,
    options: SweepOptions,
    workspace: Workspace,
) -> OpenedSweep:
    """The sweep, its decision log, and the environment steps that each of its runs has spent."""
    states = RunStates(paths, workspace, allow_drift=options.allow_drift)
    ledger = FolderLedger(paths, configurer, states)
    runs: list[StoredRun] = read_runs(paths) if paths.folder.exists() else []
    # A test run before the selection would let test scores reach the choice of the winner.
    if not paths.selection.exists():
        check_untested(paths, (s.record.spec.phase for s in runs))
    # A budget in hours includes the time that earlier commands spent on the search.
    earlier, begun = search_hours(s.record for s in runs), time.monotonic()
    sweeping = restore_sweep(
        paths,
        experiment,
        runs,
        workspace,
        ledger,
        until=options.until,
        retry=options.retry,
        default=configurer.asked.request.default,
        hours=lambda: earlier + (time.monotonic() - begun) / 3600,
        around=ledger.around,
    )
    return sweeping, ledger, {s.record.spec.id: s.record.spent for s in runs}


def has_work(sweeping: SweepSource) -> bool:
    """Whether the sweep has runs to start or decisions to make."""
    match sweeping.stage:
        case SweepStage.DONE:
            return False
        case SweepStage.SELECTION if sweeping.until is SweepStage.SEARCH:
            return False
        case SweepStage.TEST:
            return sweeping.until is SweepStage.TEST
        case _:
            return True


def _is_done(sweeping: SweepSource, until: SweepStage) -> bool:
    """Whether the sweep finished the stage `until`, with a score of every test run."""
    if sweeping.halted is not None:
        return False
    if until is SweepStage.SEARCH:
        return sweeping.stage not in {SweepStage.SEARCH, SweepStage.PROMOTION}
    if until is SweepStage.SELECTION:
        return sweeping.selection is not None
    tests = [r for r in sweeping.records.values() if r.spec.phase is Phase.TEST]
    return sweeping.stage is SweepStage.DONE and all(r.state is State.COMPLETED for r in tests)


def _remember(
    paths: ExperimentPaths, sweeping: SweepSource, before: set[str], launch: LaunchSettings
) -> None:
    """Record what new runs cost, for later estimates."""
    # The runs of workers elsewhere say nothing about this machine.
    if isinstance(launch.executor, Remote):
        return
    new = [record for key, record in sweeping.records.items() if key not in before]
    store_rates(
        [(record, folder_size(paths.run(record.spec.name).folder)) for record in new],
        parallel_runs(launch, len(new)),
    )


def _outcome(
    paths: ExperimentPaths,
    experiment: Experiment,
    sweeping: SweepSource,
    ledger: FolderLedger,
    command: Sequence[str],
    *,
    ran: int,
    complete: bool,
    interrupted: Signals | None,
    workspace: Workspace,
) -> SweepOutcome:
    """The result of the command: the state of the sweep, its report and the next commands."""
    evidence = collect_evidence([paths.name], Phase.TEST, workspace, enter=True)
    parts = read_report([SECTIONS], workspace.folder, workspace.allowed)
    tuned = (r for r in sweeping.records.values() if r.spec.phase is Phase.TUNING)
    trained = sum(record.seconds_spent for record in tuned)
    return SweepOutcome(
        experiment=paths.name,
        folder=str(paths.folder),
        stage=str(sweeping.stage),
        ran=ran,
        halt=_halt(paths, sweeping),
        trials=_counts(sweeping),
        suggestions=ledger.suggestion_time(trained),
        past=RestartCounts.of(sweeping.records.values()),
        cost={str(p): cost for s in evidence.sweeps for p, cost in s.costs.items()},
        unit=evidence.unit,
        report=make_report(evidence, parts),
        complete=complete,
        interrupted=interrupted.name if interrupted else None,
        secret_words=len(command) - len(without_secrets(command)),
        next=tuple(
            _next(
                paths, experiment, sweeping, command, workspace, card_context_of(evidence, parts)
            )
        ),
        scores=scores_of_evidence(evidence),
        trial_rows=tuple(row for s in evidence.sweeps for row in trial_rows(s)),
    )


def _halt(paths: ExperimentPaths, sweeping: SweepSource) -> Halt | None:
    """The reason why the sweep stopped early, with the log of the first failed run."""
    if sweeping.halted is None:
        return None
    record = first_failed_run(sweeping.search)
    if record is None:
        return Halt(reason=sweeping.halted, run=None, log=())
    run = paths.run(record.spec.name)
    try:
        lines = read_file(run.attempts()[-1].log).decode(errors="replace").splitlines()
    except (OSError, IndexError):
        lines = []
    name = f"{paths.name}/{record.spec.name}"
    return Halt(reason=sweeping.halted, run=name, log=tuple(lines[-LOG_LINES:]))


def _counts(sweeping: SweepSource) -> dict[str, int]:
    counts: dict[str, int] = {}
    for line in trial_lines(sweeping):
        counts[line.state] = counts.get(line.state, 0) + 1
    return {**counts, "proposed": len(sweeping.search.entries)}


def _next(
    paths: ExperimentPaths,
    experiment: Experiment,
    sweeping: SweepSource,
    command: Sequence[str],
    workspace: Workspace,
    context: ReportContext,
) -> Iterator[NextCommand]:
    """The suggested next commands."""
    again = (*without_secrets(command), *workspace.permission)
    stopped = sweeping.halted is not None
    untested = sweeping.selection is not None and sweeping.until is not SweepStage.TEST
    tests = [r for r in sweeping.records.values() if r.spec.phase is Phase.TEST]
    failed = failed_for_good(sweeping.records.values() if stopped else tests)
    state = ExperimentState(
        name=paths.name,
        again=again,
        adding=with_more_seeds(again, sweeping.seeds, Phase.TEST),
        permission=permission_of(experiment, workspace),
        unfinished=not stopped and (sweeping.stage is not SweepStage.DONE or untested),
        stopped=stopped,
        # Combinations that cannot be built fail without a run; --retry would not help them.
        retry=bool(failed),
        failed_run=None if stopped or not failed else f"{paths.name}/{failed[0].spec.name}",
        searched=True,
        selected=sweeping.selection is not None,
        sequential=undecided_sequential(context, workspace),
    )
    yield from experiment_commands(state)
