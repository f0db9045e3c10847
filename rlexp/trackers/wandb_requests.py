"""The requests to the process of W&B: what W&B shows of runs and of an experiment."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from hashlib import sha256
from math import isfinite, isnan
from typing import Any

from rlexp.protocol.spec import SETTABLE
from rlexp.trackers import (
    ExperimentSummary,
    RunEnd,
    TrackedAggregate,
    TrackedAnswer,
    TrackedExperiment,
    TrackedRun,
)

LONGEST = 128
"""Characters of a name or a group."""
LONGEST_TAG = 64
SCORES = ("label", "task", "phase", "seed", "state", "score", "score_rule")
COUNTS = ("label", "task", "phase", "n", "planned", "failed", "missing")
INTERVAL = ("low", "high", "level", "method", "seed", "in words")
SCORED = "completed"
"""The state of every run with a score."""
_ACTIVE = re.compile(
    r"<\s*(script|foreignobject|iframe|object|embed)|\bon\w+\s*=|javascript:", re.IGNORECASE
)


def begin_request(experiment: TrackedExperiment, run: TrackedRun) -> dict[str, Any]:
    """The request that opens a run.

    A group holds the seeds of one label on one task in one phase: W&B draws means over groups, and
    scores of two phases or tasks are never taken together.
    """
    shown = _label_in_experiment(experiment, run)
    about = {
        "experiment": experiment.name,
        "folder": f"runs/{experiment.name}/{run.name}",
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
        "name": _short(f"{experiment.name} {shown} seed {run.seed}"),
        "group": _short(f"{experiment.name}/{shown}"),
        "job_type": run.phase,
        "tags": [_short(tag, LONGEST_TAG) for tag in (experiment.name, run.phase, *run.tags)],
        "config": _shown({**run.configuration, **about}),
        "configuration": configuration_artifact(run.fingerprint, run.configuration),
    }


def configuration_artifact(
    fingerprint: str, configuration: Mapping[str, Any]
) -> dict[str, str | None]:
    """The artifact with a configuration, which its seeds and its report share as their input."""
    shared = {key: configuration[key] for key in SETTABLE if key in configuration}
    name = f"configuration-{fingerprint[:16]}"
    return {"name": name, "content": json.dumps(_shown(shared), indent=2, sort_keys=True)}


def _label_in_experiment(experiment: TrackedExperiment, run: TrackedRun) -> str:
    """The label, with the task where there are several, and with the phase unless it is `test`."""
    defined = experiment.definition.get("configurations") or []
    tasks = {str(configuration["task"]) for configuration in defined}
    words = [run.label]
    if len(tasks) > 1:
        words.append(run.task)
    if run.phase != "test":
        words.append(run.phase)
    return " ".join(words)


def end_request(ended: RunEnd) -> dict[str, Any]:
    """The request that ends a run after its last attempt."""
    about = {
        "score": ended.score,
        "score_rule": ended.score_rule,
        "state": ended.state,
        "failure": ended.failure,
        "reason": ended.reason,
        "weights": ended.weights,
        "attempts": ended.attempts,
        "seconds": ended.seconds,
        # W&B's own run time is that of the push, and W&B overwrites every other value of it.
        "training_seconds": ended.training_seconds,
    }
    return {
        # Values that no longer apply are sent as null, or W&B would keep showing the old ones.
        "summary": _shown(about),
        "exit_code": 0 if ended.state in {"completed", "pruned"} else 1,
    }


def summary_request(experiment: TrackedExperiment, summary: ExperimentSummary) -> dict[str, Any]:
    """The request with the current results of an experiment; the same results give the same one."""
    values: dict[str, Any] = {}
    for aggregate in summary.aggregates:
        values.update(_values(aggregate))
    if summary.winner is not None:
        values["winner/trial"] = summary.winner.trial
        for key, value in summary.winner.parameters.items():
            values[f"winner/{key}"] = value
    if summary.answer is not None:
        values.update(_answer_values(summary.answer))
    return {
        "id": sha256(f"summary of {experiment.id}".encode()).hexdigest()[:32],
        "name": _short(experiment.name),
        "tags": [_short(experiment.name, LONGEST_TAG)],
        "notes": _notes(experiment, summary),
        "config": {"experiment": experiment.name, "is_sweep": experiment.is_sweep},
        "columns": (*COUNTS, _title(summary), *INTERVAL),
        "rows": [_shown(_row(aggregate)) for aggregate in summary.aggregates],
        "score_columns": SCORES,
        "scores": [_shown(row) for a in summary.aggregates for row in _scores(a)],
        "configurations": _configurations(experiment, summary),
        "report_name": _report_name(experiment),
        "report": {name: str(path) for name, path in summary.files.items()},
        "figures": {name: svg for name, svg in summary.figures.items() if _is_still(svg)},
        "summary": _shown(values),
    }


def _answer_values(answer: TrackedAnswer) -> Iterator[tuple[str, float | str]]:
    """The answer in words, and the mean score of a sweep's winner in each phase."""
    yield "answer", answer.in_words
    for phase in answer.phases:
        if phase.mean is not None:
            yield f"winner/mean_{phase.phase}", phase.mean.estimate
    if answer.optimism is not None:
        yield "winner/optimism", answer.optimism


