"""`rlexp extend`: trains finished runs further, as an experiment that knows its parent."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from rlexp.app.commands.train.recorded_requests import (
    check_overrides,
    execution_settings,
    readable_experiment,
)
from rlexp.app.commands.train.run import RunOptions, RunOutcome, run_missing
from rlexp.app.data_frames import data_frame
from rlexp.app.execution.checkpoints import drift_command
from rlexp.app.execution.checks.import_permission import check_imports
from rlexp.app.execution.extension import (
    FinishedRun,
    LongerConfiguration,
    check_replay,
    lengthen,
    parent_experiment,
    parent_of,
)
from rlexp.app.observer import Observer
from rlexp.app.plans import RunPlan
from rlexp.app.reading.experiment_scan import ExperimentScan, survey
from rlexp.app.reading.imported import refuse_imported
from rlexp.app.reading.older_schema import refuse_older
from rlexp.app.reading.provenance import read_last_command
from rlexp.app.reading.run_rows import (
    RUN_COLUMNS,
    Scores,
    run_rows,
    runs_of_summaries,
    scores_of_summaries,
)
from rlexp.app.reading.summary import PhaseSummary
from rlexp.app.results import Displayed, Schema
from rlexp.app.workspace import Workspace
from rlexp.config.overrides import parse_overrides
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.experiment import Experiment, Extension
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import Parent, RunSpec
from rlexp.store.former_names import find_renamed, names_of
from rlexp.store.layout import ExperimentPaths, RunPaths, check_name
from rlexp.store.runs import read_definition
from rlexp.store.secrets import MASK

if TYPE_CHECKING:
    from pandas import DataFrame


STEPS, NAME = "budget.steps", "experiment"
"""The overrides that only this command takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendOptions(RunOptions):
    """Options of `rlexp extend` other than overrides.

    Attributes:
        restart_schedules: Whether schedules begin again where the extension begins.
    """

    restart_schedules: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendOutcome(Displayed):
    """The state of an extension after a command.

    Attributes:
        experiment: The name of the extension.
        parent: The present name of the experiment whose runs it continues.
        steps: Environment steps of an extended run, from step 0.
        begins: The step from which each run continues its parent, by the run's name.
        restarted: The settings whose schedules began again.
        parts: The result for each phase; with `--dry-run`, the plan.
        interrupted: The signal that ended the command (`SIGINT`); null if none did.
    """

    schema: ClassVar[Schema] = Schema("extend-outcome")

    experiment: str
    parent: str
    steps: int
    begins: Mapping[str, int]
    restarted: tuple[str, ...]
    parts: tuple[RunOutcome | RunPlan, ...]
    interrupted: str | None

    @property
    def scores(self) -> Scores:
        """Scores by label and seed: of the test phase, or else of the first phase."""
        return scores_of_summaries(self._summaries)

    def to_pandas(self) -> "DataFrame":
        """A data frame with a row for each planned run of all phases; empty for a plan.

        Raises:
            ConfigError: pandas is not installed.
        """
        return data_frame(run_rows(runs_of_summaries(self._summaries)), RUN_COLUMNS)

    @property
    def _summaries(self) -> list[PhaseSummary]:
        return [part.summary for part in self.parts if isinstance(part, RunOutcome)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """The arguments of one command.

    Attributes:
        target: The experiment or the run, as typed.
        steps: Environment steps of an extended run.
        name: The name of the extension; None derives it.
        others: Overrides that change no number.
        options: Further options.
        workspace: The workspace.
        command: The command as the user typed it.
    """

    target: str
    steps: int
    name: str | None
    others: tuple[str, ...]
    options: ExtendOptions
    workspace: Workspace
    command: tuple[str, ...]

    @property
    def with_drift(self) -> str:
        """The command that allows other versions of packages or code."""
        return drift_command(self.command, self.workspace)


def extend(
    target: str,
    overrides: Sequence[str],
    options: ExtendOptions,
    workspace: Workspace,
    observer: Observer,
) -> ExtendOutcome:
    """Train finished runs further, in an experiment of their own.

    Args:
        target: An experiment, or one run of it.
        overrides: `budget.steps`, the new length of a run; `experiment`, the name of the extension;
            and overrides of executor, trackers and checkpoints.
        options: Further options.
        workspace: The workspace of the experiments.
        observer: Receives the plan and the progress of the runs.

    Raises:
        RlexpError: The runs cannot be extended, or an override is wrong; nothing was started.
    """
    workspace.make_allowed_importable()
    request = _read_request(target, overrides, options, workspace)
    orphan = _orphan(request)
    scan, only = _scan(request) if orphan is None else (survey(orphan), None)
    experiment = readable_experiment(scan)
    _refuse_others(experiment)
    check_imports(experiment.configurations, workspace.allowed, request.command)
    if orphan is None:
        extension = _Extending(request, scan, experiment, only).extension()
    else:
        # Its runs have taken over what they need from their parents.
        extension = _Extended.of(experiment, ())
    settings = execution_settings(
        extension.experiment, read_last_command(scan), request.others, workspace
    )
    parts: list[RunOutcome | RunPlan] = []
    for phase in extension.phases:
        run_request = settings.request(extension.experiment, phase)
        part = run_missing(run_request, request.command, options, workspace, observer)
        parts.append(part)
        if isinstance(part, RunOutcome) and part.interrupted:
            break
    return ExtendOutcome(
        experiment=extension.experiment.name,
        parent=extension.parent_in(workspace),
        steps=request.steps,
        begins=extension.begins,
        restarted=extension.restarted,
        parts=tuple(parts),
        interrupted=next(
            (p.interrupted for p in parts if isinstance(p, RunOutcome) and p.interrupted), None
        ),
    )


def _read_request(
    target: str, overrides: Sequence[str], options: ExtendOptions, workspace: Workspace
) -> _Request:
    """Parse the overrides.

    Raises:
        ConfigError: An override is wrong, or `budget.steps` is missing.
    """
    keys = check_overrides(overrides, STEPS, NAME, command="rlexp extend")
    flags = ["--restart-schedules"] if options.restart_schedules else []
    # The last of several equal keys wins, as Hydra has it.
    given = dict(zip(keys, parse_overrides(overrides), strict=True))
    if STEPS not in given:
        raise ConfigError(
            f"{STEPS} is missing: say how many environment steps the runs should have, from step 0: "
            f"{shlex.join(['rlexp', 'extend', target, *overrides, f'{STEPS}=200000'])}",
            key=STEPS,
        )
    name = _value(given[NAME]) if NAME in given else None
    if name is not None:
        check_name(str(name))
    others = [w for w, key in zip(overrides, keys, strict=True) if key not in {STEPS, NAME}]
    return _Request(
        target=target,
        steps=_whole_number(_value(given[STEPS])),
        name=None if name is None else str(name),
        others=tuple(others),
        options=options,
        workspace=workspace,
        command=("rlexp", "extend", target, *overrides, *flags),
    )


def _value(parsed: Any) -> Any:
    if parsed.is_sweep_override() or parsed.is_delete():
        raise ConfigError(f"{parsed.input_line}: give one value, as {parsed.key_or_group}=VALUE")
    return parsed.value()


def _whole_number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        raise ConfigError(f"{STEPS}={value} is no whole number of environment steps", key=STEPS)
    if value < 1:
        raise ConfigError(f"{STEPS}={value} must be 1 or more", key=STEPS)
    return int(value)


def _orphan(request: _Request) -> ExperimentPaths | None:
    """The extension that the command made before, if the experiment of its parents is gone."""
    layout = request.workspace.layout
    parent = request.target.rstrip("/").removeprefix("./").removeprefix("runs/").partition("/")[0]
    names = {experiment.name for experiment in layout.experiments()}
    name = request.name or extension_name(parent, request.steps)
    if parent in names or name not in names:
        return None
    paths = layout.experiment(name)
    existing = read_definition(paths)
    if existing.extends is None or existing.extends.experiment != parent:
        return None
    if find_renamed(layout, parent).definition.exists():
        return None
    steps = {configuration.budget.steps for configuration in existing.configurations}
    if steps != {request.steps}:
        command = shlex.join(["rlexp", "extend", name, f"{STEPS}={request.steps}"])
        raise ConfigError(
            f"{name} extends {parent} to {max(steps):,} steps, and {parent} is gone: extend {name} "
            f"itself: {command}",
            key=STEPS,
        )
    return paths


def extension_name(parent: str, steps: int) -> str:
    """The name of an extension for which no name is given."""
    return f"{parent}-{steps}"


def _scan(request: _Request) -> tuple[ExperimentScan, str | None]:
    """Read the experiment of the target; also returns the id of the only run, if it names one."""
    match = request.workspace.find(request.target)
    if not isinstance(match, RunPaths):
        return survey(match), None
    scan = survey(ExperimentPaths(match.folder.parent))
    named = next(run for run in scan.runs if run.name == match.folder.name)
    if named.stored is None or not named.planned:
        raise RecordError(
            f"run {request.target} cannot be extended: {named.problem or 'it cannot be read'}"
        )
    return scan, named.stored.record.spec.id


def _refuse_others(experiment: Experiment) -> None:
    """Refuse experiments whose runs cannot be extended.

    Raises:
        RecordError: The experiment was imported, is a sweep, is of an older schema, or consists of
            training scripts.
    """
    refuse_imported(experiment)
    refuse_older(experiment)
    name = experiment.name
    if experiment.sweep is not None:
        command = shlex.join(["rlexp", "run", "--from-sweep", name])
        raise RecordError(
            f"{name} is a sweep, whose runs were budgeted for a choice: train what it selected in "
            f"an experiment of its own with '{command}', and extend that",
            command=command,
        )
    if any(c.spec(Phase.TEST, 0, 0).external for c in experiment.configurations):
        raise RecordError(
            f"runs of {name} are trained by a script, whose state rlexp does not have: start a "
            "fresh run with more steps"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Extended:
    """An extension that is ready to run.

    Attributes:
        experiment: Its definition, with the parents of all runs.
        phases: The phases of its runs.
        begins: The step from which each run continues, by the run's name.
        restarted: The settings whose schedules begin again.
    """

    experiment: Experiment
    phases: tuple[Phase, ...]
    begins: Mapping[str, int]
    restarted: tuple[str, ...]

    @classmethod
    def of(cls, experiment: Experiment, restarted: Iterable[str]) -> Self:
        """The extension with this definition.

        Args:
            experiment: The definition, with the parents of all runs.
            restarted: The settings whose schedules begin again.
        """
        specs = [spec for phase in Phase for _, spec in experiment.specs(phase)]
        present = {spec.phase for spec in specs}
        return cls(
            experiment=experiment,
            phases=tuple(phase for phase in Phase if phase in present),
            begins={s.name: s.parent.step for s in specs if s.parent is not None},
            restarted=tuple(dict.fromkeys(restarted)),
        )

    def parent_in(self, workspace: Workspace) -> str:
        """The present name of the experiment whose runs are continued."""
        assert self.experiment.extends is not None
        paths = workspace.layout.experiment(self.experiment.name)
        return parent_experiment(paths, self.experiment.extends).name


@dataclass(frozen=True, slots=True)
class _Extending:
    """Makes the extension of the finished runs of one experiment."""

    request: _Request
    scan: ExperimentScan
    parent: Experiment
    only: str | None

    def extension(self) -> _Extended:
        """The extension of the chosen runs.

        Raises:
            RlexpError: A run cannot be extended; the message says why.
        """
        chosen = list(self._chosen())
        if not chosen:
            raise RecordError(
                f"{self.parent.name} has no runs: start them with 'rlexp resume {self.parent.name}'"
            )
        longer = self._longer_configurations(chosen)
        parents = self._known_parents()
        new: list[tuple[LongerConfiguration, RunSpec]] = []
        for run in chosen:
            spec = run.record.spec
            changed = longer[spec.fingerprint]
            fresh = changed.after.spec(spec.phase, spec.root, spec.seed)
            if fresh.id not in parents:
                parents[fresh.id] = self._parent(run)
                new.append((changed, spec))
        seeds = [spec.streams.training(0) for _, spec in new]
        check_replay(
            [changed.before for changed, _ in new], seeds, self.request.workspace, self._fresh
        )
        return self._extended([*longer.values()], parents)

    def _chosen(self) -> Iterator[FinishedRun]:
        """The runs that the target names.

        Raises:
            RecordError: The records of one of them are damaged.
        """
        for run in self.scan.runs:
            if not run.planned or run.stored is None:
                continue
            record = run.stored.record
            if self.only not in {None, record.spec.id}:
                continue
            if run.damaged:
                raise RecordError(
                    f"run {run.name} of {self.parent.name} is damaged: {run.problem}; extend other "
                    f"runs one by one as {self.parent.name}/RUN"
                )
            yield FinishedRun(paths=run.stored.paths, record=record)

    def _longer_configurations(
        self, chosen: Sequence[FinishedRun]
    ) -> dict[str, LongerConfiguration]:
        """The configurations with more steps, by their fingerprints before."""
        used = {run.record.spec.fingerprint for run in chosen}
        options, workspace = self.request.options, self.request.workspace
        longer = {
            c.fingerprint: lengthen(
                c,
                self.request.steps,
                workspace,
                restart=options.restart_schedules,
                fresh=self._fresh,
            )
            for c in self.parent.configurations
            if self.only is None or c.fingerprint in used
        }
        if options.restart_schedules and not any(c.restarted for c in longer.values()):
            raise ConfigError(
                f"--restart-schedules: nothing in {self.parent.name} depends on the length of "
                "training; leave it out"
            )
        return longer

    @property
    def _name(self) -> str:
        """The name of the extension."""
        if self.request.name is not None:
            return self.request.name
        # An extension keeps its name when its parent is renamed: another name would be trained anew.
        names = names_of(self.scan.paths)
        for former in reversed(names[:-1]):
            name = extension_name(former, self.request.steps)
            paths = self.request.workspace.layout.experiment(name)
            existing = read_definition(paths).extends if paths.definition.exists() else None
            if existing is not None and existing.experiment in names:
                return name
        return check_name(extension_name(self.parent.name, self.request.steps))

    def _known_parents(self) -> dict[str, Parent]:
        """The parents in the definition of an existing extension of this name."""
        paths = self.request.workspace.layout.experiment(self._name)
        if not paths.definition.exists():
            return {}
        existing = read_definition(paths).extends
        is_same = existing is not None and existing.experiment == self._parent_name
        return dict(existing.parents) if existing is not None and is_same else {}

    @property
    def _parent_name(self) -> str:
        """The name of the parent; an existing extension keeps the one that it was made with."""
        paths = self.request.workspace.layout.experiment(self._name)
        existing = read_definition(paths).extends if paths.definition.exists() else None
        if existing is not None and existing.experiment in names_of(self.scan.paths):
            return existing.experiment
        return self.parent.name

    def _parent(self, run: FinishedRun) -> Parent:
        return parent_of(
            run,
            self.request.steps,
            allow_drift=self.request.options.allow_drift,
            drift_command=self.request.with_drift,
            fresh=self._fresh,
        )

    @property
    def _fresh(self) -> str:
        """How to start a fresh run of the requested length, with the command if it is recorded."""
        recorded = read_last_command(self.scan).command
        if recorded[:2] != ("rlexp", "run") or any(MASK in word for word in recorded):
            return f"start a fresh run with budget.steps={self.request.steps}"
        replaced = (f"{STEPS}=", f"{NAME}=")
        kept = [word for word in recorded if not word.startswith(replaced)]
        given = [f"{STEPS}={self.request.steps}", f"{NAME}={self._name}"]
        given += self.request.workspace.permission
        return f"start a fresh run: {shlex.join([*kept, *given])}"

    def _extended(
        self, longer: Sequence[LongerConfiguration], parents: Mapping[str, Parent]
    ) -> _Extended:
        experiment = replace(
            self.parent,
            name=self._name,
            configurations=tuple(c.after for c in longer),
            allotted={},
            extends=Extension(experiment=self._parent_name, parents=parents),
        )
        return _Extended.of(experiment, (key for c in longer for key in c.restarted))
