"""`rlexp sweep`: searches on tuning seeds, chooses once, and tests the choice."""

import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from signal import Signals
from typing import ClassVar

from rlexp.app.execution.checkpoints import (
    beginnings,
    continuing,
    largest_replay,
    steps_done,
    with_drift,
)
from rlexp.app.execution.compatibility import Spaces
from rlexp.app.execution.estimate import estimate, remember
from rlexp.app.execution.import_permission import check_imports
from rlexp.app.execution.launch import drive_source
from rlexp.app.execution.launch_settings import Driving, LaunchOptions
from rlexp.app.observer import Observer
from rlexp.app.plans import SweepOutline
from rlexp.app.reporting.build import make_study
from rlexp.app.reporting.evidence import gather
from rlexp.app.results import NextCommand, Schema
from rlexp.app.sweeps.progress import (
    Watched,
    count_promotions,
    mirror_of,
    remaining_steps,
    trial_lines,
)
from rlexp.app.sweeps.request import Asked, Configurer, FolderLedger, join_sweep, read_sweep
from rlexp.app.sweeps.state import check_parts, read_runs, resume, search_hours
from rlexp.app.tracking.mirror_client import catch_up
from rlexp.app.workspace import Workspace
from rlexp.config.report import read_report
from rlexp.engine.sweeping import Stage, Sweeping
from rlexp.engine.systematic import first_failed_run
from rlexp.errors import ConfigError, RlexpError, did_you_mean
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.identity import short_name
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.protocol.sweep import SweepPlan
from rlexp.records.run import RunRecord, State
from rlexp.reports.drawing.blocks import Study
from rlexp.reports.evidence.restarts import Past
from rlexp.reports.evidence.sweeps import PhaseCost
from rlexp.store.files import probe_writable, read_file
from rlexp.store.layout import ExperimentPaths
from rlexp.store.lease import hold
from rlexp.store.provenance import Code, read_code
from rlexp.store.runs import StoredRun, folder_size, read_spec, write_experiment
from rlexp.store.sealing import Seals
from rlexp.store.secrets import without_secrets
from rlexp.store.sweeps import check_untested

SECTIONS = "section=[winner,verdicts]"
"""The sections of a report that the outcome of a sweep has."""
SEEDS = 10
"""Test seeds that are proposed where there are none."""
LOG_LINES = 30
"""Lines of a failed run's log that the outcome has."""
UNTIL = (Stage.SEARCH, Stage.SELECTION, Stage.TEST)
"""Stages after which a command can stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions(LaunchOptions):
    """Options of a sweep besides its definition and configuration.

    Attributes:
        until: The stage to stop after.
    """

    until: Stage = Stage.TEST

    @property
    def words(self) -> list[str]:
        """The options that change what is run, as they are typed."""
        until = [] if self.until is Stage.TEST else ["--until", str(self.until)]
        return [*(["--retry"] if self.retry else []), *until]


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """Why a sweep stopped before its end.

    Attributes:
        reason: What went wrong.
        run: The first run of the search that failed (`EXPERIMENT/RUN`), if one did.
        log: The end of that run's log.
    """

    reason: str
    run: str | None
    log: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestionTime:
    """What the suggestions of one command took.

    Attributes:
        suggestions: Their number.
        seconds: Duration of all of them, in seconds.
        longest: Duration of the longest one, in seconds.
        share: The duration as a share of the time that tuning runs took.
    """

    suggestions: int
    seconds: float
    longest: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOutcome:
    """Where a sweep stands after a command.

    Attributes:
        experiment: Its name.
        folder: Where its records are.
        stage: The stage at which it stands.
        ran: Runs that this command brought to their end.
        halt: Why the sweep stopped before its end, if it did.
        trials: Trials by state, and how many were proposed.
        suggestions: What suggesting trials took.
        past: How runs continued from checkpoints or began anew.
        cost: Runs, environment steps and seconds, by phase.
        report: Winner, test scores and verdicts.
        complete: Whether the sweep came as far as it was asked to, with a score of every test run.
        interrupted: The signal that ended the command (`SIGINT`), if one did.
        secret_words: Words of the command that `next` leaves out, because they hold a secret.
        next: The commands that make sense now.
    """

    schema: ClassVar[Schema] = Schema("sweep-outcome")

    experiment: str
    folder: str
    stage: str
    ran: int
    halt: Halt | None
    trials: Mapping[str, int]
    suggestions: SuggestionTime
    past: Past
    cost: Mapping[str, PhaseCost]
    report: Study
    complete: bool
    interrupted: str | None
    secret_words: int
    next: tuple[NextCommand, ...]


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
    overrides: Sequence[str],
    options: SweepOptions,
    workspace: Workspace,
    observer: Observer,
) -> SweepOutcome | SweepOutline:
    """Bring a sweep to its end; with `dry_run`, only plan it.

    Raises:
        RlexpError: Something is wrong with what was asked; nothing was started.
    """
    command = ("rlexp", "sweep", *([name] if name else []), *overrides)
    request = read_sweep(name, overrides, workspace)
    return bring_sweep_to_end(request, command, options, workspace, observer)


def bring_sweep_to_end(
    asked: Asked,
    command: tuple[str, ...],
    options: SweepOptions,
    workspace: Workspace,
    observer: Observer,
) -> SweepOutcome | SweepOutline:
    """Search, choose and test what is missing.

    Args:
        asked: The sweep.
        command: What the user typed.
        options: Further options.
        workspace: Where the sweep is.
        observer: Receives the plan, the trials and remarks.

    Returns:
        Where the sweep stands; with `dry_run`, the plan.

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
    driving = _driving(asked, experiment, command, options, workspace)
    if options.dry_run:
        sweeping = _open(paths, experiment, configurer, options, workspace)[0]
        code = read_code(workspace.folder, workspace.layout.root)
        return _outline(paths, experiment, sweeping, driving, code, configurer.spaces)
    with hold(paths.lock, f"sweep {paths.name}", now=time.time()):
        experiment = join_sweep(paths, asked.experiment, lag_asked=lag_asked)
        write_experiment(paths, experiment)
        return _go_on(paths, experiment, configurer, driving, options, workspace, observer)


