"""Executes what is missing of an experiment, whichever command asks for it."""

import os
import shlex
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from signal import SIGHUP
from signal import Signals as SignalNumber

from rlexp.app.execution import launch_settings
from rlexp.app.execution.checkpoints import beginnings, continuing, largest_replay, steps_done
from rlexp.app.execution.compatibility import Spaces
from rlexp.app.execution.estimate import estimate, remember
from rlexp.app.execution.import_permission import SCRIPTS, foreign_modules
from rlexp.app.execution.launch_settings import Driving, claim
from rlexp.app.execution.signals import Signals, listening
from rlexp.app.observer import Observer
from rlexp.app.plans import RunPlan
from rlexp.app.reading.summary import Entry, read_entries
from rlexp.app.tracking.mirror_client import mirroring
from rlexp.app.workspace import Workspace
from rlexp.engine.dispatch import Dispatch
from rlexp.engine.jobs import Jobs
from rlexp.engine.loop import Loop
from rlexp.engine.running import Watcher
from rlexp.engine.source import Listed, Plan, Source
from rlexp.executors import Executor, Remote, Site
from rlexp.executors.pull import Pull
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase
from rlexp.store.file_systems import VARIABLE as SHARED
from rlexp.store.layout import ExperimentPaths
from rlexp.store.provenance import Code, read_code
from rlexp.store.runs import folder_size, read_experiment, write_experiment
from rlexp.store.sealing import Seals


def drive_remotely(
    paths: ExperimentPaths,
    source: Source,
    driving: Driving,
    remote: Remote,
    code: Code,
    workspace: Workspace,
    observer: Observer,
    signals: Signals,
    *,
    show: Callable[[Code], None],
    watch: Callable[[], AbstractContextManager[Watcher]],
) -> OSError | None:
    """Give orders for what a source gives out; returns what kept them from being recorded.

    See `rlexp.app.execution.launch.drive_source`.

    Raises:
        ExecutorError: No job can be started.
        KeyboardInterrupt: A second signal came.
    """
    orders = driving.orders(code, workspace)
    if driving.detach:
        remote.check_detached()
    site = _site(paths, driving, workspace, by_hand=isinstance(remote, Pull))
    with remote.dispatch(site) as session:
        show(code)
        if isinstance(remote, Pull):
            command = shlex.join(["rlexp", *site.worker[site.worker.index("worker") :]])
            observer.note(f"Start workers wherever {paths.folder} is seen: {command}")
        jobs = Jobs(session, remote.runs_per_job, observer.note, time.monotonic)
        with watch() as watcher:
            dispatch = Dispatch(
                experiment=paths,
                session=session,
                jobs=jobs,
                grace=remote.grace,
                orders=lambda _: orders,
                command=driving.command,
                claim=claim,
                watcher=watcher,
                asked_to_stop=signals.asked_to_stop,
                left=lambda: signals.received is SIGHUP,
                monotonic=time.monotonic,
                now=time.time,
                detach=driving.detach,
            )
            try:
                dispatch.close_gap(source)
            finally:
                dispatch.abandon()
        if driving.detach and dispatch.out:
            _say_detached(paths, len(dispatch.out), jobs.submitted, remote, observer)
    return dispatch.disk_error


def _say_detached(
    paths: ExperimentPaths, runs: int, jobs: int, remote: Remote, observer: Observer
) -> None:
    where = "orders" if isinstance(remote, Pull) else f"{jobs} jobs" if jobs != 1 else "one job"
    told = f"{runs} runs are" if runs != 1 else "One run is"
    observer.note(
        f"{told} out as {where} and will go on without this command; "
        f"see: rlexp status {paths.name}; end them: rlexp cancel {paths.name}; "
        "take them up again: the same command"
    )


def _site(
    paths: ExperimentPaths, driving: Driving, workspace: Workspace, *, by_hand: bool
) -> Site:
    allowed = sorted({*workspace.allowed, *_packages(read_experiment(paths))})
    flags = [word for package in allowed for word in ("--allow-import", package)]
    shared = os.environ.get(SHARED)
    # A job has the cores of one run, but may see all of its machine.
    one = [] if by_hand else ["--workers", "1"]
    return Site(
        experiment=paths.folder,
        jobs=paths.jobs,
        folder=workspace.folder,
        worker=(*launch_settings.COMMAND, "worker", paths.name, *one, *flags),
        variables={
            "RLEXP_RUNS": str(workspace.layout.root),
            **({SHARED: shared} if shared else {}),
        },
        threads=driving.threads,
    )


def _packages(experiment: Experiment) -> set[str]:
    """What workers have to import, which the user's own words have named in this command."""
    parts = (experiment.default, *experiment.configurations, *experiment.trials)
    packages = {m.partition(".")[0] for one in parts for m in foreign_modules(one)}
    scripts = {SCRIPTS for one in parts if "command" in one.algorithm}
    return packages | scripts


