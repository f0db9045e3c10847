"""`rlexp import`: imports results of other tools as records, all of them or none."""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from rlexp.app.importing.store import (
    Written,
    add_to_experiment,
    new_experiment,
    remove_leftovers,
)
from rlexp.app.reading.imported import read_imported_experiment
from rlexp.app.results import NextCommand, Schema
from rlexp.app.workspace import Workspace
from rlexp.conditions import read_conditions
from rlexp.config.third_party_yaml import read_third_party_yaml
from rlexp.config.yaml_text import known_reference
from rlexp.errors import ConfigError, did_you_mean
from rlexp.exchange.importers.budgets import SCORES, ImportedExperimentOptions
from rlexp.exchange.importers.csv_table import parse_columns
from rlexp.exchange.importers.imported_study import (
    ImportedStudy,
    ImportOptions,
    ReturnKind,
    StepUnit,
)
from rlexp.exchange.importers.imported_sweep import ImportedSweep, make_sweep_plan
from rlexp.exchange.importers.kinds import AUTO, KINDS, SERVER, kind_of
from rlexp.exchange.importers.name_patterns import parse_path_pattern
from rlexp.exchange.importers.optuna_store import read_optuna_server
from rlexp.exchange.importers.plan import ImportPlan, PlannedImportRun, make_import_plan
from rlexp.exchange.importers.source_files import find_source_files
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.store.files import probe_writable, read_file
from rlexp.store.layout import ExperimentPaths, check_name
from rlexp.store.secrets import MASK, mask_all
from rlexp.text import join_names