def _driving(
    asked: Asked,
    experiment: Experiment,
    command: tuple[str, ...],
    options: SweepOptions,
    workspace: Workspace,
) -> Driving:
    return Driving(
        executor=asked.executor,
        threads=experiment.default.compute.threads,
        operational={
            **asked.budget.operational(),
            "allow_drift": options.allow_drift,
            "until": str(options.until),
        },
        command=command,
        with_drift=with_drift(command, workspace, *options.words),
        trackers=asked.trackers,
    )


def _go_on(
    paths: ExperimentPaths,
    experiment: Experiment,
    configurer: Configurer,
    driving: Driving,
    options: SweepOptions,
    workspace: Workspace,
    observer: Observer,
) -> SweepOutcome:
    """Run what is missing, stage after stage."""
    sweeping, ledger, spent = _open(paths, experiment, configurer, options, workspace)
    before = set(sweeping.records)
    interrupted: Signals | None = None
    mirror = mirror_of(paths, experiment, configurer.asked.request.plan.storage, observer)
    if has_work(sweeping):
        workers = driving.executor.workers_for(driving.threads)
        watched = Watched(sweeping, mirror, workers, spent)
        try:
            interrupted = drive_source(
                paths,
                sweeping,
                driving,
                workspace,
                observer,
                show=lambda code: observer.sweep_plan(
                    _outline(paths, experiment, sweeping, driving, code, configurer.spaces)
                ),
                watch=lambda: watched.watch(observer),
            )
        finally:
            watched.close(observer)
        _remember(paths, sweeping, before)
    else:
        Seals(paths).enter_late()
        # What an earlier command could not mirror, this one does.
        Watched(sweeping, mirror, 1, spent).close(observer)
        catch_up(paths, driving.trackers, driving.command, workspace, observer)
    return _outcome(
        paths,
        sweeping,
        ledger,
        driving.command,
        ran=len(set(sweeping.records) - before),
        complete=_is_done(sweeping, options.until),
        interrupted=interrupted,
        workspace=workspace,
    )


