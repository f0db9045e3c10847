"""`rlexp ls`: lists experiments, the runs of an experiment, or configurations."""

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar

from rlexp.app.commands.look.listing_rows import ConfigurationRow, ExperimentRow, ListedRun
from rlexp.app.data_frames import DataRow, data_frame
from rlexp.app.reading.catalogue import collector_paused
from rlexp.app.reading.experiment_scan import ExperimentScan, ScannedRun, survey
from rlexp.app.reading.headline_aggregate import HeadlineAggregate, read_headline_aggregate
from rlexp.app.reading.row_selection import (
    ListingRow,
    Member,
    RowMembers,
    RowSelection,
    check_kinds,
    columns_of,
)
from rlexp.app.reading.run_rows import RUN_COLUMNS, run_rows
from rlexp.app.reading.run_settings import Settings, SettingsIndex
from rlexp.app.reading.searched_parameters import parameters_by_label
from rlexp.app.reading.summary import (
    LabelSummary,
    describe_run,
    measure_summaries,
    summarise,
    worst_scores,
)
from rlexp.app.results import Displayed, Schema
from rlexp.app.workspace import Workspace
from rlexp.conditions import read_conditions
from rlexp.metrics.estimate import Estimate
from rlexp.protocol.experiment import Configuration
from rlexp.protocol.seeds import Phase
from rlexp.records.annotation import Annotation
from rlexp.records.run import RunRecord, State
from rlexp.reports.evidence.restarts import RestartCounts
from rlexp.store.annotations import Annotations, read_readable_annotations
from rlexp.text import format_score, join_first_names, join_names

if TYPE_CHECKING:
    from pandas import DataFrame

INTERVAL_COLUMNS = ("low", "high", "level", "method", "n")
"""The fields of an interval that are columns of a data frame."""


@dataclass(frozen=True, slots=True)
class ListRequest:
    """The rows to list, and their order.

    Attributes:
        experiment: The experiment whose runs are listed; with None, experiments are listed.
        where: Conditions that every listed row fulfils (`score>400`, `algorithm=ppo`).
        sort: The column, key or measure to sort by; `-column` sorts in descending order.
        group: Whether configurations are listed.
        columns: The columns, keys and measures of the table; by default those of the kind of rows.
    """

    experiment: str | None = None
    where: tuple[str, ...] = ()
    sort: str | None = None
    group: bool = False
    columns: tuple[str, ...] = ()


class ListingKind(StrEnum):
    """The kind of rows of a listing."""

    EXPERIMENTS = "experiments"
    RUNS = "runs"
    CONFIGURATIONS = "configurations"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Displayed):
    """A list of experiments, runs or configurations.

    Attributes:
        kind: The kind of rows.
        folder: The folder with the experiments.
        experiment: The name of the experiment; null if all were listed.
        rows: The rows that fulfil the conditions, in order.
        total: Number of rows before the conditions were applied.
        where: The conditions.
        columns: The columns that were asked for; empty for the usual ones.
        unmatched: If no row fulfils the conditions, the values that there are instead.
        metric: The name of the aggregate (`iqm`).
        title: The title of the aggregate in tables (`IQM`).
        problems: Problems of folders that no row shows.
    """

    schema: ClassVar[Schema] = Schema("listing")

    kind: ListingKind
    folder: str
    experiment: str | None
    rows: tuple[ExperimentRow, ...] | tuple[ListedRun, ...] | tuple[ConfigurationRow, ...]
    total: int
    where: tuple[str, ...]
    columns: tuple[str, ...] = ()
    unmatched: tuple[str, ...] = ()
    metric: str
    title: str
    problems: tuple[str, ...]

    def to_pandas(self) -> "DataFrame":
        """A data frame with a row for each row of the list, and the asked columns at its end.

        Raises:
            ConfigError: pandas is not installed.
        """
        first = RUN_COLUMNS if self.kind is ListingKind.RUNS else columns_of(ROWS[self.kind])
        cells = _run_cells(self) if self.kind is ListingKind.RUNS else map(_cells, self.rows)
        chosen = (row.columns for row in self.rows)
        return data_frame(({**c, **a} for c, a in zip(cells, chosen, strict=True)), first)


