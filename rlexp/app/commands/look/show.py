"""`rlexp show`: reads an experiment or a run, its configuration, or its provenance."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from os import environ
from typing import TYPE_CHECKING, Any, ClassVar

from rlexp.app.commands.order.note import NumberedNote, numbered
from rlexp.app.data_frames import data_frame
from rlexp.app.reading.experiment_scan import (
    ExperimentScan,
    configuration_of,
    read_now,
    run_mismatch,
    survey,
)
from rlexp.app.reading.headline_aggregate import read_headline_aggregate
from rlexp.app.reading.imported import describe_source, imported_counts
from rlexp.app.reading.run_rows import (
    RUN_COLUMNS,
    Scores,
    run_rows,
    runs_of_summaries,
    scores_of_summaries,
)
from rlexp.app.reading.summary import (
    AttemptRow,
    CheckpointCost,
    PhaseSummary,
    RunRow,
    checkpoint_cost,
    describe_attempts,
    describe_run,
    summarise,
)
from rlexp.app.reporting.experiment_commands import experiment_commands, scanned_state
from rlexp.app.reporting.next_commands import card_and_sequential
from rlexp.app.results import Displayed, NextCommand, Schema
from rlexp.app.sweeps.sweep_status import sweep_status
from rlexp.app.workspace import Workspace
from rlexp.engine.sweep_view import SweepStatus
from rlexp.errors import RecordError
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.measures import RETURN
from rlexp.protocol.origin import Origin
from rlexp.protocol.seeds import Phase
from rlexp.records.context_returns import worst_context
from rlexp.records.events import Evaluated, Examined, Inherited
from rlexp.records.run import LARGEST_SCORE, RunRecord, State
from rlexp.records.system_metrics import SystemUsage, summarise_usage
from rlexp.reports.drawing.blocks import SummaryCard
from rlexp.store.annotations import read_readable_annotations
from rlexp.store.files import read_json
from rlexp.store.former_names import find_renamed, names_of
from rlexp.store.layout import ExperimentPaths, Layout, RunPaths
from rlexp.store.runs import read_attempts, read_definition, read_spec
from rlexp.store.secrets import mask_all, secret_values
from rlexp.store.system_metrics import read_all_measurements

if TYPE_CHECKING:
    from pandas import DataFrame


RUN_OF_EVALUATIONS = ("experiment", "run", "label", "task", "phase", "seed")
"""The columns that name the run, in a data frame of its evaluations."""
EVALUATION = "evaluation"
"""The distribution of the final evaluation, which gives the score."""


class ShowPart(StrEnum):
    """The part of an experiment or a run to show."""

    RESULT = "result"
    CONFIG = "config"
    PROVENANCE = "provenance"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentDetails(Displayed):
    """The scores and the progress of an experiment.

    Attributes:
        experiment: The name of the experiment.
        folder: The folder of its records.
        phases: The scores of every phase that has runs; for a sweep, only the test phase.
        sweep: The progress of its sweep; null for an experiment that is not a sweep.
        sweep_problem: Why the progress of its sweep cannot be computed; null if it can.
        imported: Number of imported runs, by their source and the kind of their returns.
        origin: The trial of a sweep from which it was made; null if it was made from overrides.
        problems: Problems of its folder.
        tags: Its tags.
        notes: Its notes, oldest first.
        former_names: The names that it had before `rlexp mv`, oldest first.
        card: The answer, the cost and what is missing, as in its report; null where a report cannot
            be made.
        next: Suggested next commands.
    """

    schema: ClassVar[Schema] = Schema("experiment-details")

    experiment: str
    folder: str
    phases: tuple[PhaseSummary, ...]
    sweep: SweepStatus | None
    sweep_problem: str | None
    imported: Mapping[str, int]
    origin: Origin | None
    problems: tuple[str, ...]
    tags: tuple[str, ...] = ()
    notes: tuple[NumberedNote, ...] = ()
    former_names: tuple[str, ...] = ()
    card: SummaryCard | None = None
    next: tuple[NextCommand, ...] = ()

    @property
    def scores(self) -> Scores:
        """Scores by label and seed: of the test phase, or else of the first phase."""
        return scores_of_summaries(self.phases)

    def to_pandas(self) -> "DataFrame":
        """A data frame with a row for each planned run of the shown phases.

        Raises:
            ConfigError: pandas is not installed.
        """
        return data_frame(run_rows(runs_of_summaries(self.phases)), RUN_COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRow:
    """The returns of one evaluation of a run.

    Attributes:
        step: Environment steps of training before the evaluation.
        mean: The mean return of its episodes.
        min: The smallest return.
        max: The largest return.
        episodes: Number of episodes.
        policy: `final` for the final evaluation, else `in training`.
    """

    step: int
    mean: float
    min: float
    max: float
    episodes: int
    policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRow:
    """One measure of the final policy on one distribution of episodes.

    Attributes:
        measure: The name of the measure; `return` for the task's return.
        distribution: The distribution of episodes; `evaluation` for the one that gives the score.
        mean: The mean of finite values; null if there are none. Of a worst context, its mean.
        min: The smallest finite value; null for a worst context.
        max: The largest finite value; null for a worst context.
        episodes: Number of episodes with a finite value.
    """

    measure: str
    distribution: str
    mean: float | None
    min: float | None
    max: float | None
    episodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFile:
    """A file in the folder of a run.

    Attributes:
        file: Its path in the folder of the run.
        bytes: Its size, in bytes.
    """

    file: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetails(RunRow, Displayed):
    """The records of a run.

    Attributes:
        experiment: The name of its experiment.
        phase: Its phase.
        score_is: The rule that gives its score: `final`, `auc`, `last_window`, or a measure.
        quantity: What is scored: `return`, or the name of a measure or an imported metric.
        lower_is_better: Whether its score is a measure that is declared as minimised.
        imported: The source from which it was imported; null if it was not imported.
        extends: The run that it continues, as `EXPERIMENT/RUN`; null if it has no parent.
        extends_from: The step from which it continues that run; null if it has no parent.
        weights: The sha256 of its final weights; null if it is not recorded.
        offline_steps: Gradient steps on its dataset before its first step; 0 without a dataset.
        evaluations: Its evaluations, in order; the final one is last.
        measures: Further measures of the final policy.
        acted: How often callbacks, components and teachers have acted, of those that count it, by
            kind and name; null if nothing counts.
        history: The start and the end of each attempt.
        checkpoints: The cost of its checkpoints; null if there are none.
        files: The files of its folder.
        folder: The folder of its records.
        system: What it used of processor, memory and GPUs; null if it was not measured.
        problem: What of its records differs from the ledger; null if nothing does.
        tags: Its tags.
        notes: Its notes, oldest first.
    """

    schema: ClassVar[Schema] = Schema("run-details")

    experiment: str
    phase: str
    score_is: str
    quantity: str
    lower_is_better: bool
    imported: str | None
    extends: str | None
    extends_from: int | None
    weights: str | None
    offline_steps: int
    evaluations: tuple[EvaluationRow, ...]
    measures: tuple[MeasureRow, ...]
    acted: Mapping[str, int] | None
    history: tuple[AttemptRow, ...]
    checkpoints: CheckpointCost | None
    files: tuple[RunFile, ...]
    folder: str
    system: SystemUsage | None
    problem: str | None
    tags: tuple[str, ...] = ()
    notes: tuple[NumberedNote, ...] = ()

    def to_pandas(self) -> "DataFrame":
        """A data frame with a row for each evaluation of the run; the final one is last.

        Raises:
            ConfigError: pandas is not installed.
        """
        names = [f.name for f in fields(EvaluationRow)]
        run = {name: getattr(self, name) for name in RUN_OF_EVALUATIONS}
        rows = [{**run, **{n: getattr(e, n) for n in names}} for e in self.evaluations]
        return data_frame(rows, (*RUN_OF_EVALUATIONS, *names))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedConfiguration(Displayed):
    """The recorded definition of an experiment or a run.

    Attributes:
        experiment: The name of the experiment.
        run: The name of the run; null for the definition of an experiment.
        content: The content of `experiment.json`, or the specification of the run; secrets are
            masked.
    """

    schema: ClassVar[Schema] = Schema("recorded-configuration")

    experiment: str
    run: str | None
    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedProvenance(Displayed):
    """The provenance of a run: its command, code, packages and machine, as its last attempt recorded.

    Attributes:
        experiment: The name of its experiment.
        run: The name of the run; for an experiment, the run that started last.
        attempt: The number of the attempt.
        patch: The file with uncommitted changes; null if there were none.
        origin: The trial of a sweep from which the experiment was made; null if it was made from
            overrides.
        content: The recorded command, code, packages and machine; secrets are masked.
    """

    schema: ClassVar[Schema] = Schema("provenance")

    experiment: str
    run: str
    attempt: int
    patch: str | None
    origin: Origin | None
    content: Mapping[str, Any]


ShowResult = ExperimentDetails | RunDetails | RecordedConfiguration | RecordedProvenance


def show(target: str, part: ShowPart, workspace: Workspace) -> ShowResult:
    """Read an experiment or a run.

    Raises:
        RlexpError: There is no such experiment or run, or its records are damaged.
    """
    match workspace.find(target), part:
        case ExperimentPaths() as paths, ShowPart.RESULT:
            return _experiment(paths, workspace)
        case ExperimentPaths() as paths, ShowPart.CONFIG:
            content = _masked(read_json(paths.definition))
            return RecordedConfiguration(experiment=paths.name, run=None, content=content)
        case ExperimentPaths() as paths, _:
            return _provenance(_newest_run(paths))
        case RunPaths() as run, ShowPart.RESULT:
            return _run(run)
        case RunPaths() as run, ShowPart.CONFIG:
            return RecordedConfiguration(
                experiment=run.folder.parent.name,
                run=run.folder.name,
                content=_masked(read_spec(run).plain()),
            )
        case RunPaths() as run, _:
            return _provenance(run)


def _experiment(paths: ExperimentPaths, workspace: Workspace) -> ExperimentDetails:
    surveyed = survey(paths, brief=True)
    experiment = surveyed.experiment
    if experiment is None:
        raise RecordError(f"{surveyed.problem}; 'rlexp ls {paths.name}' lists its runs")
    if experiment.sweep is not None:
        workspace.make_allowed_importable()
    sweep, problem = sweep_status(surveyed, experiment, workspace)
    annotations, unreadable = read_readable_annotations(paths)
    card, sequential = card_and_sequential(paths.name, None, workspace, surveyed)
    state = scanned_state(surveyed, sweep, workspace, sequential)
    return ExperimentDetails(
        experiment=paths.name,
        folder=str(paths.folder),
        phases=tuple(_phases(surveyed, experiment, workspace)),
        sweep=sweep,
        sweep_problem=problem,
        imported=imported_counts(experiment),
        origin=experiment.origin,
        problems=(*surveyed.problems, *unreadable),
        tags=annotations.experiment.tags,
        notes=numbered(annotations.experiment),
        former_names=names_of(paths)[:-1],
        card=card,
        next=() if state is None else tuple(experiment_commands(state)),
    )


def _phases(
    surveyed: ExperimentScan, experiment: Experiment, workspace: Workspace
) -> Iterator[PhaseSummary]:
    """The scores of every phase; of a sweep, only the test phase."""
    # A sweep has many trials and finalists with few runs each; `rlexp ls` lists them.
    phases = surveyed.phases if experiment.sweep is None else (Phase.TEST,)
    leading = read_headline_aggregate(workspace.folder, workspace.allowed)
    for phase in phases:
        entries = surveyed.entries(phase)
        summary = summarise(surveyed.paths, experiment, phase, entries, leading, detectable=True)
        if summary.runs or experiment.sweep is None:
            yield summary


def _masked(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """JSON values in which secrets, also those in environment variables, are masked."""
    masked: Mapping[str, Any] = mask_all(content, secret_values(environ))
    return masked


def _newest_run(paths: ExperimentPaths) -> RunPaths:
    stored = [
        f.stored for f in survey(paths, brief=True).runs if f.stored and f.stored.record.started
    ]
    if not stored:
        raise RecordError(f"no run of experiment {paths.name} has started yet")
    return max(stored, key=lambda s: s.record.started or 0.0).paths


def _provenance(run: RunPaths) -> RecordedProvenance:
    """The provenance of the last attempt.

    Raises:
        RecordError: The run has not started yet.
    """
    attempts = run.attempts()
    if not attempts:
        raise RecordError(f"run {run.folder.name} has not started yet, so it has no provenance")
    last = attempts[-1]
    return RecordedProvenance(
        experiment=run.folder.parent.name,
        run=run.folder.name,
        attempt=last.number,
        patch=str(last.patch) if last.patch.exists() else None,
        origin=_origin(run),
        content=_masked(read_json(last.provenance)),
    )


def _origin(run: RunPaths) -> Origin | None:
    """The origin of the experiment of a run; None where its definition cannot be read."""
    try:
        return read_definition(ExperimentPaths(run.folder.parent)).origin
    except RecordError:
        return None


def _parent_name(run: RunPaths, inherited: Inherited) -> str:
    """The parent of a run as `EXPERIMENT/RUN`, with the present name of its experiment."""
    layout = Layout(run.folder.parent.parent)
    experiment = find_renamed(layout, inherited.experiment, inherited.run)
    return f"{experiment.name}/{inherited.run}"


def _run(run: RunPaths) -> RunDetails:
    stored = read_now(run)
    record, attempts = stored.record, read_attempts(run)
    configuration = configuration_of(run, record.spec)
    row = describe_run(configuration, stored)
    inherited = record.inherited
    annotations, unreadable = read_readable_annotations(ExperimentPaths(run.folder.parent))
    annotation = annotations.of(run.folder.name)
    mismatch = None if record.state is State.RUNNING else run_mismatch(run)
    return RunDetails(
        **{field.name: getattr(row, field.name) for field in fields(row)},
        experiment=run.folder.parent.name,
        phase=str(record.spec.phase),
        score_is=record.spec.budget["score"],
        quantity=record.spec.quantity,
        lower_is_better=configuration.lower_is_better,
        imported=describe_source(record.spec),
        extends=_parent_name(run, inherited) if inherited else None,
        extends_from=inherited.step if inherited else None,
        weights=record.weights,
        offline_steps=record.spec.offline_steps,
        evaluations=_evaluations(record),
        measures=_measures(record),
        acted=record.acted,
        history=describe_attempts(stored, attempts),
        checkpoints=checkpoint_cost(record, attempts),
        files=_files(run),
        folder=str(run.folder),
        system=summarise_usage(read_all_measurements(run)),
        problem="; ".join(filter(None, (mismatch, *unreadable))) or None,
        tags=annotation.tags,
        notes=numbered(annotation),
    )


def _evaluations(record: RunRecord) -> tuple[EvaluationRow, ...]:
    events = [*record.evaluations, *([record.final] if record.final else [])]
    return tuple(_evaluation(event) for event in events)


def _evaluation(event: Evaluated) -> EvaluationRow:
    return EvaluationRow(
        step=event.step,
        mean=event.mean,
        min=min(event.returns),
        max=max(event.returns),
        episodes=len(event.returns),
        policy="final" if event.final else "in training",
    )


def _measures(record: RunRecord) -> tuple[MeasureRow, ...]:
    """Every measure of the final evaluation and of the examinations.

    The task's return is left out if there is no examination: `evaluations` already has it.
    """
    rows = [*_measures_of(EVALUATION, record.final)] if record.final else []
    rows += [r for event in record.examinations for r in _measures_of(event.distribution, event)]
    if not record.examinations:
        rows = [row for row in rows if row.measure != RETURN]
    # False sorts before True, so the return comes first.
    return tuple(sorted(rows, key=lambda row: (row.measure != RETURN, row.measure)))


def _measures_of(distribution: str, event: Evaluated | Examined) -> Iterator[MeasureRow]:
    for name, every in {RETURN: event.returns, **(event.measures or {})}.items():
        values = [value for value in every if math.isfinite(value)]
        yield MeasureRow(
            measure=name,
            distribution=distribution,
            mean=_mean(values),
            min=min(values, default=None),
            max=max(values, default=None),
            episodes=len(values),
        )
    for name, worst in worst_context(event, LARGEST_SCORE).items():
        yield MeasureRow(
            measure=name,
            distribution=distribution,
            mean=worst,
            min=None,
            max=None,
            episodes=len(event.returns),
        )


def _mean(values: Sequence[float]) -> float | None:
    # The sum of large finite values can overflow.
    try:
        return math.fsum(values) / len(values) if values else None
    except OverflowError:
        return None


def _files(run: RunPaths) -> tuple[RunFile, ...]:
    """The files of the run's folder, without hidden files; links are not followed."""
    paths = sorted(p for p in run.folder.rglob("[!.]*") if p.is_symlink() or p.is_file())
    return tuple(
        RunFile(file=str(p.relative_to(run.folder)), bytes=p.lstat().st_size)
        for p in paths
        # The counter of a running process is no record, and its content changes all the time.
        if p.name != "progress.bin"
    )
