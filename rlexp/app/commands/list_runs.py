"""`rlexp ls`: every experiment, every run of one, or every configuration."""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, ClassVar, Protocol, TypeVar

from rlexp.app.plans import RefusedCheckpoint
from rlexp.app.reading.leading import Leading, leading_aggregate
from rlexp.app.reading.summary import Cell, describe_run, summarise, worst_scores
from rlexp.app.reading.survey import Found, Survey, survey
from rlexp.app.results import Schema
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError
from rlexp.metrics.estimate import Estimate
from rlexp.protocol.seeds import Phase
from rlexp.records.run import State
from rlexp.reports.evidence.restarts import Past
from rlexp.text import listed, shortened

CONDITION = re.compile(
    r"\s*(?P<column>\w+)\s*(?P<operator>!=|>=|<=|=|~|>|<)\s*(?P<value>.*)", re.DOTALL
)
ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
ESTIMATE = "estimate"
"""The field of the aggregate; for users, its column has the name of the metric."""
NONE = ("", "none", "null", "—")
"""How a condition names a value that is missing."""


class Row(Protocol):
    """A row of a listing: a dataclass whose fields are columns."""

    words: ClassVar[tuple[str, ...]]
    """Columns of text, which conditions compare with `=`, `!=` and `~`."""
    numbers: ClassVar[tuple[str, ...]]
    """Columns of numbers, which conditions compare by size as well."""