def launch(
    paths: ExperimentPaths,
    experiment: Experiment,
    phase: Phase,
    plan: Plan,
    driving: Driving,
    workspace: Workspace,
    observer: Observer,
    spaces: Mapping[str, Spaces] | None = None,
) -> tuple[SignalNumber | None, list[Entry]]:
    """Write the definition, run what is missing, and read what became of it.

    Args:
        paths: The experiment's folder, whose lock is held.
        experiment: Its definition.
        phase: Whose runs are missing.
        plan: Which of them are missing.
        driving: How they are executed.
        workspace: Where the code is.
        observer: Receives the plan and the progress.
        spaces: Of the environments, where they are known.

    Returns:
        The signal that ended it, if one did; and every run that the phase asks for.
    """
    write_experiment(paths, experiment)
    interrupted = drive(paths, phase, plan, driving, workspace, observer, spaces)
    entries = read_entries(paths, experiment, phase)
    _remember_speeds(entries, plan)
    return interrupted, entries


def drive(
    paths: ExperimentPaths,
    phase: Phase,
    plan: Plan,
    driving: Driving,
    workspace: Workspace,
    observer: Observer,
    spaces: Mapping[str, Spaces] | None = None,
) -> SignalNumber | None:
    """Run what is missing; returns the signal that ended it, if one did.

    `spaces` are those of the environments, where they are known.
    """
    return drive_source(
        paths,
        Listed(deque(plan.missing)),
        driving,
        workspace,
        observer,
        show=lambda code: observer.plan(run_plan(paths, phase, plan, driving, code, spaces)),
        watch=lambda: observer.watch(len(plan.missing)),
    )


def drive_source(
    paths: ExperimentPaths,
    source: Source,
    driving: Driving,
    workspace: Workspace,
    observer: Observer,
    *,
    show: Callable[[Code], None],
    watch: Callable[[], AbstractContextManager[Watcher]],
) -> SignalNumber | None:
    """Run what a source gives out; returns the signal that ended it, if one did.

    Args:
        paths: The experiment, whose lock is held.
        source: Where the runs come from.
        driving: How they are executed.
        workspace: Where the code is.
        observer: Receives the progress, and is told of a full disk.
        show: Shows the plan, while the executor starts.
        watch: Opens what is told of every run.
    """
    code = read_code(workspace.folder, workspace.layout.root)
    disk_error: OSError | None = None
    with (
        # Outermost: in the end, Ctrl-C ends the wait for services.
        mirroring(paths, driving.trackers, driving.command, workspace, observer),
        listening(handled=workspace.handles_signals) as signals,
    ):
        try:
            executor = driving.executor
            if isinstance(executor, Remote):
                disk_error = drive_remotely(
                    *(paths, source, driving, executor, code, workspace, observer, signals),
                    show=show,
                    watch=watch,
                )
            else:
                disk_error = _drive_locally(
                    *(paths, source, driving, executor, code, workspace, signals),
                    show=show,
                    watch=watch,
                )
        except KeyboardInterrupt:
            signals.received = signals.received or SignalNumber.SIGINT
        if disk_error is not None:
            remedy = "free space, or make the disk writable"
            observer.error(f"{disk_error}; {remedy}, then give the same command again")
        return signals.received


def _drive_locally(
    paths: ExperimentPaths,
    source: Source,
    driving: Driving,
    executor: Executor,
    code: Code,
    workspace: Workspace,
    signals: Signals,
    *,
    show: Callable[[Code], None],
    watch: Callable[[], AbstractContextManager[Watcher]],
) -> OSError | None:
    orders = driving.orders(code, workspace)
    opened = executor.open(
        launch_settings.ENTRY,
        launch_settings.PRELOAD,
        threads=driving.threads,
        folder=workspace.folder,
    )
    loop = None
    try:
        with opened as session:
            show(code)
            with watch() as watcher:
                loop = Loop(
                    experiment=paths,
                    executor=executor,
                    session=session,
                    orders=lambda _: orders,
                    claim=claim,
                    watcher=watcher,
                    asked_to_stop=signals.asked_to_stop,
                    monotonic=time.monotonic,
                    now=time.time,
                    seals=Seals(paths),
                )
                loop.close_gap(source)
    finally:
        if loop is not None:
            loop.abandon()
    return loop.disk_error


def run_plan(
    paths: ExperimentPaths,
    phase: Phase,
    plan: Plan,
    driving: Driving,
    code: Code,
    spaces: Mapping[str, Spaces] | None = None,
) -> RunPlan:
    """How much there is to run, on how many workers, and what it is expected to take."""
    threads = driving.threads
    workers = min(driving.executor.workers_for(threads), max(len(plan.missing), 1))
    found = continuing(paths, plan.missing, allow_drift=driving.allow_drift)
    replay = largest_replay(plan.missing, spaces or {})
    expected = estimate(plan.missing, workers, continued=steps_done(found), replay=replay)
    return RunPlan(
        experiment=paths.name,
        phase=str(phase),
        runs=len(plan.missing),
        done=len(plan.done),
        failed=len(plan.failed),
        steps=plan.steps,
        steps_per_run=tuple(sorted({spec.budget["steps"] for spec in plan.missing})),
        beginnings=beginnings(found, driving.with_drift, replay),
        workers=workers,
        threads=threads,
        seconds=round(expected.seconds, 1),
        bytes=expected.bytes,
        measured=expected.measured,
        code=str(code),
    )


def _remember_speeds(entries: Sequence[Entry], plan: Plan) -> None:
    """Keep how long the runs took and how much they filled, for later estimates."""
    ran = {spec.id for spec in plan.missing}
    remember(
        [
            (stored.record, folder_size(stored.paths.folder))
            for _, stored in entries
            if stored.record.spec.id in ran
        ],
    )
