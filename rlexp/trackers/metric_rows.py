"""Conversion of a run's events into the rows that trackers upload."""

from collections.abc import Iterable

from rlexp.records.events import Evaluated, Event, Measured
from rlexp.records.logged_values import logged_values
from rlexp.records.system_metrics import SystemMeasurement
from rlexp.trackers import MetricRow


def rows_of(events: Iterable[Event]) -> list[MetricRow]:
    """One row for each environment step at which something was measured or evaluated.

    Args:
        events: Events of the attempts in their order, without those that a later attempt replaced.

    Returns:
        Rows in rising order of steps, each step once. The later of two values of one metric at
        one step is kept.
    """
    times: dict[int, float] = {}
    metrics: dict[int, dict[str, float]] = {}
    for event in events:
        if isinstance(event, Measured | Evaluated):
            times.setdefault(event.step, event.time)
            metrics.setdefault(event.step, {}).update(logged_values(event))
    return [MetricRow(step=s, time=times[s], metrics=metrics[s]) for s in sorted(metrics)]


def rows_of_measurements(measurements: Iterable[SystemMeasurement]) -> list[MetricRow]:
    """One row for each environment step at which the machine was measured; the last one counts."""
    by_step = {
        m.step: MetricRow(step=m.step, time=m.time, metrics=m.tracked()) for m in measurements
    }
    return [by_step[step] for step in sorted(by_step)]


def merge_rows(first: list[MetricRow], second: list[MetricRow]) -> list[MetricRow]:
    """The rows of both lists sorted by step; rows of one step are joined."""
    by_step = {row.step: row for row in first}
    for row in second:
        earlier = by_step.get(row.step)
        if earlier is not None:
            both = {**earlier.metrics, **row.metrics}
            by_step[row.step] = MetricRow(step=row.step, time=earlier.time, metrics=both)
        else:
            by_step[row.step] = row
    return [by_step[step] for step in sorted(by_step)]
