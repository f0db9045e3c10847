"""`rlexp run`: starts the missing runs of an experiment and summarises their scores."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from signal import Signals
from typing import TYPE_CHECKING, ClassVar

from rlexp.app.data_frames import data_frame
from rlexp.app.execution.launch_settings import LaunchOptions, LaunchSettings
from rlexp.app.execution.registered_request import (
    PROTOCOL,
    protocol_command,
    refuse_registered,
    request_of_protocol,
)
from rlexp.app.execution.request import RunRequest, check_labels, merge_with_existing, read_request
from rlexp.app.plans import RunPlan  # at run time: the schemas of a command are in its module
from rlexp.app.reading.experiment_scan import ExperimentScan, mismatch_text, survey
from rlexp.app.reading.headline_aggregate import read_headline_aggregate
from rlexp.app.reading.summary import PhaseSummary, StoredEntry, read_entries, summarise
from rlexp.app.results import Displayed, NextCommand, Schema
from rlexp.app.tracking.mirror_client import catch_up, note_missing_packages
from rlexp.app.workspace import Workspace
from rlexp.engine.source import Plan, make_plan
from rlexp.errors import ConfigError
from rlexp.protocol.experiment import Experiment
from rlexp.records.run import RunRecord, State
from rlexp.reports.drawing.blocks import SummaryCard
from rlexp.store.files import probe_writable
from rlexp.store.layout import ExperimentPaths
from rlexp.store.ledger_writer import seal_ended_attempts
from rlexp.store.provenance import read_code
from rlexp.store.runs import read_experiment

if TYPE_CHECKING:
    from pandas import DataFrame

    from rlexp.app.execution.preparation import Prepared
    from rlexp.app.observer import Observer
    from rlexp.app.reading.run_rows import Scores
    from rlexp.app.reporting.experiment_commands import ExperimentState
    from rlexp.app.sweeps.retrain import SweepTrial


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(LaunchOptions):
    """Options of `rlexp run` other than overrides.

    Attributes:
        detach: Whether the command returns once runs are queued for a cluster or for workers.
        origin: The trial of a sweep that is trained again; None for an ordinary run.
        protocol: The registered protocol that is run; None for an ordinary run.
        detectable: Whether the summary says which differences comparisons could find. The short
            form of the terminal does not show them, and computing them takes a fifth of a second.
    """

    detach: bool = False
    origin: "SweepTrial | None" = None
    protocol: str | None = None
    detectable: bool = True

    def command(self, overrides: Sequence[str]) -> tuple[str, ...]:
        """The command that defines the experiment: without options such as `--retry`."""
        if self.protocol is not None:
            return protocol_command(self.protocol, overrides)
        if self.origin is None:
            return ("rlexp", "run", *overrides)
        return self.origin.command(overrides)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome(Displayed):
    """The state of one phase of an experiment after a command.

    Attributes:
        summary: The scores and states of the runs of the phase.
        problem: What differs from the ledger, on one line; null if nothing does.
        ran: Number of missing runs that were started.
        complete: Whether every requested run has a score.
        detached: Whether runs continue without this command.
        interrupted: The signal that ended the command (`SIGINT`); null if none did.
        next: Suggested next commands.
        card: The answer, the cost and what is missing, as in a report of the phase; null for
            detached and interrupted runs, and where a report cannot be made.
    """

    schema: ClassVar[Schema] = Schema("run-outcome")

    summary: PhaseSummary
    problem: str | None
    ran: int
    complete: bool
    detached: bool
    interrupted: str | None
    next: tuple[NextCommand, ...]
    card: SummaryCard | None = None

    @property
    def scores(self) -> "Scores":
        """Scores by label and seed, of the runs that have one (`{"ppo": {0: 500.0}}`).

        With several tasks, the keys are `LABEL on TASK`.
        """
        from rlexp.app.reading.run_rows import scores_of_summaries

        return scores_of_summaries([self.summary])

    def to_pandas(self) -> "DataFrame":
        """A data frame with a row for each planned run of the phase, with or without a score.

        Raises:
            ConfigError: pandas is not installed.
        """
        from rlexp.app.reading.run_rows import RUN_COLUMNS, run_rows, runs_of_summaries

        return data_frame(run_rows(runs_of_summaries([self.summary])), RUN_COLUMNS)


def run(
    overrides: Sequence[str], options: RunOptions, workspace: Workspace, observer: "Observer"
) -> "RunOutcome | RunPlan":
    """Start the missing runs; with `dry_run`, only plan them.

    Raises:
        RlexpError: The configuration, the options or the records are wrong; nothing was started.
    """
    request = _request(overrides, options, workspace)
    return run_missing(request, options.command(overrides), options, workspace, observer)


def _request(overrides: Sequence[str], options: RunOptions, workspace: Workspace) -> RunRequest:
    """The experiment that the command asks for.

    Raises:
        RlexpError: The configuration or the options are wrong.
    """
    if options.protocol is not None and options.origin is not None:
        raise ConfigError("--protocol runs what is sealed: leave out --from-sweep and --trial")
    if options.protocol is not None:
        return request_of_protocol(options.protocol, overrides, workspace)
    if options.origin is not None:
        from rlexp.app.sweeps.retrain import request_trial_again

        request = request_trial_again(options.origin, overrides, workspace)
    else:
        request = read_request(overrides, workspace)
    paths = workspace.layout.experiment(request.experiment.name)
    refuse_registered(request.experiment, paths, workspace)
    return request


def run_missing(
    request: RunRequest,
    command: tuple[str, ...],
    options: RunOptions,
    workspace: Workspace,
    observer: "Observer",
    scanned: ExperimentScan | None = None,
) -> "RunOutcome | RunPlan":
    """Start the missing runs of a request.

    Args:
        request: The experiment, its phase and how runs are executed.
        command: The command as the user typed it.
        options: Further options.
        workspace: The workspace of the experiment.
        observer: Receives the plan and the progress of the runs.
        scanned: The experiment as the caller has read it, in brief; None where it has not.

    Returns:
        The state of the phase afterwards; with `dry_run`, the plan.

    Raises:
        RlexpError: The request, the options or the records are wrong; nothing was started.
    """
    paths = workspace.layout.experiment(request.experiment.name)
    # This also checks conf/report.yaml: its mistakes must not appear only after the training.
    leading = read_headline_aggregate(workspace.folder, workspace.allowed)
    experiment = merge_with_existing(paths, request.experiment)
    if request.labelled:
        check_labels(experiment, request.experiment)
    scanned = scanned or _scan(paths, experiment)
    entries = None if scanned is None else scanned.entries_of(experiment, request.phase)
    if entries is None:
        scanned, entries = None, read_entries(paths, experiment, request.phase)
    plan = _plan(entries, request, options)
    _check_detached(request, options)
    if options.dry_run:
        return _dry_run(request, paths, plan, command, options, workspace, observer, experiment)
    if plan.missing:
        from rlexp.app.execution.early_session import opened_early

        scanned = None
        launch = _launch_settings_of(request, command, options, workspace)
        with opened_early(launch, workspace) as opened:
            executed = _execute(request, paths, plan, opened, options, workspace, observer)
    else:
        executed = _Executed(experiment, entries)
        all_entered = scanned is not None and scanned.all_entered
        _catch_up(request, paths, executed, command, workspace, observer, all_entered=all_entered)
    permission = [] if "--allow-import" in command else workspace.permission
    again = [*command, *permission]
    summary = summarise(
        *(paths, executed.experiment, request.phase, executed.entries, leading),
        detectable=options.detectable,
    )
    outcome = _outcome(request, executed, summary, again, detach=options.detach)
    return _with_card(outcome, request, executed, again, workspace, scanned)


def _with_card(
    outcome: RunOutcome,
    request: RunRequest,
    executed: "_Executed",
    again: Sequence[str],
    workspace: Workspace,
    scanned: ExperimentScan | None,
) -> RunOutcome:
    """The outcome with the card of a report; unchanged where the runs are not finished."""
    # The runs begin sooner without the imports of reports before them.
    from rlexp.app.reporting.build import count_looks
    from rlexp.app.reporting.experiment_commands import experiment_commands
    from rlexp.app.reporting.next_commands import card_and_sequential

    if outcome.detached or outcome.interrupted:
        # The scores so far were shown: whoever stops for them has looked at them.
        count_looks(request.experiment.name, request.phase, workspace)
        return outcome
    card, sequential = card_and_sequential(
        request.experiment.name, request.phase, workspace, scanned
    )
    state = replace(_state(executed, again, request), sequential=sequential)
    return replace(outcome, card=card, next=tuple(experiment_commands(state)))


def _scan(paths: ExperimentPaths, experiment: Experiment) -> ExperimentScan | None:
    """The experiment as it is on disk, in brief; None where the command changes its definition."""
    if not paths.definition.exists() or read_experiment(paths) != experiment:
        return None
    return survey(paths, brief=True)


@dataclass(frozen=True, slots=True)
class _Executed:
    """An experiment after its missing runs were executed.

    Attributes:
        experiment: Its definition.
        entries: Every run of the phase with its record.
        ran: Number of runs that were started.
        interrupted: The signal that ended the command; None if none did.
    """

    experiment: Experiment
    entries: Sequence[StoredEntry]
    ran: int = 0
    interrupted: Signals | None = None


def _prepare(
    request: RunRequest,
    paths: ExperimentPaths,
    plan: Plan,
    launch: LaunchSettings,
    options: RunOptions,
    workspace: Workspace,
    observer: "Observer",
) -> "Prepared":
    """Check a plan; return it with what its runs cost."""
    # A command that has nothing to run does without these imports.
    from rlexp.app.execution.checks.device_check import check_devices
    from rlexp.app.execution.preparation import prepare
    from rlexp.app.execution.prior_data import check_prior_data
    from rlexp.app.execution.starting_policy import check_policies

    devices = (spec.compute["device"] for spec in plan.missing)
    check_devices(devices, request.executor, recorded=paths.definition.exists())
    check_policies(request.experiment.configurations, request.policies, workspace)
    check_prior_data(request.experiment.configurations, request.sourced, workspace)
    return prepare(request, plan, launch, options, workspace, observer)


def _dry_run(
    request: RunRequest,
    paths: ExperimentPaths,
    plan: Plan,
    command: tuple[str, ...],
    options: RunOptions,
    workspace: Workspace,
    observer: "Observer",
    experiment: Experiment,
) -> "RunPlan":
    """The plan of the missing runs, without a start."""
    from rlexp.app.execution.launch import make_run_plan

    launch = _launch_settings_of(request, command, options, workspace)
    prepared = _prepare(request, paths, plan, launch, options, workspace, observer)
    note_missing_packages(request.trackers, observer)
    code = read_code(workspace.folder, workspace.layout.root)
    planned = make_run_plan(
        *(paths, request.phase, prepared.plan, launch, code, prepared.costs, experiment),
        workspace=workspace,
    )
    return replace(planned, refused=prepared.refused)


def _catch_up(
    request: RunRequest,
    paths: ExperimentPaths,
    executed: _Executed,
    command: tuple[str, ...],
    workspace: Workspace,
    observer: "Observer",
    *,
    all_entered: bool,
) -> None:
    """Write the ledger and push to trackers, where an earlier command was killed before it did."""
    probe_writable(paths.folder)
    if not all_entered:
        counted = {run.record.spec.name: run.record.attempts for _, run in executed.entries}
        seal_ended_attempts(paths, now=time.time(), counted=counted)
    catch_up(paths, request.trackers, command, workspace, observer)


def _execute(
    request: RunRequest,
    paths: ExperimentPaths,
    plan: Plan,
    launch: LaunchSettings,
    options: RunOptions,
    workspace: Workspace,
    observer: "Observer",
) -> _Executed:
    """Execute the missing runs, while the experiment is locked."""
    from rlexp.app.execution.launch import launch_experiment
    from rlexp.app.execution.prior_data import keep_sourced
    from rlexp.app.execution.starting_policy import keep_policies
    from rlexp.store.locks.lease import hold

    prepared = _prepare(request, paths, plan, launch, options, workspace, observer)
    # After the checks: a refused command leaves no folder.
    probe_writable(paths.folder if paths.folder.exists() else workspace.layout.root)
    with hold(paths.lock, f"experiment {paths.name}", now=time.time()):
        # Another command may have changed the experiment before this one got the lock, so it is
        # read again.
        experiment = merge_with_existing(paths, request.experiment)
        plan = _plan(read_entries(paths, experiment, request.phase), request, options)
        keep_policies(paths, request.policies)
        keep_sourced(paths, request.sourced)
        interrupted, entries = launch_experiment(
            *(paths, experiment, request.phase, plan, launch, workspace, observer), prepared.costs
        )
    return _Executed(experiment, entries, len(plan.missing), interrupted)


def _outcome(
    request: RunRequest,
    executed: _Executed,
    summary: PhaseSummary,
    again: Sequence[str],
    *,
    detach: bool,
) -> RunOutcome:
    """The state of the phase after the command, with the commands that may follow."""
    from rlexp.app.reporting.experiment_commands import experiment_commands

    records = _requested(executed.entries, request)
    interrupted = executed.interrupted
    return RunOutcome(
        summary=summary,
        problem=_mismatch(request.experiment.name, executed.entries),
        ran=executed.ran,
        complete=all(r.state is State.COMPLETED for r in records),
        detached=detach and bool(executed.ran) and interrupted is None,
        interrupted=interrupted.name if interrupted else None,
        next=tuple(experiment_commands(_state(executed, again, request))),
    )


def _mismatch(experiment: str, entries: Sequence[StoredEntry]) -> str | None:
    changed = [stored.paths.folder.name for _, stored in entries if stored.changed]
    return mismatch_text(experiment, changed, ledger_is_broken=False)


def _check_detached(request: RunRequest, options: RunOptions) -> None:
    if not options.detach:
        return
    from rlexp.executors import Remote

    if not isinstance(request.executor, Remote):
        raise ConfigError(
            "--detach needs an executor that outlives this command: choose executor=slurm or "
            "executor=pull"
        )


def _launch_settings_of(
    request: RunRequest, command: tuple[str, ...], options: RunOptions, workspace: Workspace
) -> LaunchSettings:
    from rlexp.app.execution.checkpoints import drift_command

    return LaunchSettings(
        executor=request.executor,
        threads=request.threads,
        operational={**request.operational, "allow_drift": options.allow_drift},
        command=command,
        with_drift=drift_command(command, workspace, *(["--retry"] if options.retry else [])),
        trackers=request.trackers,
        detach=options.detach,
        # `resume` and `extend` execute what records define.
        changeable=command[1] == "run",
        deadline=options.deadline,
    )


def _requested(entries: Sequence[StoredEntry], request: RunRequest) -> list[RunRecord]:
    """The records of the requested runs."""
    requested = {spec.id for spec in request.specs()}
    return [s.record for _, s in entries if s.record.spec.id in requested]


def _plan(entries: Sequence[StoredEntry], request: RunRequest, options: RunOptions) -> Plan:
    records = {stored.record.spec.id: stored.record for _, stored in entries}
    return make_plan(request.specs(), records, retry=options.retry)


def _state(executed: _Executed, again: Sequence[str], request: RunRequest) -> "ExperimentState":
    """What decides which commands help next; `again` are the words that continue the runs."""
    from rlexp.app.reporting.experiment_commands import (
        ExperimentState,
        failed_for_good,
        with_more_seeds,
    )

    name = request.experiment.name
    # Those of the experiment, of which the command may have requested a part.
    seeds = executed.experiment.seeds
    records = _requested(executed.entries, request)
    failed = failed_for_good(records)
    # The seeds of a protocol are sealed.
    adds = again[1] == "run" and PROTOCOL not in again
    return ExperimentState(
        name=name,
        again=tuple(again),
        adding=with_more_seeds(again, seeds, request.phase) if adds else (),
        unfinished=any(record.may_run() for record in records),
        retry=bool(failed),
        failed_run=f"{name}/{failed[0].spec.name}" if failed else None,
        labels=len({configuration.label for configuration in request.experiment.configurations}),
    )
