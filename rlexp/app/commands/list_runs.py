"""`rlexp ls`: lists experiments, the runs of an experiment, or configurations."""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, ClassVar, Protocol, TypeVar

from rlexp.app.plans import RefusedCheckpoint
from rlexp.app.reading.experiment_scan import ExperimentScan, ScannedRun, survey
from rlexp.app.reading.headline_aggregate import HeadlineAggregate, read_headline_aggregate
from rlexp.app.reading.searched_parameters import parameters_by_label
from rlexp.app.reading.summary import LabelSummary, describe_run, summarise, worst_scores
from rlexp.app.results import Schema
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError
from rlexp.metrics.estimate import Estimate
from rlexp.protocol.seeds import Phase
from rlexp.records.run import State
from rlexp.reports.evidence.restarts import RestartCounts
from rlexp.text import format_score, join_first_names, join_names

# Operators of two characters come first: `>` alone would match the beginning of `>=`.
CONDITION = re.compile(
    r"\s*(?P<column>\w+)\s*(?P<operator>!=|>=|<=|=|~|>|<)\s*(?P<value>.*)", re.DOTALL
)
COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
ESTIMATE = "estimate"
"""The field of the aggregate; users see its column under the name of the metric."""
NONE = ("", "none", "null", "—")
"""Values of a condition that stand for a missing value."""


class ListingRow(Protocol):
    """A row of a listing: a dataclass whose fields are columns."""

    text_columns: ClassVar[tuple[str, ...]]
    """Columns of text; conditions compare them with `=`, `!=` and `~`."""
    number_columns: ClassVar[tuple[str, ...]]
    """Columns of numbers; conditions compare them with `<` and `>`, too."""


