"""Executes the missing runs of an experiment, in local processes or on remote workers.

`launch_experiment` is the entry for commands: it writes the experiment's definition, executes the
missing runs and reads their records. `execute_source` executes runs from any source, as a sweep
needs it.
"""

import os
import shlex
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from math import ceil
from signal import SIGHUP
from signal import Signals as SignalNumber

from rlexp.app.execution import launch_settings
from rlexp.app.execution.checkpoints import (
    describe_beginnings,
    find_beginnings,
    largest_replay_buffer,
    largest_rewritten_part,
    steps_done,
)
from rlexp.app.execution.checks.callback_checks import plan_remarks
from rlexp.app.execution.checks.device_check import check_devices
from rlexp.app.execution.checks.import_permission import SCRIPTS, foreign_modules
from rlexp.app.execution.early_session import session_of
from rlexp.app.execution.estimate import estimate_cost, store_rates
from rlexp.app.execution.extension import take_over_parents
from rlexp.app.execution.launch_settings import LaunchSettings, claim_run, conductor
from rlexp.app.execution.probes import Costs, parallel_runs
from rlexp.app.execution.signals import Signals, collect_signals
from rlexp.app.execution.verdict_reach import missing_reach
from rlexp.app.observer import Observer
from rlexp.app.plans import RunPlan
from rlexp.app.reading.looks import advice_on_looks
from rlexp.app.reading.protocols import alpha_of_plan, protocol_of_plan
from rlexp.app.reading.summary import StoredEntry, read_entries
from rlexp.app.tracking.mirror_client import mirroring
from rlexp.app.workspace import Workspace
from rlexp.engine.jobs import Jobs
from rlexp.engine.loop import Loop
from rlexp.engine.remote_loop import Dispatch
from rlexp.engine.run_in_flight import Watcher
from rlexp.engine.source import Plan, RunList, Source
from rlexp.errors import RecordError
from rlexp.executors import Executor, Remote, Site
from rlexp.executors.pull import Pull
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.protocol.units import ENVIRONMENT_STEPS
from rlexp.records.run import RunRecord
from rlexp.store.file_systems import VARIABLE as SHARED
from rlexp.store.layout import ExperimentPaths, Layout
from rlexp.store.ledger_writer import LedgerWriter
from rlexp.store.provenance import Code, read_code
from rlexp.store.runs import folder_size, read_experiment, read_run, write_experiment

MEASURED_RUNS = 10
"""Runs of each configuration whose costs are stored after a command: reading more takes longer."""


def launch_experiment(
    paths: ExperimentPaths,
    experiment: Experiment,
    phase: Phase,
    plan: Plan,
    launch: LaunchSettings,
    workspace: Workspace,
    observer: Observer,
    costs: Costs | None = None,
) -> tuple[SignalNumber | None, list[StoredEntry]]:
    """Write the experiment's definition, execute its missing runs, and read their records.

    Args:
        paths: The experiment's folder; this process holds its lock.
        experiment: Its definition.
        phase: Whose runs are missing.
        plan: Which runs are missing.
        launch: How the runs are executed.
        workspace: The workspace, which holds the code of the runs.
        observer: Receives the plan and the progress.
        costs: What is known about the costs of the runs.

    Returns:
        The signal that ended the command, or None; and every run of the phase with its record.
    """
    # The definition precedes every run: a run folder without one would belong to no experiment.
    write_experiment(paths, experiment)
    take_over_parents(paths, experiment, plan.missing, launch)
    interrupted = execute_missing_runs(
        *(paths, phase, plan, launch, workspace, observer), costs, experiment
    )
    entries = read_entries(paths, experiment, phase)
    _remember_rates(paths, plan, launch)
    return interrupted, entries


