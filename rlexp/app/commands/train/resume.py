"""`rlexp resume`: continues unfinished experiments, as repeating their commands would."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from rlexp.app.commands.train.recorded_requests import (
    check_overrides,
    phase_requests,
    recorded_sweep,
)
from rlexp.app.commands.train.run import RunOptions, RunOutcome, run_missing
from rlexp.app.commands.train.sweep import (
    UNTIL,
    SweepOptions,
    SweepOutcome,
    has_work,
    run_sweep,
)
from rlexp.app.execution.launch_settings import LaunchOptions
from rlexp.app.observer import Observer
from rlexp.app.plans import RunPlan, SweepOutline
from rlexp.app.reading.experiment_scan import ExperimentScan, survey
from rlexp.app.reading.imported import is_ask_and_tell, refuse_imported
from rlexp.app.reading.provenance import LastCommand, read_last_command
from rlexp.app.reporting.evidence import collect_evidence
from rlexp.app.reporting.next_commands import continued_ablation
from rlexp.app.results import NextCommand, Schema
from rlexp.app.sweeps.state import ReadOnlyLedger
from rlexp.app.sweeps.state import restore_sweep as take_up
from rlexp.app.workspace import Workspace
from rlexp.engine.sweep_source import SweepStage
from rlexp.errors import Code, RecordError, RlexpError
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.locks.lease import holder, is_held
from rlexp.store.registers.gates import gate_command, refuse_gate
from rlexp.store.registers.streams import is_stream, refuse_stream
from rlexp.store.runs import read_spec

ResumedPart = RunOutcome | RunPlan | SweepOutcome | SweepOutline
"""The result for one phase of an experiment, or for a sweep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftExperiment:
    """An experiment that was skipped because another command runs it.

    Attributes:
        experiment: The name of the experiment.
        holder: The process that runs it.
    """

    experiment: str
    holder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeError:
    """An experiment that could not be continued.

    Attributes:
        experiment: The name of the experiment.
        code: The kind of error; one of `rlexp.errors.CODES`.
        message: The error message.
        key: The wrong setting or argument; null if there is no single one.
        allowed: The allowed values, if they can be listed.
        command: The command to type next; null if there is no single one.
        exit_code: The exit code of `rlexp resume` for this experiment alone.
        parts_before: Number of results in `parts` before the error.
    """

    experiment: str
    code: Code
    message: str
    key: str | None
    allowed: tuple[str, ...]
    command: str | None
    exit_code: int
    parts_before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftWords:
    """Overrides of a recorded command that were left out, because records do not choose executors.

    Attributes:
        experiment: The experiment of the command.
        words: The overrides.
    """

    experiment: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftGate:
    """An unfinished experiment of a gate, which was skipped because its code may have changed.

    Attributes:
        experiment: The name of the experiment.
        command: The command that repeats the gate.
    """

    experiment: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeOutcome:
    """The results of continued experiments.

    Attributes:
        experiments: Number of examined experiments.
        parts: The result of each continued phase and sweep.
        left: Experiments that were skipped because another command runs them.
        errors: Experiments that could not be continued.
        adaptive: Experiments whose next look needs `rlexp compare --adaptive`.
        ablations: The commands that make the next interim analyses of ablations.
        gates: Unfinished experiments of gates, which only the gates continue.
        left_words: Overrides of recorded commands that were left out.
        problems: What differs from the ledger of each experiment, each as a sentence.
        interrupted: The signal that ended the command (`SIGINT`); null if none did.
    """

    schema: ClassVar[Schema] = Schema("resume-outcome")

    experiments: int
    parts: tuple[ResumedPart, ...]
    left: tuple[LeftExperiment, ...]
    errors: tuple[ResumeError, ...]
    adaptive: tuple[str, ...]
    ablations: tuple[NextCommand, ...]
    gates: tuple[LeftGate, ...]
    left_words: tuple[LeftWords, ...]
    problems: tuple[str, ...]
    interrupted: str | None


def resume(
    arguments: Sequence[str], options: LaunchOptions, workspace: Workspace, observer: Observer
) -> ResumeOutcome:
    """Continue an experiment, a run, or everything that is unfinished.

    Args:
        arguments: The target, or no target for everything; then overrides of executor, trackers
            and checkpoints.
        options: Further options.
        workspace: The workspace of the experiments.
        observer: Receives plans, progress, and every part of the result when it is complete.

    Raises:
        RlexpError: There is no such target, or its records cannot be used; nothing was started.
    """
    workspace.make_allowed_importable()
    target, rest = _split(arguments, workspace)
    resumption = _Resumption(tuple(rest), options, workspace, observer)
    if target is None:
        resumption.resume_all()
    else:
        resumption.resume_target(target)
    return resumption.outcome()


