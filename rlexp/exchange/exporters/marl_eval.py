"""Evaluations as marl-eval takes them: environment → task → algorithm → run → step → metrics."""

import json
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from rlexp.errors import RecordError
from rlexp.exchange.exporters.outcomes import Outcome, Rectangle
from rlexp.records.events import Evaluated

ENVIRONMENT = "gymnasium"
"""The suite that all tasks are said to be of; marl-eval aggregates over the tasks of one."""


def as_marl_eval(rectangle: Rectangle) -> bytes:
    """JSON with the evaluations of every run; `absolute_metrics` are those of the final policy.

    Raises:
        RecordError: A run's evaluation has a return that is no number.
    """
    lengths = all(len(e.lengths) == len(e.returns) for e in _every(rectangle))
    tasks: dict[str, Any] = {
        task: {label: _runs(rectangle, label, task, lengths) for label in rectangle.labels}
        for task in rectangle.tasks
    }
    text = json.dumps({ENVIRONMENT: tasks}, indent=1, allow_nan=False)
    return (text + "\n").encode()


def evaluations_by_task(rectangle: Rectangle) -> Mapping[str, int]:
    """The number of evaluations during training of a run on each task."""
    first = {task: o for (_, task, _), o in rectangle.runs.items()}
    return {task: len(first[task].record.evaluations) for task in rectangle.tasks}


def _every(rectangle: Rectangle) -> Iterator[Evaluated]:
    for outcome in rectangle.runs.values():
        yield from outcome.record.evaluations
        if outcome.record.final is not None:
            yield outcome.record.final


def _runs(rectangle: Rectangle, label: str, task: str, lengths: bool) -> dict[str, Any]:
    seeds = rectangle.seeds[label]
    return {f"seed_{s}": _run(rectangle.runs[label, task, s], lengths) for s in seeds}


def _run(outcome: Outcome, lengths: bool) -> dict[str, Any]:
    record = outcome.record
    steps = {
        f"step_{number}": {"step_count": e.step, **_metrics(outcome, e, lengths)}
        for number, e in enumerate(record.evaluations, start=1)
    }
    # An imported run may have no evaluation of its final policy but the last one in training.
    last = record.final or record.evaluations[-1]
    # What is absolute must come last: marl-eval takes the last entry for it.
    return {**steps, "absolute_metrics": _metrics(outcome, last, lengths)}


def _metrics(outcome: Outcome, event: Evaluated, lengths: bool) -> dict[str, list[float]]:
    """Lists with a value for each episode; lengths only where every run has them."""
    if not all(map(isfinite, event.returns)):
        raise RecordError(
            f"run {outcome.run} has a return at step {event.step} that is no number, which "
            "marl-eval has no place for: leave its label out (EXPERIMENT/LABEL), or export csv",
        )
    own = {"length": [float(n) for n in event.lengths]} if lengths else {}
    return {"return": list(event.returns), **own}
