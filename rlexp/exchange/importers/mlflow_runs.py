"""Conversion of MLflow runs, from a server or a store, into imported runs with one curve each."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rlexp.exchange.importers.imported_study import (
    EarlyEnd,
    EvaluationPoint,
    ImportedRun,
    ImportedStudy,
    ImportOptions,
    StepUnit,
    malformed_error,
    until_not_finite,
)
from rlexp.exchange.importers.naming import RunFacts, RunIdentity, RunNaming
from rlexp.exchange.importers.parse_values import (
    details_as_text,
    parse_name,
    parse_whole_number,
    shortened_repr,
)
from rlexp.exchange.importers.series import Series, Value, choose_series, group_by_step
from rlexp.records.events import Ending, Failure

LABELS = ("algo", "algorithm", "algorithm.name", "label", "exp_name", "agent", "method")
"""Parameters and tags that name the algorithm; the first one present is used."""
TASKS = ("env_id", "env", "environment", "environment.id", "env_name", "task")
"""Parameters and tags that name the task."""
SEEDS = ("seed", "random_seed", "train.seed")
"""Parameters and tags that name the seed."""
MILLISECOND = 1e-3
ENDINGS: Mapping[str, tuple[Ending, Failure | None]] = {
    "FAILED": (Ending.FAILED, Failure.CRASHED),
    "KILLED": (Ending.INTERRUPTED, None),
    "RUNNING": (Ending.INTERRUPTED, None),
    "SCHEDULED": (Ending.INTERRUPTED, None),
}
"""The meaning of each status other than FINISHED."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRun:
    """A run as MLflow stores it.

    Attributes:
        id: MLflow's id of the run.
        name: Its name.
        status: `FINISHED` or another status.
        started: Milliseconds since 1970.
        settings: Parameters and tags, by name.
        metrics: Names of its metrics.
    """

    id: str
    name: str
    status: str
    started: int | None
    settings: Mapping[str, str] = field(default_factory=dict)
    metrics: Sequence[str] = ()


ReadMetric = Callable[[str, str], Iterable[Value]]
"""Returns the values of a metric of a run, by their ids, with steps as logged."""


def imported_runs(
    runs_read: Sequence[SourceRun],
    read_metric: ReadMetric,
    source: tuple[str, str],
    options: ImportOptions,
) -> ImportedStudy:
    """Convert the runs that have the metric; the others are listed as left out.

    Args:
        runs_read: All runs.
        read_metric: Reads the values of a metric.
        source: Name and sha256 of the source.
        options: The user's options.

    Raises:
        MalformedError: No run has the metric, or a run's label or task is unknown.
        ConfigError: The user does not give the unit of steps, or the conditions leave no run.
    """
    every = sorted({metric for run in runs_read for metric in run.metrics})
    series = choose_series(source[0], every, options)
    with_metric = [run for run in runs_read if series.name in run.metrics]
    naming = RunNaming(options)
    named = [(run, naming.identify(_facts(run, source[0]))) for run in with_metric]
    naming.check()
    unit = options.required_unit("mlflow")
    runs = tuple(
        _imported_run(run, identity, series, read_metric, source, unit)
        for run, identity in named
        if identity is not None
    )
    without = [
        f"run {run.name}, without {series.name}"
        for run in runs_read
        if series.name not in run.metrics
    ]
    return ImportedStudy(kind="mlflow", runs=runs, left_out=(*naming.left_out(), *without))


def _imported_run(
    run: SourceRun,
    identity: RunIdentity,
    series: Series,
    read_metric: ReadMetric,
    source: tuple[str, str],
    unit: StepUnit,
) -> ImportedRun:
    name = _name(run, source[0])
    where = f"run {name}"
    values = [
        (unit.convert(parse_whole_number(step, source[0], where, "a step")), value, time)
        for step, value, time in read_metric(run.id, series.name)
    ]
    _check_steps(source[0], where, series.name, values)
    points, failure = until_not_finite(group_by_step(values))
    return ImportedRun(
        name=name,
        label=identity.label,
        task=identity.task,
        seed=identity.seed,
        points=points,
        returns=series.returns,
        files=(source,),
        settings=identity.settings,
        details={
            "run_id": run.id,
            "metric": series.name,
            "told": details_as_text(run.settings),
        },
        started=None if run.started is None else run.started * MILLISECOND,
        trouble=failure or _trouble(run, points),
        parameters=_training_parameters(run),
        metric=series.metric,
    )


def _facts(run: SourceRun, source: str) -> RunFacts:
    name = _name(run, source)
    where = f"run {name}"
    seed = _named_by(run, SEEDS)
    return RunFacts(
        name=where,
        source=source,
        parameters={"status": run.status, "name": name, **run.settings},
        label=_named_by(run, LABELS),
        task=_named_by(run, TASKS),
        seed=None if seed is None else parse_whole_number(seed, source, where, "seed"),
        where=where,
    )


def _name(run: SourceRun, source: str) -> str:
    return parse_name(run.name or run.id, source, f"run {run.id}", "its name")


def _training_parameters(run: SourceRun) -> dict[str, str]:
    """The parameters and tags without those of MLflow itself and those that name the run."""
    return {
        key: value
        for key, value in run.settings.items()
        if not key.startswith("mlflow.") and key not in {*LABELS, *TASKS, *SEEDS}
    }


def _named_by(run: SourceRun, keys: Sequence[str]) -> str | None:
    return next((run.settings[key] for key in keys if key in run.settings), None)


def _check_steps(name: str, where: str, metric: str, values: Sequence[Value]) -> None:
    if len(values) > 1 and len({step for step, _, _ in values}) == 1:
        what = f"all {len(values)} values of {shortened_repr(metric)} are at step {values[0][0]}"
        raise malformed_error(name, where, f"{what}: it was logged without steps")


def _trouble(run: SourceRun, points: Sequence[EvaluationPoint]) -> EarlyEnd | None:
    if run.status not in ENDINGS:
        return None
    ending, failure = ENDINGS[run.status]
    step = points[-1].step if points else 0
    # Part of the digest of an imported run (see `until_not_finite`): the text must not change.
    reason = f"MLflow says {run.status}"
    return EarlyEnd(step=step, ending=ending, reason=reason, failure=failure)
