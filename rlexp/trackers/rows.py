"""From the events of a run to the rows that trackers take."""

import statistics
from collections.abc import Iterable, Iterator
from math import isfinite

from rlexp.records.events import Evaluated, Event, Measured
from rlexp.trackers import Row


def rows_of(events: Iterable[Event]) -> list[Row]:
    """One row for each environment step at which something was measured or evaluated.

    Args:
        events: Of attempts, in the order in which they happened; only what counts.

    Returns:
        By step, each step once. Of two values of one metric at one step, the later stands.
    """
    times: dict[int, float] = {}
    metrics: dict[int, dict[str, float]] = {}
    for event in events:
        if isinstance(event, Measured | Evaluated):
            times.setdefault(event.step, event.time)
            metrics.setdefault(event.step, {}).update(_metrics(event))
    return [Row(step=s, time=times[s], metrics=metrics[s]) for s in sorted(metrics)]


def merged(first: list[Row], second: list[Row]) -> list[Row]:
    """Rows of both, those of one step as one."""
    by_step = {row.step: row for row in first}
    for row in second:
        earlier = by_step.get(row.step)
        if earlier is not None:
            both = {**earlier.metrics, **row.metrics}
            by_step[row.step] = Row(step=row.step, time=earlier.time, metrics=both)
        else:
            by_step[row.step] = row
    return [by_step[step] for step in sorted(by_step)]


def _metrics(event: Measured | Evaluated) -> Iterator[tuple[str, float]]:
    if isinstance(event, Measured):
        yield from event.metrics.items()
        return
    # The final policy's fresh episodes decide the score; they are no point of the curve.
    prefix = "final" if event.final else "eval"
    yield f"{prefix}/mean_reward", event.mean
    yield f"{prefix}/std_reward", _spread(event)
    if event.lengths:
        yield f"{prefix}/mean_ep_length", statistics.fmean(event.lengths)
    for name, values in (event.measures or {}).items():
        yield f"{prefix}/{name}", statistics.fmean(values)


def _spread(event: Evaluated) -> float:
    """Standard deviation over the episodes, dividing by n as stable-baselines3 does."""
    if not isfinite(event.mean) or not all(map(isfinite, event.returns)):
        return float("nan")
    return statistics.pstdev(event.returns, event.mean)