def _split(arguments: Sequence[str], workspace: Workspace) -> tuple[str | None, Sequence[str]]:
    """The target, if the arguments begin with one, and the overrides after it."""
    if not arguments:
        return None, arguments
    # The name of an experiment may contain `=`, so an existing folder decides.
    is_target = "=" not in arguments[0] or (workspace.layout.root / arguments[0]).exists()
    return (arguments[0], arguments[1:]) if is_target else (None, arguments)


@dataclass(slots=True)
class _Resumption:
    """One `rlexp resume`: its arguments, and its results so far."""

    overrides: tuple[str, ...]
    options: LaunchOptions
    workspace: Workspace
    observer: Observer
    experiments: int = 0
    parts: list[ResumedPart] = field(default_factory=list)
    left: list[LeftExperiment] = field(default_factory=list)
    errors: list[ResumeError] = field(default_factory=list)
    adaptive: list[str] = field(default_factory=list)
    ablations: list[NextCommand] = field(default_factory=list)
    gates: list[LeftGate] = field(default_factory=list)
    left_words: list[LeftWords] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def interrupted(self) -> str | None:
        """The signal that interrupted a part; None if none did."""
        outcomes = [p for p in self.parts if isinstance(p, RunOutcome | SweepOutcome)]
        return next((p.interrupted for p in outcomes if p.interrupted), None)

    def outcome(self) -> ResumeOutcome:
        """The result of the command."""
        return ResumeOutcome(
            experiments=self.experiments,
            parts=tuple(self.parts),
            left=tuple(self.left),
            errors=tuple(self.errors),
            adaptive=tuple(self.adaptive),
            ablations=tuple(self.ablations),
            gates=tuple(self.gates),
            left_words=tuple(self.left_words),
            problems=tuple(self.problems),
            interrupted=self.interrupted,
        )

    def resume_target(self, name: str) -> None:
        """Continue an experiment or a run."""
        self.experiments = 1
        paths = self.workspace.find(name)
        is_run = isinstance(paths, RunPaths)
        experiment = ExperimentPaths(paths.folder.parent if is_run else paths.folder)
        refuse_gate(experiment)
        refuse_stream(experiment)
        try:
            if isinstance(paths, RunPaths):
                self._run(paths)
            else:
                self._experiment(self._survey(paths))
        except RlexpError as error:
            # Phases that were continued before the error stay in the result.
            if not self.parts:
                raise
            self._fail(name, error)

    def resume_all(self) -> None:
        """Continue every unfinished experiment, one after the other."""
        check_overrides(self.overrides)
        every = self.workspace.layout.experiments()
        self.experiments = len(every)
        for paths in every:
            try:
                self._resume_if_unfinished(paths)
            except RlexpError as error:
                self._fail(paths.name, error)
            if self.interrupted:
                return

    def _fail(self, experiment: str, error: RlexpError) -> None:
        """Report an error and add it to the result; other experiments still continue."""
        self.observer.error(f"{experiment}: {error}")
        self.errors.append(
            ResumeError(
                experiment=experiment,
                code=error.code,
                message=str(error),
                key=error.key,
                allowed=error.allowed,
                command=error.command,
                exit_code=error.exit_code,
                parts_before=len(self.parts),
            )
        )

    def _survey(self, paths: ExperimentPaths) -> ExperimentScan:
        """Read an experiment, and note what differs from its ledger."""
        surveyed = survey(paths, brief=True)
        if surveyed.mismatch:
            self.problems.append(f"{paths.name}: {surveyed.mismatch}")
        return surveyed

    def _resume_if_unfinished(self, paths: ExperimentPaths) -> None:
        if is_held(paths.lock):
            left = LeftExperiment(experiment=paths.name, holder=holder(paths.lock))
            self.left.append(left)
            return
        surveyed = self._survey(paths)
        if surveyed.experiment is None:
            raise RecordError(str(surveyed.problem))
        if is_stream(paths):
            # Only its own command trains with the code of a candidate and scores the policies.
            return
        if _is_unfinished(surveyed, surveyed.experiment, read_last_command(surveyed), self):
            if command := gate_command(paths):
                left_gate = LeftGate(experiment=paths.name, command=shlex.join(command))
                self.gates.append(left_gate)
                return
            self._experiment(surveyed)

    def _experiment(self, surveyed: ExperimentScan) -> None:
        if surveyed.experiment is not None:
            refuse_imported(surveyed.experiment)
        recorded = read_last_command(surveyed)
        if surveyed.experiment is not None and surveyed.experiment.sweep is not None:
            self._sweep(surveyed, recorded)
            return
        self._phases(surveyed, recorded)
        if surveyed.paths.ablation.exists():
            name = surveyed.paths.name
            evidence = collect_evidence([name], Phase.TEST, self.workspace)
            if following := continued_ablation(evidence, self.workspace):
                self.ablations.append(replace(following, why=f"{following.why} {name}"))
        elif surveyed.paths.adaptive.exists():
            self.adaptive.append(surveyed.paths.name)

    def _run(self, paths: RunPaths) -> None:
        surveyed = self._survey(ExperimentPaths(paths.folder.parent))
        if surveyed.experiment is not None and surveyed.experiment.sweep is not None:
            whole = shlex.join(["rlexp", "resume", surveyed.paths.name, *self.overrides])
            raise RecordError(
                f"run {paths.folder.name} belongs to a sweep and cannot be continued alone, because "
                f"the sweep may prune it; continue the sweep: {whole}"
            )
        self._phases(surveyed, read_last_command(surveyed), read_spec(paths))

    def _phases(
        self, surveyed: ExperimentScan, recorded: LastCommand, only: RunSpec | None = None
    ) -> None:
        name = surveyed.paths.name if only is None else f"{surveyed.paths.name}/{only.name}"
        command = self._command(name)
        options = RunOptions(
            dry_run=self.options.dry_run,
            retry=self.options.retry,
            allow_drift=self.options.allow_drift,
            probe=self.options.probe,
        )
        unchanged: ExperimentScan | None = surveyed
        for request in phase_requests(
            surveyed, recorded, self.overrides, self.workspace, command, only
        ):
            part = run_missing(request, command, options, self.workspace, self.observer, unchanged)
            self._add(part)
            # Runs of a phase that were executed are no longer as they were read.
            if isinstance(part, RunOutcome) and part.ran:
                unchanged = None
            if self.interrupted:
                return

    def _sweep(self, surveyed: ExperimentScan, recorded: LastCommand) -> None:
        command = self._command(surveyed.paths.name)
        request, again, left_out = recorded_sweep(
            surveyed, recorded, self.overrides, self.workspace, command
        )
        if left_out:
            left = LeftWords(experiment=surveyed.paths.name, words=tuple(left_out))
            self.left_words.append(left)
        options = SweepOptions(
            dry_run=self.options.dry_run,
            retry=self.options.retry,
            allow_drift=self.options.allow_drift,
            probe=self.options.probe,
            until=_until(recorded),
        )
        self._add(run_sweep(request, again, options, self.workspace, self.observer))

    def _add(self, part: ResumedPart) -> None:
        self.parts.append(part)
        self.observer.finished(part)

    def _command(self, name: str) -> tuple[str, ...]:
        drift = ["--allow-drift"] if self.options.allow_drift else []
        return ("rlexp", "resume", name, *self.overrides, *drift, *self.workspace.permission)


def _until(recorded: LastCommand) -> SweepStage:
    """The stage after which the recorded command should stop."""
    word = recorded.settings.get("until")
    return SweepStage(word) if word in UNTIL else SweepStage.TEST


def _is_unfinished(
    surveyed: ExperimentScan,
    experiment: Experiment,
    recorded: LastCommand,
    resumption: _Resumption,
) -> bool:
    """Whether a run is missing, or a sweep has a decision to make."""
    retry = resumption.options.retry
    if experiment.imported is not None or is_ask_and_tell(experiment):
        return False
    if experiment.sweep is None:
        planned = [f.stored.record for f in surveyed.runs if f.planned and f.stored]
        return any(record.may_run(retry=retry) for record in planned)
    runs = [f.stored for f in surveyed.runs if f.stored is not None and not f.damaged]
    until, workspace = _until(recorded), resumption.workspace
    return has_work(
        take_up(
            surveyed.paths, experiment, runs, workspace, ReadOnlyLedger(), until=until, retry=retry
        )
    )
