"""`rlexp sweep`: searches on tuning seeds, chooses once, and tests what was chosen."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from rlexp.app.continuing import with_drift
from rlexp.app.drive import drive_source
from rlexp.app.estimate import remember
from rlexp.app.execution import Driving
from rlexp.app.mirrored import catch_up
from rlexp.app.permission import check_imports
from rlexp.app.sweep_join import join_sweep
from rlexp.app.sweep_ledger import FolderLedger
from rlexp.app.sweep_outcome import show_outcome, tell_why
from rlexp.app.sweep_plan import show_sweep_plan
from rlexp.app.sweep_request import Asked, Configurer, read_sweep
from rlexp.app.sweep_state import check_parts, read_runs, resume, search_hours
from rlexp.app.sweep_watch import Watched, mirror_of
from rlexp.app.workspace import Workspace
from rlexp.console import Console
from rlexp.engine.sweeping import Stage, Sweeping
from rlexp.errors import ConfigError, did_you_mean
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase
from rlexp.records.run import State
from rlexp.store.files import probe_writable
from rlexp.store.layout import ExperimentPaths
from rlexp.store.lease import hold
from rlexp.store.provenance import read_code
from rlexp.store.runs import StoredRun, folder_size, write_experiment
from rlexp.store.sealing import Seals
from rlexp.store.sweeps import check_untested


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a command was told besides the definition and the configuration."""

    dry_run: bool = False
    retry: bool = False
    allow_drift: bool = False
    until: Stage = Stage.TEST

    @property
    def given(self) -> list[str]:
        """The options that change what is run, as they were given."""
        until = [] if self.until is Stage.TEST else ["--until", str(self.until)]
        return [*(["--retry"] if self.retry else []), *until]


UNTIL = (Stage.SEARCH, Stage.SELECTION, Stage.TEST)
"""Where a command can be told to stop."""


def read_stage(word: str) -> Stage:
    """The stage to stop after, from its name.

    Raises:
        ConfigError: There is no such stage.
    """
    if word not in UNTIL:
        raise ConfigError(
            f"there is no stage {word!r}{did_you_mean(word, UNTIL)} "
            f"(there are: {', '.join(UNTIL)})"
        )
    return Stage(word)


def sweep(
    name: str | None,
    words: Sequence[str],
    options: Options,
    workspace: Workspace,
    console: Console,
) -> int:
    """Bring a sweep to its end, and show what it found; returns the exit code.

    Raises:
        RlexpError: Something is wrong with what was asked; nothing was started.
    """
    command = ("rlexp", "sweep", *([name] if name else []), *words)
    return bring_sweep_to_end(
        read_sweep(name, words, workspace), command, options, workspace, console
    )


def bring_sweep_to_end(
    asked: Asked,
    command: tuple[str, ...],
    options: Options,
    workspace: Workspace,
    console: Console,
) -> int:
    """Search, choose and test what is missing, and show what was found.

    Args:
        asked: The sweep.
        command: What the user typed.
        options: What the command was told besides.
        workspace: Where it is.
        console: Shows the plan, the trials and the outcome.

    Returns:
        The exit code.

    Raises:
        RlexpError: Something is wrong with what was asked; nothing was started.
    """
    paths = workspace.layout.experiment(asked.experiment.name)
    if not options.dry_run:
        probe_writable(paths.folder if paths.folder.exists() else workspace.layout.root)
    lag_asked = asked.request.plan.lag is not None
    experiment = join_sweep(paths, asked.experiment, lag_asked=lag_asked)
    configurer = Configurer(asked, workspace, {})
    configurer.check_default()
    check_parts(experiment, asked.request.plan.storage, workspace)
    check_imports(
        (*experiment.trials, *experiment.configurations),
        workspace.allowed,
        (*command, *workspace.permission),
        trusted=[asked.experiment.default],
        chosen=asked.request.space.choices(),
    )
    driving = Driving(
        executor=asked.executor,
        threads=experiment.default.compute.threads,
        operational={
            **asked.budget.operational(),
            "allow_drift": options.allow_drift,
            "until": str(options.until),
        },
        command=command,
        with_drift=with_drift(command, workspace, *options.given),
        trackers=asked.trackers,
    )
    if options.dry_run:
        sweeping = _open(paths, experiment, configurer, options, workspace)[0]
        code = read_code(workspace.folder, workspace.layout.root)
        show_sweep_plan(paths, experiment, sweeping, driving, code, console, configurer.spaces)
        return 0
    with hold(paths.lock, f"sweep {paths.name}", now=time.time()):
        experiment = join_sweep(paths, asked.experiment, lag_asked=lag_asked)
        write_experiment(paths, experiment)
        return _go_on(paths, experiment, configurer, driving, options, workspace, console)