def execute_missing_runs(
    paths: ExperimentPaths,
    phase: Phase,
    plan: Plan,
    launch: LaunchSettings,
    workspace: Workspace,
    observer: Observer,
    costs: Costs | None = None,
    experiment: Experiment | None = None,
) -> SignalNumber | None:
    """Execute the missing runs; returns the signal that ended the command, or None.

    `costs` is what is known about the costs of the runs. `experiment` is the definition that the runs
    belong to; None where they repeat earlier runs.

    Raises:
        ConfigError: The runs need a device that this machine lacks.
    """
    devices = (spec.compute["device"] for spec in plan.missing)
    check_devices(devices, launch.executor, recorded=True)
    return execute_source(
        paths,
        RunList(deque(plan.missing)),
        launch,
        workspace,
        observer,
        show=lambda code: observer.plan(
            make_run_plan(paths, phase, plan, launch, code, costs, experiment, workspace)
        ),
        watch=lambda: observer.watch(len(plan.missing)),
    )


def execute_source(
    paths: ExperimentPaths,
    source: Source,
    launch: LaunchSettings,
    workspace: Workspace,
    observer: Observer,
    *,
    show: Callable[[Code], None],
    watch: Callable[[], AbstractContextManager[Watcher]],
) -> SignalNumber | None:
    """Execute the runs of a source; returns the signal that ended the command, or None.

    Args:
        paths: The experiment; this process holds its lock.
        source: Yields the runs to execute.
        launch: How the runs are executed.
        workspace: The workspace, which holds the code of the runs.
        observer: Receives the progress, and an error when the disk is full.
        show: Displays the plan once the executor has been opened.
        watch: Opens the watcher that receives the progress of every run.
    """
    code = read_code(workspace.folder, workspace.layout.root)
    disk_error: OSError | None = None
    with (
        # Outermost: the trackers may upload for a while after the last run. By then the signal
        # handlers are restored, so that Ctrl-C ends this wait.
        mirroring(paths, launch.trackers, launch.command, workspace, observer),
        collect_signals(handled=workspace.handles_signals) as signals,
    ):
        try:
            executor = launch.executor
            if isinstance(executor, Remote):
                disk_error = _execute_remotely(
                    *(paths, source, launch, executor, code, workspace, observer, signals),
                    show=show,
                    watch=watch,
                )
            else:
                disk_error = _execute_locally(
                    *(paths, source, launch, executor, code, workspace, observer, signals),
                    show=show,
                    watch=watch,
                )
        except KeyboardInterrupt:
            # A second signal raised this; leaving the executor's session has ended the runs.
            signals.received = signals.received or SignalNumber.SIGINT
        if disk_error is not None:
            remedy = "free space, or make the disk writable"
            where = f"{disk_error.filename}: " if disk_error.filename else ""
            reason = f"{where}{disk_error.strerror}" if disk_error.strerror else str(disk_error)
            observer.error(f"{reason}; {remedy}, then give the same command again")
        return signals.received


def _execute_locally(
    paths: ExperimentPaths,
    source: Source,
    launch: LaunchSettings,
    executor: Executor,
    code: Code,
    workspace: Workspace,
    observer: Observer,
    signals: Signals,
    *,
    show: Callable[[Code], None],
    watch: Callable[[], AbstractContextManager[Watcher]],
) -> OSError | None:
    orders = launch.orders(code, workspace)
    loop = None
    try:
        with session_of(launch, executor, workspace) as session:
            show(code)
            with watch() as watcher:
                loop = Loop(
                    experiment=paths,
                    executor=executor,
                    session=session,
                    orders=lambda _: orders,
                    claim=claim_run,
                    watcher=watcher,
                    asked_to_stop=lambda: signals.asked_to_stop() or launch.is_out_of_time,
                    conductor=conductor(),
                    monotonic=time.monotonic,
                    now=time.time,
                    note=observer.note,
                    seals=LedgerWriter(paths),
                )
                loop.close_gap(source)
    finally:
        if loop is not None:
            # Only after the session has closed: all processes of the runs have ended by then.
            loop.abandon()
    return loop.disk_error


