"""Export for marl-eval: JSON of environment → task → algorithm → run → step → metrics."""

import json
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from rlexp.errors import RecordError
from rlexp.exchange.exporters.exported_runs import CommonSeedRuns, ExportedRun
from rlexp.records.events import Evaluated

ENVIRONMENT = "gymnasium"
"""The environment suite under which all tasks are written; marl-eval aggregates within a suite."""


def as_marl_eval(rectangle: CommonSeedRuns) -> bytes:
    """JSON with all evaluations of every run; `absolute_metrics` are those of the final policy.

    Raises:
        RecordError: An evaluation has a return that is not finite.
    """
    lengths = all(len(e.lengths) == len(e.returns) for e in _all_evaluations(rectangle))
    tasks: dict[str, Any] = {
        task: {label: _runs(rectangle, label, task, lengths) for label in rectangle.labels}
        for task in rectangle.tasks
    }
    text = json.dumps({ENVIRONMENT: tasks}, indent=1, allow_nan=False)
    return (text + "\n").encode()


def evaluations_by_task(rectangle: CommonSeedRuns) -> Mapping[str, int]:
    """The number of evaluations during one training on each task."""
    first = {task: o for (_, task, _), o in rectangle.runs.items()}
    return {task: len(first[task].record.evaluations) for task in rectangle.tasks}


def _all_evaluations(rectangle: CommonSeedRuns) -> Iterator[Evaluated]:
    for outcome in rectangle.runs.values():
        yield from outcome.record.evaluations
        if outcome.record.final is not None:
            yield outcome.record.final


def _runs(rectangle: CommonSeedRuns, label: str, task: str, lengths: bool) -> dict[str, Any]:
    seeds = rectangle.seeds[label]
    return {f"seed_{s}": _run(rectangle.runs[label, task, s], lengths) for s in seeds}


def _run(outcome: ExportedRun, lengths: bool) -> dict[str, Any]:
    record = outcome.record
    steps = {
        f"step_{number}": {"step_count": e.step, **_metrics(outcome, e, lengths)}
        for number, e in enumerate(record.evaluations, start=1)
    }
    # An imported run may lack an evaluation of its final policy; then the last one counts.
    last = record.final or record.evaluations[-1]
    # The absolute metrics must come last: marl-eval reads them from the last entry.
    return {**steps, "absolute_metrics": _metrics(outcome, last, lengths)}


def _metrics(outcome: ExportedRun, event: Evaluated, lengths: bool) -> dict[str, list[float]]:
    """Lists with one value for each episode; lengths only if every run has them."""
    if not all(map(isfinite, event.returns)):
        raise RecordError(
            f"run {outcome.run} has a return at step {event.step} that is not finite, which "
            "marl-eval cannot store: leave its label out (EXPERIMENT/LABEL), or export csv",
        )
    episode_lengths = {"length": [float(n) for n in event.lengths]} if lengths else {}
    return {"return": list(event.returns), **episode_lengths}