R = TypeVar("R", bound=ListingRow)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentRow:
    """One experiment in a listing.

    Attributes:
        experiment: The name of the experiment.
        task: Its tasks, separated by commas.
        label: Its labels; a long list is shortened.
        phase: The phases that have runs, separated by commas.
        planned: Number of runs in its definition.
        done: Number of planned runs that are completed or pruned.
        running: Number of planned runs that are running.
        failed: Number of planned runs that failed.
        missing: Number of planned runs in any other state.
        continued: Number of runs with an attempt that continued from a checkpoint.
        restarted: Number of runs with an attempt that started from step 0 although an earlier
            attempt had reached a later step.
        damaged: Number of runs whose records cannot be read.
        metric: The name of the aggregate (`iqm`); conditions may use it instead of `estimate`.
        estimate: The aggregate of the scores of an experiment with one configuration, in units of
            the task's return: of the test phase, or of its only phase. Null if there are several
            configurations.
        interval: The aggregate with its interval and the method that computed it.
        last: The time of the latest record, in seconds since 1970.
        problem: Why its definition cannot be read; null if it can.
    """

    text_columns: ClassVar[tuple[str, ...]] = ("experiment", "task", "label", "phase", "problem")
    number_columns: ClassVar[tuple[str, ...]] = (
        *("planned", "done", "running", "failed", "missing", "continued", "restarted"),
        *("damaged", "estimate", "last"),
    )

    experiment: str
    task: str | None
    label: str | None
    phase: str | None
    planned: int
    done: int
    running: int
    failed: int
    missing: int
    continued: int
    restarted: int
    damaged: int
    metric: str
    estimate: float | None
    interval: Estimate | None
    last: float | None
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRun:
    """One run in a listing; for a damaged run, only `run`, `state` and `problem` are set.

    Attributes:
        run: The name of the run.
        label: The label under which it is compared.
        task: Its task.
        phase: Its phase.
        seed: Its seed within the phase.
        state: `planned`, `running`, `completed`, `failed`, `pruned`, `interrupted`, `lost` or
            `damaged`.
        failure: The kind of its failure; null if it did not fail.
        reason: Why it ended in its state.
        score: Its score; null if it has none.
        measure_means: Mean of each measure over the final episodes that report it, by name.
        measures: The same as text (`cost 2.1, success 0.83`); null if there are none.
        step: Environment steps so far.
        steps: Environment steps of its budget.
        seconds: Duration of the attempts that form its record, in seconds.
        seconds_spent: Duration of all attempts, in seconds.
        attempts: Number of attempts.
        continued: Steps of the checkpoints from which attempts continued.
        restarts: Number of attempts that started from step 0 although an earlier attempt had
            reached a later step.
        refused: Checkpoints from which attempts did not continue.
        drift: The versions that had changed when an attempt continued anyway.
        unreadable_lines: Number of lines of its journal that cannot be read.
        began: Where the attempts after the first started (`checkpoint 40,000`, `anew`); null if
            there was only one.
        last: The time of the latest record, in seconds since 1970.
        parameters: In a sweep, the searched hyperparameters of its trial (`gamma=0.958
            n_epochs=5`), with up to four digits; null elsewhere.
        problem: What is wrong with its folder; null if nothing is.
    """

    text_columns: ClassVar[tuple[str, ...]] = (
        *(
            "run",
            "label",
            "task",
            "phase",
            "state",
            "failure",
            "reason",
            "measures",
            "began",
            "parameters",
            "problem",
        ),
    )
    number_columns: ClassVar[tuple[str, ...]] = (
        *("seed", "score", "step", "steps", "seconds", "seconds_spent", "attempts", "restarts"),
        *("unreadable_lines", "last"),
    )

    run: str
    label: str | None = None
    task: str | None = None
    phase: str | None = None
    seed: int | None = None
    state: str
    failure: str | None = None
    reason: str | None = None
    score: float | None = None
    measure_means: Mapping[str, float] = field(default_factory=dict)
    measures: str | None = None
    step: int | None = None
    steps: int | None = None
    seconds: float | None = None
    seconds_spent: float | None = None
    attempts: int | None = None
    continued: tuple[int, ...] = ()
    restarts: int | None = None
    refused: tuple[RefusedCheckpoint, ...] = ()
    drift: tuple[str, ...] = ()
    unreadable_lines: int | None = None
    began: str | None = None
    last: float | None = None
    parameters: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationRow:
    """The scores of one configuration in one phase.

    Attributes:
        experiment: The name of the experiment.
        label: The label of the configuration.
        task: Its task.
        phase: The phase.
        planned: Number of planned runs.
        n: Number of scores in the aggregate.
        metric: The name of the aggregate (`iqm`); conditions may use it instead of `estimate`.
        estimate: The aggregate of the scores, in units of the score.
        low: The lower end of its interval.
        high: The upper end of its interval.
        failed: Number of failed runs.
        missing: Number of runs with neither a score nor a failure.
        counted_as_worst: Number of runs without a score that enter the aggregate with the
            declared worst score.
        interval: The aggregate with its interval and the method that computed it.
        parameters: In a sweep, the searched hyperparameters of its trial (`gamma=0.958
            n_epochs=5`), with up to four digits; null elsewhere.
    """

    text_columns: ClassVar[tuple[str, ...]] = (
        "experiment",
        "label",
        "task",
        "phase",
        "parameters",
    )
    number_columns: ClassVar[tuple[str, ...]] = (
        *("planned", "n", "estimate", "low", "high", "failed", "missing", "counted_as_worst"),
    )

    experiment: str
    label: str
    task: str
    phase: str
    planned: int
    n: int
    metric: str
    estimate: float | None
    low: float | None
    high: float | None
    failed: int
    missing: int
    counted_as_worst: int
    interval: Estimate | None
    parameters: str | None


@dataclass(frozen=True, slots=True)
class ListRequest:
    """The rows to list, and their order.

    Attributes:
        experiment: The experiment whose runs are listed; with None, experiments are listed.
        where: Conditions that every listed row fulfils (`score>400`).
        sort: The column to sort by; `-column` sorts in descending order.
        group: Whether configurations are listed.
    """

    experiment: str | None = None
    where: tuple[str, ...] = ()
    sort: str | None = None
    group: bool = False


