"""What W&B shows of a run and of an experiment, as plain data."""

import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from math import isfinite, isnan
from typing import Any

from rlexp.trackers import Aggregate, Ended, Summary, TrackedExperiment, TrackedRun

LONGEST = 128
"""Characters of a name or a group."""
COUNTS = ("label", "task", "phase", "n", "planned", "failed", "missing")
INTERVAL = ("low", "high", "level", "method", "seed", "in words")
_ACTIVE = re.compile(
    r"<\s*(script|foreignobject|iframe|object|embed)|\bon\w+\s*=|javascript:", re.IGNORECASE
)


def introduction(run: TrackedRun) -> dict[str, Any]:
    """What is said of a run when it begins."""
    about = {
        "label": run.label,
        "task": run.task,
        "phase": run.phase,
        "seed": run.seed,
        "trial": run.trial,
        "fingerprint": run.fingerprint,
        "commit": run.commit,
    }
    return {
        "id": run.id,
        "name": _short(f"{run.label} {run.task} {run.phase} {run.seed}"),
        "group": _short(run.group),
        "job_type": run.phase,
        "config": _shown({**run.configuration, **about}),
    }


def ending(ended: Ended) -> dict[str, Any]:
    """What is said of a run when no process works at it any more."""
    about = {
        "score": ended.score,
        "score_rule": ended.score_rule,
        "state": ended.state,
        "failure": ended.failure,
        "reason": ended.reason,
        "weights": ended.weights,
        "attempts": ended.attempts,
        "seconds": ended.seconds,
    }
    return {
        # What does not hold any more is said to be nothing, or W&B would go on showing it.
        "summary": _shown(about),
        "exit_code": 0 if ended.state in {"completed", "pruned"} else 1,
    }


def overview(experiment: TrackedExperiment, summary: Summary) -> dict[str, Any]:
    """What is said of an experiment; the same each time it is the same."""
    values: dict[str, Any] = {}
    for aggregate in summary.aggregates:
        values.update(_values(aggregate))
    if summary.winner is not None:
        values["winner/trial"] = summary.winner.trial
        for key, value in summary.winner.parameters.items():
            values[f"winner/{key}"] = value
    return {
        "id": sha256(f"summary of {experiment.id}".encode()).hexdigest()[:32],
        "name": _short(experiment.name),
        "config": {"experiment": experiment.name, "is_sweep": experiment.is_sweep},
        "columns": (*COUNTS, _title(summary), *INTERVAL),
        "rows": [_shown(_row(aggregate)) for aggregate in summary.aggregates],
        "figures": {name: svg for name, svg in summary.figures.items() if _is_still(svg)},
        "summary": _shown(values),
    }


def _row(aggregate: Aggregate) -> list[Any]:
    a = aggregate
    counts = [a.label, a.task, a.phase, a.n, a.planned, a.failed, a.missing]
    found = a.estimate
    if found is None:
        return [*counts, *[None] * len(INTERVAL), a.in_words]
    how = (found.level, found.method, found.seed)
    return [*counts, found.estimate, found.low, found.high, *how, a.in_words]


def _title(summary: Summary) -> str:
    """What the aggregate is called, which is the same of every label."""
    return next((a.title for a in summary.aggregates), "IQM")


def _values(aggregate: Aggregate) -> Iterator[tuple[str, float]]:
    """Single values by which a project's experiments are sorted."""
    names = (aggregate.metric, "low", "high", "n")
    for name, value in zip(names, (*aggregate.numbers.values(), aggregate.n), strict=True):
        if value is not None:
            yield f"{name}/{aggregate.label}/{aggregate.task}", value


def _shown(value: Any) -> Any:
    """The value, what is no number in the words of W&B's pages: outside of rows it drops them."""
    if isinstance(value, Mapping):
        return {str(key): _shown(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(item) for item in value]
    if isinstance(value, float) and not isfinite(value):
        return "NaN" if isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value


def _is_still(svg: str) -> bool:
    """Whether a figure holds nothing that a browser would execute."""
    return _ACTIVE.search(svg) is None


def _short(words: str) -> str:
    """The words, or their beginning with a digest of the whole, so that none becomes another."""
    if len(words) <= LONGEST:
        return words
    return f"{words[: LONGEST - 9]} {sha256(words.encode()).hexdigest()[:8]}"