def _notes(experiment: TrackedExperiment, summary: ExperimentSummary) -> str:
    """The notes of the summary run, which W&B shows first: the answer, and where the report is."""
    command = shlex.join(["rlexp", "report", experiment.name])
    report = (
        f"The report is the artifact `{_report_name(experiment)}` of this run."
        if summary.files
        else f"No report is attached. To write one: `{command}`."
    )
    answer = [] if summary.answer is None else [summary.answer.in_words]
    return "\n\n".join([*answer, f"{report} Records: `runs/{experiment.name}`."])


def _row(aggregate: TrackedAggregate) -> list[Any]:
    a = aggregate
    counts = [a.label, a.task, a.phase, a.n, a.planned, a.failed, a.missing]
    estimate = a.estimate
    if estimate is None:
        return [*counts, *[None] * len(INTERVAL), a.in_words]
    method = (estimate.level, estimate.method, estimate.seed)
    return [*counts, estimate.estimate, estimate.low, estimate.high, *method, a.in_words]


def _scores(aggregate: TrackedAggregate) -> Iterator[list[Any]]:
    """A row for each planned run; one that failed or is missing has a state and no score."""
    a = aggregate
    for seed in sorted({*a.scores, *a.unscored}):
        state = a.unscored.get(seed, SCORED)
        yield [a.label, a.task, a.phase, seed, state, a.scores.get(seed), a.score_rule]


def _configurations(
    experiment: TrackedExperiment, summary: ExperimentSummary
) -> list[dict[str, str | None]]:
    """The configurations that a report compares: those of the definition, and a sweep's winner."""
    defined = experiment.definition.get("configurations") or []
    artifacts = [configuration_artifact(str(c["fingerprint"]), c) for c in defined]
    winner = summary.winner.run if summary.winner is not None else None
    if winner is not None:
        artifacts.append(configuration_artifact(winner.fingerprint, winner.configuration))
    return list({artifact["name"]: artifact for artifact in artifacts}.values())


def _report_name(experiment: TrackedExperiment) -> str:
    """The experiment's name in the characters that W&B allows, with its id."""
    return f"report-{re.sub(r'[^A-Za-z0-9_.-]', '-', experiment.name)[:80]}-{experiment.id[:8]}"


def _title(summary: ExperimentSummary) -> str:
    """The name of the aggregate, which all labels share."""
    return next((a.title for a in summary.aggregates), "IQM")


def _values(aggregate: TrackedAggregate) -> Iterator[tuple[str, float]]:
    """Single values by which W&B can sort the experiments of a project."""
    names = (aggregate.metric, "low", "high", "n")
    for name, value in zip(names, (*aggregate.numbers.values(), aggregate.n), strict=True):
        if value is not None:
            yield f"{name}/{aggregate.label}/{aggregate.task}", value


def _shown(value: Any) -> Any:
    """The value with non-finite numbers as texts, because W&B drops such numbers from summaries."""
    if isinstance(value, Mapping):
        return {str(key): _shown(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(item) for item in value]
    if isinstance(value, float) and not isfinite(value):
        return "NaN" if isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value


def _is_still(svg: str) -> bool:
    """Whether a figure contains nothing that a browser would execute."""
    return _ACTIVE.search(svg) is None


def _short(text: str, longest: int = LONGEST) -> str:
    """The text; one that is too long ends in a hash of the whole, so that texts stay different."""
    if len(text) <= longest:
        return text
    return f"{text[: longest - 9]} {sha256(text.encode()).hexdigest()[:8]}"
