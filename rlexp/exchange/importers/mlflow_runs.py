"""Runs of MLflow, from wherever they were read: their metric becomes a curve."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rlexp.exchange.importers.parse_values import (
    details_as_text,
    parse_name,
    parse_whole_number,
    shortened_repr,
)
from rlexp.exchange.importers.series import Value, choose_series, group_by_step
from rlexp.exchange.importers.study import (
    EarlyEnd,
    ImportedRun,
    ImportedStudy,
    Point,
    Unit,
    Wanted,
    malformed_error,
    until_not_finite,
)
from rlexp.records.events import Ending, Failure

LABELS = ("algo", "algorithm", "algorithm.name", "label", "exp_name", "agent", "method")
"""Parameters and tags that name what learns, the first that is there counts."""
TASKS = ("env_id", "env", "environment", "environment.id", "env_name", "task")
"""Those that name the task."""
SEEDS = ("seed", "random_seed", "train.seed")
"""Those that name the seed."""
MILLISECOND = 1e-3
ENDINGS: Mapping[str, tuple[Ending, Failure | None]] = {
    "FAILED": (Ending.FAILED, Failure.CRASHED),
    "KILLED": (Ending.INTERRUPTED, None),
    "RUNNING": (Ending.INTERRUPTED, None),
    "SCHEDULED": (Ending.INTERRUPTED, None),
}
"""What a status that is not FINISHED means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRun:
    """A run as MLflow knows it.

    Attributes:
        id: Its identity there.
        name: What it is called.
        status: `FINISHED` or another word.
        started: Milliseconds since 1970.
        told: Parameters and tags, by name.
        metrics: Names of its metrics.
    """

    id: str
    name: str
    status: str
    started: int | None
    told: Mapping[str, str] = field(default_factory=dict)
    metrics: Sequence[str] = ()


ReadMetric = Callable[[str, str], Iterable[Value]]
"""The values of a metric, by the run's identity and the metric's name, with raw steps."""


def imported_runs(
    found: Sequence[SourceRun],
    history: ReadMetric,
    source: tuple[str, str],
    wanted: Wanted,
    unit: Unit,
) -> ImportedStudy:
    """Read the runs that have the metric; those that have not are left out, and that is said.

    Args:
        found: All runs.
        history: Reads a metric.
        source: Name and sha256 of what is read.
        wanted: What the user says.
        unit: Of the steps.

    Raises:
        MalformedError: No run has the metric, or nothing says what a run is.
    """
    every = sorted({metric for run in found for metric in run.metrics})
    metric, returns, _ = choose_series(source[0], every, wanted)
    having = [run for run in found if metric in run.metrics]
    runs = []
    for run in having:
        name = parse_name(run.name or run.id, source[0], f"run {run.id}", "its name")
        where = f"run {name}"
        values = [
            (unit.convert(parse_whole_number(step, source[0], where, "a step")), value, time)
            for step, value, time in history(run.id, metric)
        ]
        _check_steps(source[0], where, metric, values)
        points, broken = until_not_finite(group_by_step(values))
        runs.append(
            ImportedRun(
                name=name,
                label=wanted.label or _name_from(run, LABELS, "label", source[0], where),
                task=wanted.task or _name_from(run, TASKS, "task", source[0], where),
                seed=_seed(run, source[0], where),
                points=points,
                returns=returns,
                files=(source,),
                details={"run_id": run.id, "metric": metric, "told": details_as_text(run.told)},
                started=None if run.started is None else run.started * MILLISECOND,
                trouble=broken or _trouble(run, points),
            )
        )
    left_out = [f"run {run.name}, without {metric}" for run in found if metric not in run.metrics]
    return ImportedStudy(kind="mlflow", runs=tuple(runs), left_out=tuple(left_out))


def _name_from(run: SourceRun, keys: Sequence[str], option: str, name: str, where: str) -> str:
    for key in keys:
        if key in run.told:
            return parse_name(run.told[key], name, where, key)
    what = f"none of {', '.join(keys)} is a parameter or tag of it: give --{option}"
    raise malformed_error(name, where, what)


def _seed(run: SourceRun, name: str, where: str) -> int | None:
    for key in SEEDS:
        if key in run.told:
            return parse_whole_number(run.told[key], name, where, key)
    return None


def _check_steps(name: str, where: str, metric: str, values: Sequence[Value]) -> None:
    if len(values) > 1 and len({step for step, _, _ in values}) == 1:
        what = f"all {len(values)} values of {shortened_repr(metric)} stand at step {values[0][0]}"
        raise malformed_error(name, where, f"{what}: it was logged without steps")


def _trouble(run: SourceRun, points: Sequence[Point]) -> EarlyEnd | None:
    if run.status not in ENDINGS:
        return None
    ending, failure = ENDINGS[run.status]
    step = points[-1].step if points else 0
    reason = f"MLflow says {run.status}"
    return EarlyEnd(step=step, ending=ending, reason=reason, failure=failure)