@collector_paused()
def list_runs(request: ListRequest, workspace: Workspace) -> Listing:
    """List experiments, runs or configurations.

    Raises:
        RlexpError: There is no such experiment, column or key, or a condition cannot be parsed.
    """
    kind = kind_of(request)
    leading = read_headline_aggregate(workspace.folder, workspace.allowed)
    selection = selection_of(request, leading.name)
    # A mistake in a condition is reported before thousands of runs are read.
    check_kinds(selection)
    surveys = surveyed(request, workspace)
    rows: list[RowMembers] = []
    unreadable: list[str] = []
    for experiment in surveys:
        annotations, problems = read_readable_annotations(experiment.paths)
        rows += listed_rows(experiment, kind, leading, annotations)
        unreadable += problems
    kept = selection.kept(rows)
    return Listing(
        kind=kind,
        folder=str(workspace.layout.root),
        experiment=request.experiment,
        rows=tuple(kept),
        total=len(rows),
        where=request.where,
        columns=request.columns,
        unmatched=() if kept else tuple(selection.unmatched(rows)),
        metric=leading.name,
        title=leading.title,
        problems=(*_problems(surveys, kind), *unreadable),
    )


def selection_of(request: ListRequest, metric: str) -> RowSelection:
    """The conditions, the order and the columns of a request.

    Raises:
        ConfigError: A condition cannot be parsed.
    """
    kind = kind_of(request)
    target = [request.experiment] if request.experiment else []
    group = ["--group"] if request.group else []
    return RowSelection(
        row=ROWS[kind],
        run=ListedRun if kind is ListingKind.EXPERIMENTS else None,
        metric=metric,
        conditions=tuple(read_conditions(request.where)),
        sort=request.sort,
        columns=request.columns,
        command=shlex.join(["rlexp", "ls", *target, *group, "--list-columns"]),
    )


def surveyed(request: ListRequest, workspace: Workspace) -> list[ExperimentScan]:
    """The requested experiment, or all of them, as read from disk.

    Raises:
        RecordError: There is no such experiment.
    """
    name = request.experiment
    folders = workspace.layout.experiments() if name is None else [workspace.experiment(name)]
    return [survey(folder, brief=True) for folder in folders]


def kind_of(request: ListRequest) -> ListingKind:
    """The kind of the rows of a request."""
    if request.group:
        return ListingKind.CONFIGURATIONS
    return ListingKind.RUNS if request.experiment else ListingKind.EXPERIMENTS


ROWS: Mapping[ListingKind, type[ListingRow]] = {
    ListingKind.EXPERIMENTS: ExperimentRow,
    ListingKind.RUNS: ListedRun,
    ListingKind.CONFIGURATIONS: ConfigurationRow,
}
"""The class of the rows of each kind of listing."""


def listed_rows(
    experiment: ExperimentScan,
    kind: ListingKind,
    leading: HeadlineAggregate,
    annotations: Annotations,
) -> Iterable[RowMembers]:
    """The rows of an experiment, each with the runs or the configuration that it stands for."""
    index = SettingsIndex(experiment.experiment)
    # Read where a row of a run needs them, and once for each experiment.
    parameters = cache(partial(parameters_by_label, experiment.paths))
    if kind is ListingKind.CONFIGURATIONS:
        return _configurations(experiment, leading, index)
    if kind is ListingKind.RUNS:
        return [
            RowMembers(
                _run(run, annotations, parameters()),
                [_member(run, index, annotations, parameters)],
            )
            for run in experiment.runs
        ]
    means = LabelMeans(experiment, leading)
    members = [
        replace(
            _member(run, index, annotations, parameters),
            measure=partial(means.of, run.configuration),
        )
        for run in experiment.runs
    ]
    row = experiment_row(experiment, leading)
    return [RowMembers(replace(row, **_annotated(annotations.experiment)), members)]


def _member(
    run: ScannedRun,
    index: SettingsIndex,
    annotations: Annotations,
    parameters: Callable[[], Mapping[str, str]],
) -> Member:
    def settings() -> Settings:
        if run.configuration is None or run.stored is None:
            return {}
        return index.of(run.configuration, run.stored.record.spec)

    def measures() -> Mapping[str, float]:
        return run.stored.record.measures if run.stored is not None else {}

    # All are made only where a condition or a column needs them.
    return Member(
        settings,
        measures,
        lambda name: measures().get(name),
        lambda: _run(run, annotations, parameters()),
    )