def _go_on(
    paths: ExperimentPaths,
    experiment: Experiment,
    configurer: Configurer,
    driving: Driving,
    options: Options,
    workspace: Workspace,
    console: Console,
) -> int:
    """Run what is missing, stage after stage, and show where that leads."""
    sweeping, ledger, spent = _open(paths, experiment, configurer, options, workspace)
    before = set(sweeping.records)
    stopped, storage = None, configurer.asked.request.plan.storage
    if has_work(sweeping):
        mirror = mirror_of(paths, experiment, storage, console)
        workers = driving.executor.workers_for(driving.threads)
        watched = Watched(sweeping, mirror, workers, spent)
        try:
            stopped = drive_source(
                paths,
                sweeping,
                driving,
                workspace,
                console,
                show=lambda code: show_sweep_plan(
                    paths, experiment, sweeping, driving, code, console, configurer.spaces
                ),
                watch=lambda: watched.watch(console),
            )
        finally:
            watched.close(console)
        _remember(paths, sweeping, before)
    else:
        Seals(paths).enter_late()
        # What an earlier command could not mirror, this one does.
        mirror = mirror_of(paths, experiment, storage, console)
        Watched(sweeping, mirror, 1, spent).close(console)
        catch_up(paths, driving.trackers, driving.command, workspace, console)
    if sweeping.halted is not None:
        tell_why(paths, sweeping, console)
    show_outcome(
        paths,
        sweeping,
        ledger,
        command=driving.command,
        ran=len(set(sweeping.records) - before),
        workspace=workspace,
        console=console,
    )
    if stopped is not None:
        return stopped
    return int(not _is_done(sweeping, options.until))


def _open(
    paths: ExperimentPaths,
    experiment: Experiment,
    configurer: Configurer,
    options: Options,
    workspace: Workspace,
) -> tuple[Sweeping, FolderLedger, dict[str, int]]:
    """A sweep, its ledger, and what each of its runs has spent so far."""
    ledger = FolderLedger(paths, configurer)
    runs: list[StoredRun] = read_runs(paths) if paths.folder.exists() else []
    if not paths.selection.exists():
        check_untested(paths, (s.record.spec.phase for s in runs))
    earlier, begun = search_hours(s.record for s in runs), time.monotonic()
    sweeping = resume(
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


def has_work(sweeping: Sweeping) -> bool:
    """Whether anything is to be run or decided."""
    match sweeping.stage:
        case Stage.DONE:
            return False
        case Stage.SELECTION if sweeping.until is Stage.SEARCH:
            return False
        case Stage.TEST:
            return sweeping.until is Stage.TEST
        case _:
            return True


def _is_done(sweeping: Sweeping, until: Stage) -> bool:
    """Whether it came as far as it was asked to, with a score of every test run."""
    if sweeping.halted is not None:
        return False
    if until is Stage.SEARCH:
        return sweeping.stage not in {Stage.SEARCH, Stage.PROMOTION}
    if until is Stage.SELECTION:
        return sweeping.selection is not None
    tests = [r for r in sweeping.records.values() if r.spec.phase is Phase.TEST]
    return sweeping.stage is Stage.DONE and all(r.state is State.COMPLETED for r in tests)


def _remember(paths: ExperimentPaths, sweeping: Sweeping, before: set[str]) -> None:
    """Keep how long the runs took and how much they filled, for later estimates."""
    new = [record for key, record in sweeping.records.items() if key not in before]
    remember([(record, folder_size(paths.run(record.spec.name).folder)) for record in new])