def _execute_remotely(
    paths: ExperimentPaths,
    source: Source,
    launch: LaunchSettings,
    remote: Remote,
    code: Code,
    workspace: Workspace,
    observer: Observer,
    signals: Signals,
    *,
    show: Callable[[Code], None],
    watch: Callable[[], AbstractContextManager[Watcher]],
) -> OSError | None:
    """Queue the runs of a source for remote workers, and supervise them until they have ended.

    See `execute_source` for the arguments.

    Returns:
        The disk error that prevented the runs from being recorded, or None.

    Raises:
        ExecutorError: No job can be started.
        KeyboardInterrupt: A second signal came.
    """
    orders = launch.orders(code, workspace)
    if launch.detach:
        remote.check_detached()
    site = _site(paths, launch, workspace, by_hand=isinstance(remote, Pull))
    with remote.dispatch(site) as session:
        show(code)
        if isinstance(remote, Pull):
            command = shlex.join(["rlexp", *site.worker[site.worker.index("worker") :]])
            observer.note(f"Start workers wherever {paths.folder} is seen: {command}")
        note_idle_gpus(paths, remote, observer)
        jobs = Jobs(session, remote.runs_per_job, observer.note, time.monotonic)
        with watch() as watcher:
            dispatch = Dispatch(
                experiment=paths,
                session=session,
                jobs=jobs,
                grace=remote.grace,
                orders=lambda _: orders,
                command=launch.command,
                claim=claim_run,
                watcher=watcher,
                asked_to_stop=lambda: signals.asked_to_stop() or launch.is_out_of_time,
                left=lambda: signals.received is SIGHUP,
                monotonic=time.monotonic,
                now=time.time,
                detach=launch.detach,
            )
            try:
                dispatch.close_gap(source)
            finally:
                dispatch.abandon()
        # Without runs outside, everything has ended already and there is nothing to follow.
        if launch.detach and dispatch.out:
            _say_detached(paths, len(dispatch.out), jobs.submitted, remote, observer)
    return dispatch.disk_error


def note_idle_gpus(paths: ExperimentPaths, remote: Remote, observer: Observer) -> None:
    """Say that jobs ask for GPUs which no learner uses."""
    # Not every executor has the setting.
    gpus = getattr(remote, "gpus", 0)
    devices = {c.compute.device for c in read_experiment(paths).configurations}
    if gpus not in (0, "0") and devices == {"cpu"}:
        observer.note(
            f"executor.gpus={gpus} reserves GPUs, but compute.device=cpu: to train on them, add "
            "compute.device=cuda; without them, executor.gpus=0"
        )


def _say_detached(
    paths: ExperimentPaths, runs: int, jobs: int, remote: Remote, observer: Observer
) -> None:
    if isinstance(remote, Pull):
        jobs_text = "for workers"
    else:
        jobs_text = f"as {jobs} jobs" if jobs != 1 else "as one job"
    runs_text = f"{runs} runs are" if runs != 1 else "One run is"
    observer.note(f"{runs_text} queued {jobs_text} and will continue without this command")
    observer.note("To follow them again, repeat the same command")
    observer.note(f"To see their progress: {shlex.join(['rlexp', 'status', paths.name])}")
    observer.note(f"To cancel them: {shlex.join(['rlexp', 'cancel', paths.name])}")


def _site(
    paths: ExperimentPaths, launch: LaunchSettings, workspace: Workspace, *, by_hand: bool
) -> Site:
    # Workers read the experiment from disk, so they would refuse even packages of the user's own.
    allowed = sorted({*workspace.allowed, *_packages(read_experiment(paths))})
    flags = [word for package in allowed for word in ("--allow-import", package)]
    # This variable declares that every folder is shared between machines. Workers need it too: both
    # sides have to use the same kind of lease.
    shared = os.environ.get(SHARED)
    # A job is granted the cores of one run, although it may see all cores of its machine.
    worker_limit = [] if by_hand else ["--workers", "1"]
    return Site(
        experiment=paths.folder,
        jobs=paths.jobs,
        folder=workspace.folder,
        worker=(*launch_settings.COMMAND, "worker", paths.name, *worker_limit, *flags),
        variables={
            "RLEXP_RUNS": str(workspace.layout.root),
            **({SHARED: shared} if shared else {}),
        },
        threads=launch.threads,
    )