class ListingKind(StrEnum):
    """The kind of rows of a listing."""

    EXPERIMENTS = "experiments"
    RUNS = "runs"
    CONFIGURATIONS = "configurations"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A list of experiments, runs or configurations.

    Attributes:
        kind: The kind of rows.
        folder: The folder with the experiments.
        experiment: The name of the experiment; null if all were listed.
        rows: The rows that fulfil the conditions, in order.
        total: Number of rows before the conditions were applied.
        where: The conditions.
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
    metric: str
    title: str
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of a column with a value."""

    column: str
    operator: str
    value: str

    def holds(self, row: ListingRow) -> bool:
        """Whether the row fulfils the condition; `<` and `>` are false for a missing value."""
        present = getattr(row, self.column)
        if self.operator in COMPARISONS:
            return present is not None and COMPARISONS[self.operator](present, float(self.value))
        if self.operator == "~":
            return present is not None and self.value.lower() in str(present).lower()
        return _equal(present, self.value) is (self.operator == "=")


def list_runs(request: ListRequest, workspace: Workspace) -> Listing:
    """List experiments, runs or configurations.

    Raises:
        RlexpError: There is no such experiment or column, or a condition cannot be parsed.
    """
    kind = ListingKind.RUNS if request.experiment else ListingKind.EXPERIMENTS
    kind = ListingKind.CONFIGURATIONS if request.group else kind
    leading = read_headline_aggregate(workspace.folder, workspace.allowed)
    # A mistake in a condition is reported before thousands of runs are read.
    conditions = _conditions(request, kind, leading.name)
    name = request.experiment
    folders = workspace.layout.experiments() if name is None else [workspace.experiment(name)]
    surveys = [survey(folder, brief=True) for folder in folders]
    rows: list[Any] = [row for experiment in surveys for row in _rows(experiment, kind, leading)]
    kept = [row for row in rows if all(c.holds(row) for c in conditions)]
    return Listing(
        kind=kind,
        folder=str(workspace.layout.root),
        experiment=name,
        rows=tuple(sort_rows(kept, request.sort and _field(request.sort, leading.name))),
        total=len(rows),
        where=request.where,
        metric=leading.name,
        title=leading.title,
        problems=tuple(_problems(surveys, kind)),
    )


def read_conditions(
    texts: Iterable[str], row: type[ListingRow], metric: str = "iqm"
) -> list[Condition]:
    """Parse conditions such as `score>400` on the columns of a kind of row.

    Raises:
        ConfigError: A text cannot be parsed, names no column, or compares text with `<` or `>`.
    """
    conditions = []
    for text in texts:
        match = CONDITION.fullmatch(text)
        if match is None:
            raise ConfigError(
                f"--where {text!r} is not a condition; write COLUMN=VALUE, with =, !=, ~ "
                "(contains), or >, >=, <, <= for numbers",
                code="wrong_type",
                key="--where",
            )
        column, order, value = match.group("column", "operator", "value")
        check_column(column, _names((*row.number_columns, *row.text_columns), metric), "--where")
        condition = Condition(_field(column, metric), order, value)
        if condition.operator in COMPARISONS:
            _check_order(condition, row.number_columns)
        conditions.append(condition)
    return conditions


def check_column(name: str, columns: Sequence[str], option: str) -> None:
    """Check that a column exists.

    Raises:
        ConfigError: There is no such column; the message lists the existing ones.
    """
    if name not in columns:
        raise ConfigError.unknown(
            f"{option}: there is no column {name!r}", name, columns, key=option
        )


def sort_rows(rows: Sequence[R], sort: str | None) -> list[R]:
    """Sort by a column, in descending order for `-column`; missing values always come last."""
    if sort is None:
        return list(rows)
    column, down = sort.removeprefix("-"), sort.startswith("-")

    def value(row: R) -> Any:
        return getattr(row, column)

    # Missing values are set apart, because None and NaN cannot be ordered.
    present = [row for row in rows if not _missing(value(row))]
    absent = [row for row in rows if _missing(value(row))]
    return sorted(present, key=value, reverse=down) + absent


def _conditions(request: ListRequest, kind: ListingKind, metric: str) -> list[Condition]:
    row = ROWS[kind]
    try:
        if request.sort is not None:
            names = _names((*row.text_columns, *row.number_columns), metric)
            check_column(request.sort.removeprefix("-"), names, "--sort")
        return read_conditions(request.where, row, metric)
    except ConfigError as error:
        if kind is not ListingKind.EXPERIMENTS:
            raise
        raise error.rephrased(f"{error}; for columns of runs: rlexp ls EXPERIMENT") from error


def _names(columns: Sequence[str], metric: str) -> tuple[str, ...]:
    """The column names for users: the aggregate has the name of its metric."""
    return tuple(metric if name == ESTIMATE else name for name in columns)


def _field(name: str, metric: str) -> str:
    """The field of a column name; a leading `-` is kept."""
    return name.replace(metric, ESTIMATE) if name.removeprefix("-") == metric else name


def _missing(value: Any) -> bool:
    return value is None or value != value  # noqa: PLR0124 (NaN has no place in an order)


def _check_order(condition: Condition, numbers: Sequence[str]) -> None:
    text = f"--where {condition.column}{condition.operator}{condition.value}"
    if condition.column not in numbers:
        raise ConfigError(f"{text}: {condition.column} holds text; compare it with =, != or ~")
    if _number(condition.value) is None:
        raise ConfigError(f"{text}: {condition.value!r} is not a number")


def _equal(present: Any, value: str) -> bool:
    if present is None:
        return value.lower() in NONE
    number = _number(value)
    if isinstance(present, int | float) and number is not None:
        return present == number
    return str(present) == value


def _number(text: str) -> float | None:
    try:
        # Tables print numbers with commas, and users copy them from there.
        return float(text.replace(",", ""))
    except ValueError:
        return None


ROWS: Mapping[ListingKind, type[ListingRow]] = {
    ListingKind.EXPERIMENTS: ExperimentRow,
    ListingKind.RUNS: ListedRun,
    ListingKind.CONFIGURATIONS: ConfigurationRow,
}
"""The class of the rows of each kind of listing."""


def _rows(
    experiment: ExperimentScan, kind: ListingKind, leading: HeadlineAggregate
) -> Iterable[ListingRow]:
    if kind is ListingKind.CONFIGURATIONS:
        return _configurations(experiment, leading)
    if kind is ListingKind.RUNS:
        parameters = parameters_by_label(experiment.paths)
        return [_run(run, parameters) for run in experiment.runs]
    return [_experiment(experiment, leading)]


def _run(run: ScannedRun, parameters: Mapping[str, str]) -> ListedRun:
    if run.configuration is None or run.stored is None:
        return ListedRun(run=run.name, state="damaged", problem=run.problem)
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
    )


def _measures(means: Mapping[str, float]) -> str | None:
    """The means of measures as text; None if there are none."""
    texts = [f"{name} {format_score(means[name], separator='')}" for name in sorted(means)]
    return ", ".join(texts) or None


def _experiment(experiment: ExperimentScan, leading: HeadlineAggregate) -> ExperimentRow:
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

    It is that of the test phase, or of the only phase.
    """
    experiment, phases = survey.experiment, survey.phases
    if experiment is None or len(experiment.configurations) != 1 or not phases:
        return None
    entries = survey.entries(Phase.TEST if len(phases) > 1 else phases[0])
    records = [stored.record for _, stored in entries]
    scoreless = sum(record.scoreless for record in records)
    worst = worst_scores(experiment.configurations[0], experiment, scoreless)
    scores = [r.score for r in records if r.score is not None] + worst
    return leading.estimate(scores, experiment.configurations[0].score_reference)


def _configurations(
    survey: ExperimentScan, leading: HeadlineAggregate
) -> Iterator[ConfigurationRow]:
    if survey.experiment is None:
        return
    parameters = parameters_by_label(survey.paths)
    for phase in survey.phases:
        entries = survey.entries(phase)
        summary = summarise(survey.paths, survey.experiment, phase, entries, leading)
        for cell in summary.cells:
            yield _configuration(cell, survey.paths.name, phase, parameters.get(cell.label))


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
