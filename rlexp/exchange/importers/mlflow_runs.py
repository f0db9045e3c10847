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
from rlexp.exchange.importers.parse_values import (
    details_as_text,
    parse_name,
    parse_whole_number,
    shortened_repr,
)
from rlexp.exchange.importers.series import Value, choose_series, group_by_step
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
    unit: StepUnit,
) -> ImportedStudy:
    """Convert the runs that have the metric; the others are listed as left out.

    Args:
        runs_read: All runs.
        read_metric: Reads the values of a metric.
        source: Name and sha256 of the source.
        options: The user's options.
        unit: Unit of the steps.

    Raises:
        MalformedError: No run has the metric, or a run's label or task is unknown.
    """
    every = sorted({metric for run in runs_read for metric in run.metrics})
    metric, returns, _ = choose_series(source[0], every, options)
    with_metric = [run for run in runs_read if metric in run.metrics]
    runs = []
    for run in with_metric:
        name = parse_name(run.name or run.id, source[0], f"run {run.id}", "its name")
        where = f"run {name}"
        values = [
            (unit.convert(parse_whole_number(step, source[0], where, "a step")), value, time)
            for step, value, time in read_metric(run.id, metric)
        ]
        _check_steps(source[0], where, metric, values)
        points, failure = until_not_finite(group_by_step(values))
        runs.append(
            ImportedRun(
                name=name,
                label=options.label or _name_from(run, LABELS, "label", source[0], where),
                task=options.task or _name_from(run, TASKS, "task", source[0], where),
                seed=_seed(run, source[0], where),
                points=points,
                returns=returns,
                files=(source,),
                details={
                    "run_id": run.id,
                    "metric": metric,
                    "told": details_as_text(run.settings),
                },
                started=None if run.started is None else run.started * MILLISECOND,
                trouble=failure or _trouble(run, points),
            )
        )
    left_out = [
        f"run {run.name}, without {metric}" for run in runs_read if metric not in run.metrics
    ]
    return ImportedStudy(kind="mlflow", runs=tuple(runs), left_out=tuple(left_out))


def _name_from(run: SourceRun, keys: Sequence[str], option: str, name: str, where: str) -> str:
    for key in keys:
        if key in run.settings:
            return parse_name(run.settings[key], name, where, key)
    what = f"it has no parameter or tag {', '.join(keys)}: give --{option}"
    raise malformed_error(name, where, what)


def _seed(run: SourceRun, name: str, where: str) -> int | None:
    for key in SEEDS:
        if key in run.settings:
            return parse_whole_number(run.settings[key], name, where, key)
    return None


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