R = TypeVar("R", bound=Row)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentRow:
    """One experiment in a few values.

    Attributes:
        experiment: Its name.
        task: Its tasks, separated by commas.
        label: Its labels, of many only the first ones.
        phase: The phases that have runs, separated by commas.
        planned: Runs that its definition asks for.
        done: Those of them that are completed or pruned.
        running: Those of them that run now.
        failed: Those of them that failed.
        missing: Those of them that are none of these.
        continued: Runs of which an attempt continued from a checkpoint.
        restarted: Runs of which an attempt began anew though an earlier one had got further.
        damaged: Runs whose records cannot be read.
        metric: The name of the aggregate (`iqm`), by which conditions can name `estimate` too.
        estimate: The aggregate of the scores, if there is one configuration: of its test phase,
            or else of its only phase; in units of the task's return.
        interval: The aggregate with its interval, and everything that was needed to compute it.
        last: When something was last recorded, in seconds since 1970.
        problem: Why its definition cannot be read.
    """

    words: ClassVar[tuple[str, ...]] = ("experiment", "task", "label", "phase", "problem")
    numbers: ClassVar[tuple[str, ...]] = (
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
    """One run in a few values; of a damaged run, only its name and what is wrong are known.

    Attributes:
        run: Its name.
        label: The label under which it is compared.
        task: Its task.
        phase: Its phase.
        seed: Its seed within the phase.
        state: `planned`, `running`, `completed`, `failed`, `pruned`, `interrupted`, `lost` or
            `damaged`.
        failure: The kind of its failure.
        reason: Why it ended as it did.
        score: Its score, in units of the task's return; nothing where it has none.
        step: Environment steps so far.
        steps: Environment steps of its budget.
        seconds: Duration of the attempts that its record consists of, in seconds.
        seconds_spent: Duration of all attempts, in seconds.
        attempts: Their number.
        continued: Steps of the checkpoints from which attempts continued.
        restarts: Attempts that began anew though an earlier one had got further.
        refused: Checkpoints that were not continued from.
        drift: What had changed where an attempt continued all the same.
        unreadable_lines: Lines of its journal that cannot be read.
        began: Where its attempts after the first began, if there are any.
        last: When something was last recorded, in seconds since 1970.
        problem: What is wrong with its folder.
    """

    words: ClassVar[tuple[str, ...]] = (
        *("run", "label", "task", "phase", "state", "failure", "reason", "began", "problem"),
    )
    numbers: ClassVar[tuple[str, ...]] = (
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
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationRow:
    """The scores of one configuration in one phase.

    Attributes:
        experiment: The experiment.
        label: The label of the configuration.
        task: Its task.
        phase: The phase.
        planned: Runs that were asked for.
        n: Scores that the aggregate rests on.
        metric: The name of the aggregate (`iqm`), by which conditions can name `estimate` too.
        estimate: The aggregate of the scores, in units of the task's return.
        low: The lower end of its interval.
        high: The upper end of its interval.
        failed: Runs that failed.
        missing: Runs that have neither a score nor a failure.
        counted_as_worst: Runs without a score that count as the declared minimum.
        interval: The aggregate with its interval, and everything that was needed to compute it.
    """

    words: ClassVar[tuple[str, ...]] = ("experiment", "label", "task", "phase")
    numbers: ClassVar[tuple[str, ...]] = (
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


@dataclass(frozen=True, slots=True)
class Selection:
    """Which rows to list, and in what order.

    Attributes:
        experiment: Whose runs to list; without one, experiments are listed.
        where: Conditions that a row has to fulfil, all of them (`score>400`).
        sort: The column to sort by; `-column` sorts downwards.
        group: Whether configurations are listed.
    """

    experiment: str | None = None
    where: tuple[str, ...] = ()
    sort: str | None = None
    group: bool = False


class Kind(StrEnum):
    """What the rows of a listing are."""

    EXPERIMENTS = "experiments"
    RUNS = "runs"
    CONFIGURATIONS = "configurations"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Experiments, runs or configurations, a row each.

    Attributes:
        kind: What the rows are.
        folder: Where the experiments are.
        experiment: The experiment, if only one was named.
        rows: The rows that fulfil the conditions, in order.
        total: Rows before the conditions.
        where: The conditions.
        metric: The name of the aggregate (`iqm`).
        title: What tables call the aggregate (`IQM`).
        problems: What is wrong with the folders, where no row has a place for it.
    """

    schema: ClassVar[Schema] = Schema("listing")

    kind: Kind
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
    """A column compared with a value."""

    column: str
    operator: str
    value: str

    def holds(self, row: Row) -> bool:
        """Whether the row fulfils the condition; a missing value is neither more nor less."""
        present = getattr(row, self.column)
        if self.operator in ORDERS:
            return present is not None and ORDERS[self.operator](present, float(self.value))
        if self.operator == "~":
            return present is not None and self.value.lower() in str(present).lower()
        return _equal(present, self.value) is (self.operator == "=")


def list_runs(selection: Selection, workspace: Workspace) -> Listing:
    """List experiments, runs or configurations.

    Raises:
        RlexpError: There is no such experiment or column, or a condition cannot be read.
    """
    kind = Kind.RUNS if selection.experiment else Kind.EXPERIMENTS
    kind = Kind.CONFIGURATIONS if selection.group else kind
    leading = leading_aggregate(workspace.folder, workspace.allowed)
    conditions = _conditions(selection, kind, leading.name)
    name = selection.experiment
    folders = workspace.layout.experiments() if name is None else [workspace.experiment(name)]
    surveys = [survey(folder, brief=True) for folder in folders]
    rows: list[Any] = [row for experiment in surveys for row in _rows(experiment, kind, leading)]
    kept = [row for row in rows if all(c.holds(row) for c in conditions)]
    return Listing(
        kind=kind,
        folder=str(workspace.layout.root),
        experiment=name,
        rows=tuple(sort_rows(kept, selection.sort and _field(selection.sort, leading.name))),
        total=len(rows),
        where=selection.where,
        metric=leading.name,
        title=leading.title,
        problems=tuple(_problems(surveys, kind)),
    )


def read_conditions(texts: Iterable[str], row: type[Row], metric: str = "iqm") -> list[Condition]:
    """Read conditions such as `score>400` on the columns of a kind of row.

    Raises:
        ConfigError: A text is no condition, names no column, or compares words by size.
    """
    conditions = []
    for text in texts:
        match = CONDITION.fullmatch(text)
        if match is None:
            raise ConfigError(
                f"--where {text!r} is no condition; write COLUMN=VALUE, or !=, ~ (contains), "
                ">, >=, <, <= for numbers",
                code="wrong_type",
                key="--where",
            )
        column, order, value = match.group("column", "operator", "value")
        check_column(column, _names((*row.numbers, *row.words), metric), "--where")
        condition = Condition(_field(column, metric), order, value)
        if condition.operator in ORDERS:
            _check_order(condition, row.numbers)
        conditions.append(condition)
    return conditions


def check_column(name: str, columns: Sequence[str], option: str) -> None:
    """Refuse a column that does not exist.

    Raises:
        ConfigError: Names the columns that exist.
    """
    if name not in columns:
        raise ConfigError.unknown(
            f"{option}: there is no column {name!r}", name, columns, key=option
        )


def sort_rows(rows: Sequence[R], sort: str | None) -> list[R]:
    """Sort by a column, downwards for `-column`; missing values stand last either way."""
    if sort is None:
        return list(rows)
    column, down = sort.removeprefix("-"), sort.startswith("-")

    def value(row: R) -> Any:
        return getattr(row, column)

    present = [row for row in rows if not _missing(value(row))]
    absent = [row for row in rows if _missing(value(row))]
    return sorted(present, key=value, reverse=down) + absent


def _conditions(selection: Selection, kind: Kind, metric: str) -> list[Condition]:
    row = ROWS[kind]
    try:
        if selection.sort is not None:
            names = _names((*row.words, *row.numbers), metric)
            check_column(selection.sort.removeprefix("-"), names, "--sort")
        return read_conditions(selection.where, row, metric)
    except ConfigError as error:
        if kind is not Kind.EXPERIMENTS:
            raise
        raise error.rephrased(
            f"{error}; runs have further columns: rlexp ls EXPERIMENT"
        ) from error


def _names(columns: Sequence[str], metric: str) -> tuple[str, ...]:
    """The names of columns for users: the aggregate has the name of its metric."""
    return tuple(metric if name == ESTIMATE else name for name in columns)


def _field(name: str, metric: str) -> str:
    """The field behind the name of a column, which `-` may precede."""
    return name.replace(metric, ESTIMATE) if name.removeprefix("-") == metric else name


def _missing(value: Any) -> bool:
    return value is None or value != value  # noqa: PLR0124 (NaN has no place in an order)


def _check_order(condition: Condition, numbers: Sequence[str]) -> None:
    text = f"--where {condition.column}{condition.operator}{condition.value}"
    if condition.column not in numbers:
        raise ConfigError(f"{text}: {condition.column} holds words; compare it with =, != or ~")
    if _number(condition.value) is None:
        raise ConfigError(f"{text}: {condition.value!r} is no number")


def _equal(present: Any, value: str) -> bool:
    if present is None:
        return value.lower() in NONE
    number = _number(value)
    if isinstance(present, int | float) and number is not None:
        return present == number
    return str(present) == value


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


ROWS: Mapping[Kind, type[Row]] = {
    Kind.EXPERIMENTS: ExperimentRow,
    Kind.RUNS: ListedRun,
    Kind.CONFIGURATIONS: ConfigurationRow,
}
"""What a row of each kind of listing is."""


def _rows(experiment: Survey, kind: Kind, leading: Leading) -> Iterable[Row]:
    if kind is Kind.CONFIGURATIONS:
        return _configurations(experiment, leading)
    if kind is Kind.RUNS:
        return [_run(run) for run in experiment.runs]
    return [_experiment(experiment, leading)]


def _run(run: Found) -> ListedRun:
    if run.configuration is None or run.stored is None:
        return ListedRun(run=run.name, state="damaged", problem=run.problem)
    row, record = describe_run(run.configuration, run.stored), run.stored.record
    values = {field.name: getattr(row, field.name) for field in fields(row)}
    values |= {"run": run.name, "state": "damaged" if run.damaged else row.state}
    return ListedRun(
        **values,
        phase=str(record.spec.phase),
        began=_began(row.continued, row.restarts),
        last=record.last,
        problem=run.problem,
    )


def _experiment(experiment: Survey, leading: Leading) -> ExperimentRow:
    single = _single(experiment, leading)
    planned = [f for f in experiment.runs if f.planned and f.stored]
    states = [f.stored.record.state for f in planned if f.stored]
    past = Past.of(f.stored.record for f in planned if f.stored)
    done = sum(s in {State.COMPLETED, State.PRUNED} for s in states)
    running, failed = states.count(State.RUNNING), states.count(State.FAILED)
    named = [f.configuration for f in planned or experiment.runs if f.configuration]
    times = [t for f in experiment.runs if f.stored and (t := f.stored.record.last) is not None]
    return ExperimentRow(
        experiment=experiment.paths.name,
        task=", ".join(dict.fromkeys(c.task for c in named)) or None,
        label=shortened(list(dict.fromkeys(c.label for c in named)), 4) or None,
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


def _single(survey: Survey, leading: Leading) -> Estimate | None:
    """The aggregate of an experiment of one configuration: of its test phase, or its only one."""
    experiment, phases = survey.experiment, survey.phases
    if experiment is None or len(experiment.configurations) != 1 or not phases:
        return None
    entries = survey.entries(Phase.TEST if len(phases) > 1 else phases[0])
    records = [stored.record for _, stored in entries]
    scoreless = sum(record.scoreless for record in records)
    worst = worst_scores(experiment.configurations[0], experiment, scoreless)
    scores = [r.score for r in records if r.score is not None] + worst
    return leading.estimate(scores, experiment.configurations[0].reference)


def _configurations(survey: Survey, leading: Leading) -> Iterator[ConfigurationRow]:
    if survey.experiment is None:
        return
    for phase in survey.phases:
        entries = survey.entries(phase)
        summary = summarise(survey.paths, survey.experiment, phase, entries, leading)
        yield from (_configuration(cell, survey.paths.name, phase) for cell in summary.cells)


def _configuration(cell: Cell, experiment: str, phase: Phase) -> ConfigurationRow:
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
    )


def _began(continued: Sequence[int], restarts: int) -> str | None:
    """Where the attempts of a run after the first began, if there are any."""
    beginnings = [f"checkpoint {listed([f'{step:,}' for step in continued])}"] if continued else []
    beginnings += ["anew"] if restarts else []
    return ", ".join(beginnings) or None


def _problems(surveys: Sequence[Survey], kind: Kind) -> Iterator[str]:
    """What is wrong with the folders, where no row has a place for it."""
    if kind is Kind.RUNS:
        yield from (experiment.problem for experiment in surveys if experiment.problem)
    elif kind is Kind.CONFIGURATIONS:
        for experiment in surveys:
            yield from (f"{experiment.paths.name}: {problem}" for problem in experiment.problems)
