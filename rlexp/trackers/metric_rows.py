"""Conversion of a run's events into the rows that trackers upload."""

import statistics
from collections.abc import Iterable, Iterator
from math import isfinite

from rlexp.records.events import Evaluated, Event, Measured
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
            metrics.setdefault(event.step, {}).update(_metrics(event))
    return [MetricRow(step=s, time=times[s], metrics=metrics[s]) for s in sorted(metrics)]


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


def _metrics(event: Measured | Evaluated) -> Iterator[tuple[str, float]]:
    if isinstance(event, Measured):
        yield from event.metrics.items()
        return
    # The final evaluation decides the score. Under another prefix it cannot become a point of
    # the learning curve.
    prefix = "final" if event.final else "eval"
    yield f"{prefix}/mean_reward", event.mean
    yield f"{prefix}/std_reward", _standard_deviation(event)
    if event.lengths:
        yield f"{prefix}/mean_ep_length", statistics.fmean(event.lengths)
    for name in event.measures or {}:
        # An episode without the measure does not hide those of the others.
        if (mean := event.mean_of_reported(name)) is not None:
            yield f"{prefix}/{name}", mean


def _standard_deviation(event: Evaluated) -> float:
    """Standard deviation of the returns, divided by n as in stable-baselines3."""
    if not isfinite(event.mean) or not all(map(isfinite, event.returns)):
        return float("nan")
    return statistics.pstdev(event.returns, event.mean)