def _outline(
    paths: ExperimentPaths,
    experiment: Experiment,
    sweeping: Sweeping,
    driving: Driving,
    code: Code,
    spaces: Mapping[str, Spaces],
) -> SweepOutline:
    """What is searched, by which tuner, on which seeds, and what it will take at most."""
    definition, default = experiment.sweep, experiment.default
    assert definition is not None
    plan, question = definition.plan, sweeping.search.question
    runs = ceil(remaining_steps(sweeping) / question.steps)
    promoted, finalists = count_promotions(sweeping)
    workers = driving.executor.workers_for(driving.threads)
    spec = default.spec(Phase.TUNING, experiment.seeds.root, 0)
    begun = continuing(paths, _begun(paths, sweeping), allow_drift=driving.allow_drift)
    replay = largest_replay([spec], spaces)
    saved = {spec.name: sum(steps_done(begun).values()) // max(runs, 1)}
    expected = estimate([spec] * max(runs, 1), workers, continued=saved, replay=replay)
    return SweepOutline(
        experiment=experiment.name,
        stage=str(sweeping.stage),
        algorithm=short_name(default.algorithm),
        task=default.task,
        tuner=short_name(definition.tuner),
        pruner=short_name(definition.pruner),
        parameters=tuple(definition.space.keys),
        trials=plan.trials,
        trials_ended=sum(1 for e in sweeping.search.entries if e.trial is not None),
        allocation=plan.allocation,
        screening_seeds=question.screening,
        tuning_seeds=question.seeds,
        promoted=promoted,
        finalists=finalists,
        selection_seeds=len(experiment.seeds.seeds(Phase.SELECTION)),
        test_seeds=len(experiment.seeds.seeds(Phase.TEST)),
        objective=tuple(plan.objectives),
        aggregate=plan.aggregate,
        lag=plan.lag,
        limits=_limits(plan),
        runs=runs,
        steps_per_run=question.steps,
        beginnings=beginnings(begun, driving.with_drift, replay),
        workers=workers,
        threads=driving.threads,
        seconds=round(expected.seconds, 1),
        bytes=expected.bytes,
        measured=expected.measured,
        code=str(code),
    )


def _begun(paths: ExperimentPaths, sweeping: Sweeping) -> Iterator[RunSpec]:
    """The runs that were begun and have not ended."""
    over = {record.spec.name for record in sweeping.records.values()}
    for run in paths.runs():
        if run.folder.name not in over:
            with suppress(RlexpError):
                spec = read_spec(run)
                if _is_sound(spec) and spec.name == run.folder.name:
                    yield spec


def _is_sound(spec: RunSpec) -> bool:
    """Whether its parts are what they must be: a folder under `runs/` may hold anything."""
    parts = (spec.agent, spec.algorithm, spec.environment, spec.compute)
    return all(isinstance(part, Mapping) for part in parts)


def _limits(plan: SweepPlan) -> str:
    """What ends the search besides the number of its trials."""
    limits = []
    if plan.full_runs is not None:
        limits.append(f"{plan.full_runs:g} full runs")
    if plan.steps is not None:
        limits.append(f"{plan.steps:,} environment steps")
    if plan.hours is not None:
        limits.append(f"{plan.hours:g} h")
    return f"at most {plan.trials:,} trials, {' and '.join(limits)}" if limits else ""


def _open(
    paths: ExperimentPaths,
    experiment: Experiment,
    configurer: Configurer,
    options: SweepOptions,
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


def _outcome(
    paths: ExperimentPaths,
    sweeping: Sweeping,
    ledger: FolderLedger,
    command: Sequence[str],
    *,
    ran: int,
    complete: bool,
    interrupted: Signals | None,
    workspace: Workspace,
) -> SweepOutcome:
    """The winner with its tests, or how far the search is; and what makes sense now."""
    evidence = gather([paths.name], Phase.TEST, workspace)
    parts = read_report([SECTIONS], workspace.folder, workspace.allowed)
    return SweepOutcome(
        experiment=paths.name,
        folder=str(paths.folder),
        stage=str(sweeping.stage),
        ran=ran,
        halt=_halt(paths, sweeping),
        trials=_counts(sweeping),
        suggestions=_suggestion_time(sweeping, ledger),
        past=Past.of(sweeping.records.values()),
        cost={str(p): cost for s in evidence.sweeps for p, cost in s.costs.items()},
        report=make_study(evidence, parts),
        complete=complete,
        interrupted=interrupted.name if interrupted else None,
        secret_words=len(command) - len(without_secrets(command)),
        next=tuple(_next(paths, sweeping, command, workspace)),
    )


def _halt(paths: ExperimentPaths, sweeping: Sweeping) -> Halt | None:
    """Why the sweep stopped, with the end of the log of the first run that failed."""
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


def _counts(sweeping: Sweeping) -> dict[str, int]:
    counts: dict[str, int] = {}
    for line in trial_lines(sweeping):
        counts[line.state] = counts.get(line.state, 0) + 1
    return {**counts, "proposed": len(sweeping.search.entries)}


def _suggestion_time(sweeping: Sweeping, ledger: FolderLedger) -> SuggestionTime:
    thinking = ledger.thinking[-1] if ledger.thinking else None
    trained = sum(
        r.seconds_spent for r in sweeping.records.values() if r.spec.phase is Phase.TUNING
    )
    total = thinking.total if thinking else 0.0
    return SuggestionTime(
        suggestions=thinking.suggestions if thinking else 0,
        seconds=total,
        longest=thinking.longest if thinking else 0.0,
        share=total / trained if trained else 0.0,
    )


def _next(
    paths: ExperimentPaths, sweeping: Sweeping, command: Sequence[str], workspace: Workspace
) -> Iterator[NextCommand]:
    """The commands that make sense now."""
    permission = workspace.permission
    again, name = [*without_secrets(command), *permission], paths.name
    retry = NextCommand(why="try the failed runs again", command=shlex.join([*again, "--retry"]))
    report = shlex.join(["rlexp", "report", name, *permission])
    write = NextCommand(why="write the report", command=report)
    if sweeping.halted is not None:
        # Combinations that cannot be run fail without a run, and would do so again.
        yield retry if _failed(sweeping.records.values()) else write
        return
    untested = sweeping.selection is not None and sweeping.until is not Stage.TEST
    if sweeping.stage is not Stage.DONE or untested:
        yield NextCommand(why="continue", command=shlex.join(again))
        return
    if _failed(r for r in sweeping.records.values() if r.spec.phase is Phase.TEST):
        yield retry
    yield write
    train = shlex.join(["rlexp", "run", "--from-sweep", name, *permission])
    yield NextCommand(why="train the winner again", command=train)
    seeds = sweeping.seeds.test
    if isinstance(seeds, int):
        kept = [w for w in again if not w.startswith("seeds.test=")]
        more = shlex.join([*kept, f"seeds.test={2 * seeds or SEEDS}"])
        yield NextCommand(why="add test seeds", command=more)


def _failed(records: Iterable[RunRecord]) -> bool:
    return any(record.state is State.FAILED for record in records)