UNITS = ("environment", "frames", "updates")
RUN_KINDS = tuple(kind for kind in KINDS if kind != "optuna")
"""The kinds of source that hold runs; Optuna holds trials."""
KINDS_OF_OPTIONS: Mapping[str, Sequence[str]] = {
    "metric": ("tensorboard", "mlflow", "marl-eval", "optuna"),
    "returns": ("tensorboard", "mlflow", "marl-eval", "csv", "ray"),
    "mlflow_experiment": ("mlflow",),
    "study": ("optuna",),
    "path": RUN_KINDS,
    "label_from": RUN_KINDS,
    "task_from": RUN_KINDS,
    "seed_from": RUN_KINDS,
    "where": RUN_KINDS,
    "column": ("csv", "ray"),
}
"""The kinds of source that accept an option, for options that only some kinds accept."""
DATABASES = ("postgresql", "mysql")
"""Beginnings of the URL of a database server with studies of Optuna."""
SERVERS = ("http://", "https://")
"""Beginnings of the address of an MLflow server."""
RETURNS = {"evaluations": ReturnKind.EVALUATIONS, "training": ReturnKind.TRAINING}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRequest:
    """The source to import, and the options as typed.

    Attributes:
        kind: The kind of the source (`csv`, `mlflow` …), or `auto`.
        paths: Files, folders or archives, or the address of an MLflow server.
        experiment: The name of the experiment that gets the runs.
        label: The label of the runs; None takes it from the source.
        task: The task of the runs; None takes it from the source.
        seed: The seed of the first run, for a source that names no seeds.
        steps: The budget in environment steps; later points are left out.
        steps_unit: The unit of a step in the source: `environment`, `frames` or `updates`.
        frame_skip: Frames per environment step.
        steps_per_update: Environment steps per update.
        score: The score of a run: `final`, `auc` or `last_window`.
        metric: The series to import, for a source with several.
        returns: The origin of the returns, `evaluations` or `training`, for a source that does not
            record it.
        mlflow_experiment: The experiment of MLflow, for a store with several.
        study: The study of Optuna, for a store with several.
        path: The pattern of the paths of runs (`{label}/seed_{seed}`).
        label_from: Parameters whose values become part of the label.
        task_from: The parameter that names the task.
        seed_from: The parameter that is the seed.
        where: The conditions that a run must satisfy (`lr=0.001`).
        column: The column of each field that has another name (`step=timesteps_total`).
        dry_run: Whether to write nothing.
    """

    kind: str
    paths: tuple[str, ...]
    experiment: str
    label: str | None = None
    task: str | None = None
    seed: int | None = None
    steps: int | None = None
    steps_unit: str | None = None
    frame_skip: int | None = None
    steps_per_update: int | None = None
    score: str | None = None
    metric: str | None = None
    returns: str | None = None
    mlflow_experiment: str | None = None
    study: str | None = None
    path: str | None = None
    label_from: tuple[str, ...] = ()
    task_from: str | None = None
    seed_from: str | None = None
    where: tuple[str, ...] = ()
    column: tuple[str, ...] = ()
    dry_run: bool = False

    def command(self) -> list[str]:
        """The command that requests this import, without `--dry-run`."""
        options = {
            "experiment": self.experiment,
            "label": self.label,
            "task": self.task,
            "seed": self.seed,
            "steps": self.steps,
            "steps-unit": self.steps_unit,
            "frame-skip": self.frame_skip,
            "steps-per-update": self.steps_per_update,
            "score": self.score,
            "metric": self.metric,
            "returns": self.returns,
            "mlflow-experiment": self.mlflow_experiment,
            "study": self.study,
            "path": self.path,
            "task-from": self.task_from,
            "seed-from": self.seed_from,
        }
        repeated = {"label-from": self.label_from, "where": self.where, "column": self.column}
        given = [[f"--{key}", str(value)] for key, value in options.items() if value is not None]
        given += [[f"--{key}", value] for key, values in repeated.items() for value in values]
        paths = map(_without_password, self.paths)
        return ["rlexp", "import", self.kind, *paths, *(w for pair in given for w in pair)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedGroup:
    """The imported runs of one label on one task.

    Attributes:
        label: The label.
        task: The task.
        runs: Number of runs in the source.
        completed: Number of these runs that have a score.
        seeds: Their seeds, in ascending order.
        steps: The budget in environment steps.
        score: The rule that gives a run's score: `final`, `auc` or `last_window`.
        returns: The origin of the returns (`evaluations`, `training episodes` …).
    """

    label: str
    task: str
    runs: int
    completed: int
    seeds: tuple[int, ...]
    steps: int
    score: str
    returns: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRunRow:
    """One run of the source.

    Attributes:
        run: Its name in the experiment.
        name: Its name in the source.
        label: Its label.
        task: Its task.
        seed: Its seed.
        seed_known: Whether the source names the seed; otherwise rlexp numbered the run.
        step: Environment steps that it reached.
        points: Number of points of its curve, including a final evaluation if the score needs one.
        beyond_budget: Number of points beyond the budget, which were left out.
        state: `completed`, or the state in which it ended.
        failure: The kind of its failure; null if it did not fail.
        reason: Why it has no score; null if it has one.
    """

    run: str
    name: str
    label: str
    task: str
    seed: int
    seed_known: bool
    step: int
    points: int
    beyond_budget: int
    state: str
    failure: str | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferentParameters:
    """Parameters that differ between runs of the same label and task.

    Attributes:
        label: The label.
        task: The task.
        parameters: The names of the parameters.
    """

    label: str
    task: str
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedSearch:
    """A search of another tool, imported as a sweep to look at.

    Attributes:
        study: The name of the study.
        metric: The objective whose values were imported.
        other_objectives: The names of its other objectives; an import holds one objective.
        direction: `maximize` or `minimize`.
        trials: Number of trials by state (`complete`, `pruned`, `failed`).
        best: The number of the best trial in the study; null if none is complete.
        value: Its value. It is the best of single values, and no test score.
        parameters: Its parameters.
    """

    study: str
    metric: str
    other_objectives: tuple[str, ...]
    direction: str
    trials: Mapping[str, int]
    best: int | None
    value: float | None
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOutcome:
    """Results of another tool, imported as runs of an experiment.

    Attributes:
        experiment: The name of the experiment.
        kind: The kind of the source.
        folder: The folder of the records; with `dry_run`, it may not exist.
        dry_run: Whether nothing was written.
        new: Names of the new runs.
        there: Names of runs that were imported before with the same content.
        groups: The runs by label and task.
        runs: Every run of the source.
        left_out: Parts of the source that were not imported.
        differing: Labels whose runs differ in parameters of the source.
        search: The imported search; null for runs.
        next: Suggested next commands.
    """

    schema: ClassVar[Schema] = Schema("import-outcome")

    experiment: str
    kind: str
    folder: Path
    dry_run: bool
    new: tuple[str, ...]
    there: tuple[str, ...]
    groups: tuple[ImportedGroup, ...]
    runs: tuple[ImportedRunRow, ...]
    left_out: tuple[str, ...]
    differing: tuple[DifferentParameters, ...]
    search: ImportedSearch | None
    next: tuple[NextCommand, ...]


def import_results(request: ImportRequest, workspace: Workspace) -> ImportOutcome:
    """Import results of another tool.

    Raises:
        RlexpError: The source cannot be read, or an option contradicts the source or the existing
            experiment; nothing was imported.
    """
    source, target = _source_options(request), _target_options(request)
    _check_names(request, source)
    paths = workspace.layout.experiment(target.name)
    # Reading a large source may take minutes, so an unwritable folder is reported first.
    if not request.dry_run:
        probe_writable(workspace.layout.root)
    there = read_imported_experiment(paths)
    read = _read(request, source, workspace)
    settled = _settled(read, target, there, workspace)
    command = request.command()
    if not request.dry_run:
        remove_leftovers(workspace.layout.root)
    if there is None:
        written = new_experiment(workspace.layout, settled, command, source, dry=request.dry_run)
    else:
        written = add_to_experiment(there, paths, settled, command, source, dry=request.dry_run)
    return _outcome(request, read, settled, written, paths)


def _settled(
    read: ImportedStudy | ImportedSweep,
    target: ImportedExperimentOptions,
    there: Experiment | None,
    workspace: Workspace,
) -> ImportPlan:
    if isinstance(read, ImportedSweep):
        return make_sweep_plan(_without_secret_parameters(read), target, there)
    if there is not None and there.sweep is not None:
        raise ConfigError(
            f"experiment {target.name} holds an imported search: choose another name with "
            "--experiment"
        )
    return make_import_plan(
        _without_secrets(read), target, there, lambda task: known_reference(task, workspace.folder)
    )


def _outcome(
    request: ImportRequest,
    read: ImportedStudy | ImportedSweep,
    settled: ImportPlan,
    written: Written,
    paths: ExperimentPaths,
) -> ImportOutcome:
    name = settled.experiment.name
    report = NextCommand(why="write the report", command=shlex.join(["rlexp", "report", name]))
    return ImportOutcome(
        experiment=name,
        kind=read.kind,
        folder=paths.folder,
        dry_run=request.dry_run,
        new=written.new,
        there=written.there,
        groups=tuple(_groups(settled)),
        runs=tuple(_run_row(run) for run in settled.runs),
        left_out=read.left_out,
        differing=tuple(_differing(settled.runs)),
        search=_search(read) if isinstance(read, ImportedSweep) else None,
        next=() if request.dry_run else (report,),
    )


def _search(read: ImportedSweep) -> ImportedSearch:
    best = read.best
    return ImportedSearch(
        study=read.name,
        metric=read.metric,
        other_objectives=read.other_objectives,
        direction="minimize" if read.minimised else "maximize",
        trials=dict(Counter(trial.state for trial in read.trials)),
        best=None if best is None else best.number,
        value=None if best is None else best.value,
        parameters={} if best is None else mask_all(best.parameters),
    )


def _groups(settled: ImportPlan) -> Iterator[ImportedGroup]:
    if settled.trials:
        # Every trial is a configuration, and a row for each would be the list of all trials.
        configuration = settled.runs[0].configuration
        group, study = _group(configuration, settled.runs), configuration.algorithm["name"]
        yield replace(group, label=study, seeds=())
        return
    for configuration in settled.experiment.configurations:
        runs = [run for run in settled.runs if run.configuration is configuration]
        if runs:
            yield _group(configuration, runs)


def _group(configuration: Configuration, runs: Sequence[PlannedImportRun]) -> ImportedGroup:
    return ImportedGroup(
        label=configuration.label,
        task=configuration.task,
        runs=len(runs),
        completed=sum(run.trouble is None for run in runs),
        seeds=tuple(sorted(run.spec.seed for run in runs)),
        steps=configuration.budget.steps,
        score=configuration.budget.score,
        returns=configuration.algorithm["imported"]["returns"],
    )


def _run_row(run: PlannedImportRun) -> ImportedRunRow:
    trouble = run.trouble
    return ImportedRunRow(
        run=run.spec.name,
        name=run.source.name,
        label=run.configuration.label,
        task=run.configuration.task,
        seed=run.spec.seed,
        seed_known=not run.numbered,
        step=run.step,
        points=len(run.points),
        beyond_budget=run.cut,
        state=str(trouble.ending) if trouble else "completed",
        failure=str(trouble.failure) if trouble and trouble.failure else None,
        reason=trouble.reason if trouble else None,
    )


def _differing(runs: Sequence[PlannedImportRun]) -> Iterator[DifferentParameters]:
    """Parameters that differ between runs of the same label and task."""
    groups: dict[tuple[str, str], list[Mapping[str, str]]] = {}
    for run in runs:
        parameters = run.source.details.get("told")
        if isinstance(parameters, dict):
            cell = (run.configuration.label, run.configuration.task)
            groups.setdefault(cell, []).append(parameters)
    for (label, task), group in groups.items():
        # Seeds differ by design, and parameters of MLflow itself describe no training.
        names = [k for k in group[0] if not k.startswith("mlflow.") and "seed" not in k.lower()]
        differing = [k for k in names if len({parameters.get(k) for parameters in group}) > 1]
        if differing:
            yield DifferentParameters(label=label, task=task, parameters=tuple(differing))


def _read(
    request: ImportRequest, source: ImportOptions, workspace: Workspace
) -> ImportedStudy | ImportedSweep:
    addresses = [path for path in request.paths if SERVER in path]
    if addresses:
        return _read_address(request, source, workspace)
    paths = [workspace.folder / path for path in request.paths]
    with TemporaryDirectory(prefix="rlexp-import-") as temporary:
        files = find_source_files(paths, read_file, Path(temporary))
        kind = kind_of(
            request.kind, files, read_third_party_yaml, has_columns=bool(request.column)
        )
        _check_options(request, kind.name)
        return kind.read(files, source)


def _read_address(
    request: ImportRequest, source: ImportOptions, workspace: Workspace
) -> ImportedStudy | ImportedSweep:
    if len(request.paths) != 1 or request.kind not in {"mlflow", "optuna", AUTO}:
        raise ConfigError(
            "an address must be the only source, and of kind mlflow or optuna: rlexp import mlflow "
            "ADDRESS"
        )
    address = request.paths[0]
    if address.lower().startswith(DATABASES):
        if request.kind == "mlflow":
            raise ConfigError(
                f"{_without_password(address)} is not the address of an MLflow server, which begins "
                f"with {' or '.join(SERVERS)}: start 'mlflow server' on the database, and give its "
                "address"
            )
        _check_options(request, "optuna")
        return read_optuna_server(address, source)
    file = address.removeprefix("sqlite:///")
    if file != address:
        return _read(replace(request, paths=(file,)), source, workspace)
    # MLflow could open other addresses, too, but it would create its tables in such a database.
    if not address.lower().startswith(SERVERS):
        raise ConfigError(
            f"{_without_password(address)} is not the address of an MLflow server, which begins with "
            f"{' or '.join(SERVERS)}; for a store in an SQLite file, give the path of the file"
        )
    from rlexp.exchange.importers.mlflow_store import read_mlflow_server

    return read_mlflow_server(address, source)


def _without_password(path: str) -> str:
    """An address without what could be a password; a path as it is."""
    if SERVER not in path:
        return path
    scheme, _, rest = path.partition(SERVER)
    user, at, address = rest.rpartition("@")
    name = f"{user.partition(':')[0]}:{MASK}" if ":" in user else user
    # Options of a database URL may hold a password, too.
    return f"{scheme}{SERVER}{name}{at}{address.partition('?')[0] if at else address}"


def _without_secret_parameters(read: ImportedSweep) -> ImportedSweep:
    trials = [replace(trial, parameters=mask_all(trial.parameters)) for trial in read.trials]
    return replace(read, trials=tuple(trials))


def _without_secrets(read: ImportedStudy) -> ImportedStudy:
    """The study with secrets in settings and parameters masked."""
    runs = [
        replace(run, settings=mask_all(run.settings), details=mask_all(run.details))
        for run in read.runs
    ]
    return replace(read, runs=tuple(runs))


def _target_options(request: ImportRequest) -> ImportedExperimentOptions:
    _check_word("score", request.score, SCORES)
    return ImportedExperimentOptions(
        name=check_name(request.experiment),
        steps=request.steps,
        score=request.score,
        seed=request.seed,
    )


def _source_options(request: ImportRequest) -> ImportOptions:
    _check_word("kind", request.kind, (*KINDS, AUTO))
    _check_word("steps-unit", request.steps_unit, UNITS)
    _check_word("returns", request.returns, tuple(RETURNS))
    for option, word in (("label", request.label), ("task", request.task)):
        if word is not None and (not word.strip() or not word.isprintable() or len(word) > 120):
            raise ConfigError(
                f"--{option} {word!r} is not allowed: use 1 to 120 printable characters"
            )
    return ImportOptions(
        label=request.label and request.label.strip(),
        task=request.task and request.task.strip(),
        seed=request.seed,
        unit=_unit(request),
        metric=request.metric,
        returns=RETURNS.get(request.returns or ""),
        collection=request.mlflow_experiment or request.study,
        path=None if request.path is None else parse_path_pattern(request.path),
        label_from=request.label_from,
        task_from=request.task_from,
        seed_from=request.seed_from,
        where=tuple(read_conditions(request.where)),
        columns=parse_columns(request.column),
    )


def _check_names(request: ImportRequest, source: ImportOptions) -> None:
    """Refuse two options that name the same fact of a run.

    Raises:
        ConfigError: Two options name the label, the task or the seed.
    """
    in_path = source.path.text if source.path is not None else ""
    for fact in ("label", "task", "seed"):
        placeholder = f"{{{fact}}}" in in_path
        value = getattr(request, fact)
        from_one = getattr(request, f"{fact}_from") if fact != "label" else None
        ways = {
            f"--{fact}": value is not None,
            f"--path with {{{fact}}}": placeholder,
            f"--{fact}-from": from_one is not None,
        }
        named_by = [way for way, is_given in ways.items() if is_given]
        if len(named_by) > 1:
            raise ConfigError(f"{join_names(named_by)} both name the {fact}: give one of them")


def _check_options(request: ImportRequest, kind: str) -> None:
    """Refuse options that this kind of source does not accept.

    Raises:
        ConfigError: An option is for other kinds.
    """
    for option, kinds in KINDS_OF_OPTIONS.items():
        if getattr(request, option) not in {None, ()} and kind not in kinds:
            word = option.replace("_", "-")
            raise ConfigError(
                f"--{word} is for {', '.join(kinds)}, and the source is {kind}: leave it out"
            )


def _check_word(option: str, word: str | None, allowed: Sequence[str]) -> None:
    if word is not None and word not in allowed:
        raise ConfigError(
            f"--{option} {word!r} is unknown{did_you_mean(word, allowed)} "
            f"(there are: {', '.join(allowed)})"
        )


def _unit(request: ImportRequest) -> StepUnit | None:
    """The unit of a step.

    Raises:
        ConfigError: An option belongs to another unit, or the unit needs an option.
    """
    needed = {"frames": ("frame-skip", request.frame_skip)}
    needed["updates"] = ("steps-per-update", request.steps_per_update)
    for unit, (option, value) in needed.items():
        if value is not None and request.steps_unit != unit:
            raise ConfigError(f"--{option} needs --steps-unit {unit}")
        if value is None and request.steps_unit == unit:
            raise ConfigError(f"--steps-unit {unit} needs --{option} N")
    match request.steps_unit:
        case None:
            return None
        case "frames":
            return StepUnit(name="frames", per=request.frame_skip or 1)
        case "updates":
            return StepUnit(name="updates", steps=request.steps_per_update or 1)
        case _:
            return StepUnit(name="environment")