class LabelMeans:
    """The means of the measures of each label, as `rlexp show` has them, in the phase shown."""

    def __init__(self, survey: ExperimentScan, leading: HeadlineAggregate) -> None:
        self._leading = leading
        self._runs: dict[tuple[str, str], list[RunRecord]] = {}
        phase = _shown_phase(survey)
        for configuration, stored in survey.entries(phase) if phase is not None else []:
            key = (configuration.label, configuration.task)
            self._runs.setdefault(key, []).append(stored.record)
        self._known: dict[tuple[str, str, str], float | None] = {}

    def of(self, configuration: Configuration | None, name: str) -> float | None:
        """The mean of a measure over the runs of a label; None where no run shown has it."""
        if configuration is None:
            return None
        label = (configuration.label, configuration.task)
        if (*label, name) not in self._known:
            runs = self._runs.get(label, [])
            summaries = measure_summaries(configuration, runs, self._leading, name)
            means = [summary.estimate.estimate for summary in summaries]
            self._known[*label, name] = next(iter(means), None)
        return self._known[*label, name]


def _annotated(annotation: Annotation) -> dict[str, Any]:
    """The columns with tags and notes."""
    newest = annotation.notes[-1].text if annotation.notes else None
    return {"tags": annotation.tags, "note": newest}


def _run(run: ScannedRun, annotations: Annotations, parameters: Mapping[str, str]) -> ListedRun:
    annotated = _annotated(annotations.of(run.name))
    if run.configuration is None or run.stored is None:
        return ListedRun(run=run.name, state="damaged", problem=run.problem, **annotated)
    row, record = describe_run(run.configuration, run.stored), run.stored.record
    values = {f.name: getattr(row, f.name) for f in fields(row)}
    values |= {"run": run.name, "state": "damaged" if run.damaged else row.state}
    return ListedRun(
        **values,
        phase=str(record.spec.phase),
        measures=_measures(row.measure_means),
        began=_began(row.continued, row.restarts),
        last=record.last,
        parameters=parameters.get(row.label),
        problem=run.problem,
        **annotated,
    )


def _measures(means: Mapping[str, float]) -> str | None:
    """The means of measures as text; None if there are none."""
    texts = [f"{name} {format_score(means[name], separator='')}" for name in sorted(means)]
    return ", ".join(texts) or None


def experiment_row(experiment: ExperimentScan, leading: HeadlineAggregate) -> ExperimentRow:
    """The row of an experiment in a listing, without its tags and notes."""
    single = _single(experiment, leading)
    planned = [f for f in experiment.runs if f.planned and f.stored]
    states = [f.stored.record.state for f in planned if f.stored]
    past = RestartCounts.of(f.stored.record for f in planned if f.stored)
    done = sum(s in {State.COMPLETED, State.PRUNED} for s in states)
    running, failed = states.count(State.RUNNING), states.count(State.FAILED)
    named = [f.configuration for f in planned or experiment.runs if f.configuration]
    times = [t for f in experiment.runs if f.stored and (t := f.stored.record.last) is not None]
    return ExperimentRow(
        experiment=experiment.paths.name,
        task=", ".join(dict.fromkeys(c.task for c in named)) or None,
        label=join_first_names(list(dict.fromkeys(c.label for c in named)), 4) or None,
        phase=", ".join(experiment.phases) or None,
        planned=len(planned),
        done=done,
        running=running,
        failed=failed,
        missing=len(planned) - done - running - failed,
        continued=past.continued,
        restarted=past.restarted,
        damaged=sum(f.damaged for f in experiment.runs),
        metric=leading.name,
        estimate=single.estimate if single else None,
        interval=single,
        last=max(times, default=None),
        problem=experiment.problem,
    )