def _packages(experiment: Experiment) -> set[str]:
    """Packages and scripts that workers need permission for; the user has named them already."""
    parts = (experiment.default, *experiment.configurations, *experiment.trials)
    packages = {
        m.partition(".")[0] for configuration in parts for m in foreign_modules(configuration)
    }
    scripts = {SCRIPTS for configuration in parts if "command" in configuration.algorithm}
    return packages | scripts


def make_run_plan(
    paths: ExperimentPaths,
    phase: Phase,
    plan: Plan,
    launch: LaunchSettings,
    code: Code,
    costs: Costs | None = None,
    experiment: Experiment | None = None,
    workspace: Workspace | None = None,
) -> RunPlan:
    """The plan of a command: runs, steps and workers, and the expected time and disk space."""
    threads = launch.threads
    batch = min((spec.batch for spec in plan.missing), default=1)
    workers = min(launch.executor.workers_for(threads), max(ceil(len(plan.missing) / batch), 1))
    beginning_of = find_beginnings(paths, plan.missing, allow_drift=launch.allow_drift)
    costs, layout = costs or Costs(), Layout(paths.folder.parent)
    replay = largest_replay_buffer(plan.missing, costs.spaces)
    configurations = () if experiment is None else experiment.configurations
    tasks = {c.fingerprint: c.task for c in configurations}
    expected = estimate_cost(
        plan.missing,
        workers,
        rates=costs.rates,
        continued=steps_done(beginning_of),
        replay=replay,
        load=costs.load,
    )
    return RunPlan(
        experiment=paths.name,
        phase=str(phase),
        runs=len(plan.missing),
        done=len(plan.done),
        failed=len(plan.failed),
        steps=plan.steps,
        steps_per_run=tuple(sorted({spec.budget["steps"] for spec in plan.missing})),
        unit=next((spec.unit for spec in plan.missing), ENVIRONMENT_STEPS),
        offline_steps_per_run=_offline_steps(plan.missing),
        # The seeds of an interim analysis are not all seeds that a sequential test may use.
        reach=None
        if launch.sequential
        else missing_reach([*plan.missing, *plan.done], alpha_of_plan(experiment, layout)),
        looks=advice_on_looks(plan.missing, tasks, layout),
        protocol=None if experiment is None else protocol_of_plan(experiment, layout),
        beginnings=describe_beginnings(
            beginning_of, launch.with_drift, replay, largest_rewritten_part(plan.missing)
        ),
        workers=workers,
        batch=batch,
        threads=threads,
        **expected.of_plan(),
        code=str(code),
        kept_replay_bytes=replay * len(plan.missing) if launch.keeps_replay else 0,
        remarks=() if workspace is None else plan_remarks(configurations, plan.missing, workspace),
    )


def _offline_steps(specs: Iterable[RunSpec]) -> tuple[int, ...]:
    """The distinct numbers of gradient steps of offline stages; empty where no run has one."""
    numbers = tuple(sorted({spec.offline_steps for spec in specs}))
    return numbers if any(numbers) else ()


def _remember_rates(paths: ExperimentPaths, plan: Plan, launch: LaunchSettings) -> None:
    """Store what the executed runs cost, for later estimates."""
    # The runs of workers elsewhere say nothing about this machine.
    if isinstance(launch.executor, Remote):
        return
    done: list[tuple[RunRecord, int]] = []
    for spec in _some_of_each_configuration(plan.missing):
        # A damaged run is reported elsewhere.
        with suppress(OSError, RecordError):
            # The entries of a summary are without the events that show the rate.
            stored = read_run(paths.run(spec.name), spec, measurements=True)
            done.append((stored.record, folder_size(stored.paths.folder)))
    store_rates(done, parallel_runs(launch, len(plan.missing)))


def _some_of_each_configuration(specs: Iterable[RunSpec]) -> Iterator[RunSpec]:
    """The first runs of each configuration: a median of a few needs no more."""
    counts: Counter[str] = Counter()
    for spec in specs:
        counts[spec.fingerprint] += 1
        if counts[spec.fingerprint] <= MEASURED_RUNS:
            yield spec
