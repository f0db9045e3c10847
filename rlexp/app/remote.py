"""Drives runs that workers elsewhere execute."""

import os
import shlex
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from signal import SIGHUP

from rlexp.app.execution import launch_settings
from rlexp.app.execution.import_permission import SCRIPTS, foreign_modules
from rlexp.app.execution.launch_settings import Driving, claim
from rlexp.app.execution.signals import Signals
from rlexp.app.observer import Observer
from rlexp.app.workspace import Workspace
from rlexp.engine.dispatch import Dispatch
from rlexp.engine.jobs import Jobs
from rlexp.engine.running import Watcher
from rlexp.engine.source import Source
from rlexp.executors import Remote, Site
from rlexp.executors.pull import Pull
from rlexp.protocol.experiment import Experiment
from rlexp.store.file_systems import VARIABLE as SHARED
from rlexp.store.layout import ExperimentPaths
from rlexp.store.provenance import Code
from rlexp.store.runs import read_experiment


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