def _single(survey: ExperimentScan, leading: HeadlineAggregate) -> Estimate | None:
    """The aggregate of an experiment with one configuration; None if it has several.

    The runs of other phases of a sweep are those of different trials.
    """
    experiment, phase = survey.experiment, _shown_phase(survey)
    if experiment is None or len(experiment.configurations) != 1 or phase is None:
        return None
    entries = survey.entries(phase)
    records = [stored.record for _, stored in entries]
    scoreless = sum(record.scoreless for record in records)
    worst = worst_scores(experiment.configurations[0], experiment, scoreless)
    scores = [r.score for r in records if r.score is not None] + worst
    return leading.estimate(scores, experiment.configurations[0].score_reference)


def _run_cells(listing: Listing) -> Iterator[DataRow]:
    """The cells of the runs of an experiment, with what is kept beside their records."""
    runs = [row for row in listing.rows if isinstance(row, ListedRun)]
    rows = run_rows((str(listing.experiment), row.phase or "", row) for row in runs)
    for cells, run in zip(rows, runs, strict=True):
        yield {**cells, "problem": run.problem, "tags": run.tags, "note": run.note}


def _cells(row: ExperimentRow | ListedRun | ConfigurationRow) -> dict[str, Any]:
    """The cells of a row, and the interval behind its estimate."""
    cells = {name: getattr(row, name) for name in (*columns_of(type(row)), "metric")}
    interval = getattr(row, "interval", None)
    of_interval = {n: getattr(interval, n) for n in INTERVAL_COLUMNS} if interval else {}
    return {**of_interval, **cells}


def _shown_phase(survey: ExperimentScan) -> Phase | None:
    """The phase whose scores the row of an experiment shows; None if it has no readable run.

    It is the test phase, or the only phase. Of a sweep, it is the test phase in any case.
    """
    experiment, phases = survey.experiment, survey.phases
    if experiment is None or not phases:
        return None
    return Phase.TEST if len(phases) > 1 or experiment.sweep is not None else phases[0]


def _configurations(
    survey: ExperimentScan, leading: HeadlineAggregate, index: SettingsIndex
) -> Iterator[RowMembers]:
    if survey.experiment is None:
        return
    parameters = parameters_by_label(survey.paths)
    for phase in survey.phases:
        entries = survey.entries(phase)
        summary = summarise(survey.paths, survey.experiment, phase, entries, leading)
        specs = {(c.label, c.task): (c, s.record.spec) for c, s in entries}
        for cell in summary.cells:
            row = _configuration(cell, survey.paths.name, phase, parameters.get(cell.label))
            spec = specs.get((cell.label, cell.task))
            means = {m.measure: m.estimate.estimate for m in cell.measures}
            yield RowMembers(
                row, [Member(partial(index.of, *spec), means.keys, means.get)] if spec else []
            )


def _configuration(
    cell: LabelSummary, experiment: str, phase: Phase, parameters: str | None
) -> ConfigurationRow:
    estimate = cell.estimate
    return ConfigurationRow(
        experiment=experiment,
        label=cell.label,
        task=cell.task,
        phase=str(phase),
        planned=cell.planned,
        n=cell.n,
        metric=cell.metric,
        estimate=estimate.estimate if estimate else None,
        low=estimate.low if estimate else None,
        high=estimate.high if estimate else None,
        failed=cell.failed,
        missing=cell.missing,
        counted_as_worst=cell.counted_as_worst,
        interval=estimate,
        parameters=parameters,
    )


def _began(continued: Sequence[int], restarts: int) -> str | None:
    """Where the attempts of a run after the first started; None if there was only one."""
    beginnings = (
        [f"checkpoint {join_names([f'{step:,}' for step in continued])}"] if continued else []
    )
    beginnings += ["anew"] if restarts else []
    return ", ".join(beginnings) or None


def _problems(surveys: Sequence[ExperimentScan], kind: ListingKind) -> Iterator[str]:
    """Problems of folders that no row shows."""
    for experiment in surveys:
        name = experiment.paths.name
        if kind is ListingKind.CONFIGURATIONS:
            yield from (f"{name}: {problem}" for problem in experiment.problems)
            continue
        if kind is ListingKind.RUNS and experiment.problem:
            yield experiment.problem
        if experiment.mismatch:
            yield f"{name}: {experiment.mismatch}"
