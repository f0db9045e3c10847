"""The current results of an experiment, written to the MLflow runs of its groups."""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from rlexp.errors import TrackerRefused
from rlexp.trackers import ExperimentSummary, TrackedAggregate, TrackedWinner
from rlexp.trackers.mlflow_limits import MetricValue, batches, legal_key, tags_of
from rlexp.trackers.mlflow_service import ID, MLflowRun, Service

MODEL = "model"
"""The folder of a run's artifacts that holds its model."""
FIGURES = "figures"
REPORT = "report"
SENT = "rlexp.report"
"""The tag with the digest of the figures and files that were uploaded."""
ABOUT = "rlexp.aggregates"
"""The tag with the names of all tags that describe aggregates."""
COUNTS = ("n", "planned", "failed", "missing")
METRIC = "metric"
"""The tag with the name of the aggregate."""
MOST = 900


@dataclass(frozen=True, slots=True)
class SummaryWriter:
    """Writes the results of an experiment to MLflow.

    Attributes:
        service: The connection to MLflow.
        parent: Returns the MLflow run of a group.
        register: The name under which a winner's model is registered; None: it is not.
    """

    service: Service
    parent: Callable[[str], MLflowRun]
    register: str | None

    def __call__(self, summary: ExperimentSummary) -> None:
        """Write the results of every group; replaces the earlier ones.

        Raises:
            TrackerUnreachable: MLflow does not answer.
            TrackerRefused: MLflow rejects a request, or there is no model to register.
        """
        by_label: dict[str, list[TrackedAggregate]] = defaultdict(list)
        for aggregate in summary.aggregates:
            by_label[aggregate.label].append(aggregate)
        for group in dict.fromkeys([*summary.groups, *by_label]):
            self._write_group(self.parent(group), by_label[group], summary)
        if self.register is not None and summary.winner is not None:
            self._register(self.register, summary.winner, summary.aggregates)

    def _write_group(
        self, parent: MLflowRun, aggregates: Sequence[TrackedAggregate], summary: ExperimentSummary
    ) -> None:
        now = time.time()
        self._measure(parent, _aggregate_metrics(aggregates), int(now * 1000))
        self._tag(parent, aggregates)
        self._upload(parent, summary)
        complete = not any(aggregate.missing for aggregate in aggregates)
        if complete and parent.status != "FINISHED":
            self.service.set_status(parent.id, "FINISHED", now)
        elif not complete and parent.status != "RUNNING":
            self.service.set_status(parent.id, "RUNNING")

    def _measure(self, parent: MLflowRun, numbers: Mapping[str, float], now: int) -> None:
        """Write the numbers that changed, with times after those of the old numbers."""
        names = _number_names(parent)
        # MLflow cannot delete a metric: NaN replaces a number that no longer exists.
        removed = {
            k: math.nan
            for k in parent.metrics
            if k.partition("/")[0] in names and k not in numbers
        }
        changed = []
        for key, value in {**removed, **numbers}.items():
            latest = parent.metrics.get(key)
            if latest is None or not _is_same(latest.value, value):
                # MLflow shows the value with the newest time, and clocks of machines differ.
                then = now if latest is None else max(now, latest.time + 1)
                changed.append(MetricValue(key, value, then, 0))
        for batch in batches(changed, MOST):
            self.service.measure(parent.id, batch)

    def _tag(self, parent: MLflowRun, aggregates: Sequence[TrackedAggregate]) -> None:
        tags = dict(tags_of(_aggregate_tags(aggregates)))
        names = ",".join(tags)
        before = parent.tags.get(ABOUT, "").split(",")
        self.service.untag(parent.id, [k for k in before if k in parent.tags and k not in tags])
        if any(parent.tags.get(key) != value for key, value in tags.items()):
            self.service.write(parent.id, [*tags.items(), *tags_of({ABOUT: names})])

    def _upload(self, parent: MLflowRun, summary: ExperimentSummary) -> None:
        content: dict[str, Path | str] = {
            f"{FIGURES}/{name}.svg": text for name, text in summary.figures.items()
        }
        content |= {f"{REPORT}/{name}": path for name, path in summary.files.items()}
        digest = _digest(content)
        if not content or parent.tags.get(SENT) == digest:
            return
        for name, what in content.items():
            self.service.upload(parent.id, name, what)
        # Written last: an upload that breaks off has no digest and is repeated.
        self.service.write(parent.id, [(SENT, digest)])

    def _register(
        self, name: str, winner: TrackedWinner, aggregates: Sequence[TrackedAggregate]
    ) -> None:
        if winner.run is None:
            return
        runs = self.service.find(winner.run.id)
        run = next((run for run in runs if self.service.holds(run.id, MODEL)), None)
        if run is None:
            raise TrackerRefused(
                f"tracker.mlflow.register: the winner's run {winner.run.name} has no model in "
                "MLflow; it was uploaded with tracker.mlflow.models=false, or is not complete"
            )
        tags = {"trial": winner.trial, ID: winner.run.id}
        for aggregate in aggregates:
            if (aggregate.label, aggregate.task) == (winner.run.label, winner.run.task):
                tags |= {
                    "n": aggregate.n,
                    **aggregate.numbers,
                    "score_rule": aggregate.score_rule,
                }
        self.service.register(name, run, MODEL, dict(tags_of(tags)))


def _aggregate_metrics(aggregates: Sequence[TrackedAggregate]) -> dict[str, float]:
    """Numbers of a group by key; keys contain the task if the group has several tasks."""
    numbers = {}
    for aggregate in aggregates:
        counts = {name: getattr(aggregate, name) for name in COUNTS}
        for name, number in {**aggregate.numbers, **counts}.items():
            if number is not None:
                numbers[legal_key(name + _key_suffix(aggregate, aggregates))] = float(number)
    return numbers


def _aggregate_tags(aggregates: Sequence[TrackedAggregate]) -> dict[str, object]:
    texts: dict[str, object] = {}
    for aggregate in aggregates:
        values = {
            "task": aggregate.task,
            "phase": aggregate.phase,
            "score_rule": aggregate.score_rule,
            METRIC: aggregate.metric,
            "in_words": aggregate.in_words,
            **_interval(aggregate),
        }
        which = _key_suffix(aggregate, aggregates)
        texts |= {f"{name}{which}": value for name, value in values.items()}
    return texts


def _interval(aggregate: TrackedAggregate) -> dict[str, object]:
    """How the interval was computed, or why there is none."""
    estimate = aggregate.estimate
    if estimate is None:
        return {}
    settings = {
        "method": estimate.method,
        "level": estimate.level,
        "resampling_seed": estimate.seed,
    }
    return {**settings, "reason": estimate.reason}


def _key_suffix(aggregate: TrackedAggregate, aggregates: Sequence[TrackedAggregate]) -> str:
    """The end of a key that distinguishes an aggregate from the others of its group."""
    phases = {other.phase for other in aggregates}
    tasks = {other.task for other in aggregates}
    phase = f"/{aggregate.phase}" if len(phases) > 1 else ""
    return phase + (f"/{aggregate.task}" if len(tasks) > 1 else "")


def _number_names(parent: MLflowRun) -> set[str]:
    """Names of all numbers that a group may have, under every aggregate used so far."""
    led = {v for k, v in parent.tags.items() if k.partition("/")[0] == METRIC} | {"iqm"}
    return {*COUNTS, *(f"{name}{end}" for name in led for end in ("", "_low", "_high"))}


def _is_same(value: float, other_value: float) -> bool:
    return value == other_value or (math.isnan(value) and math.isnan(other_value))


def _digest(content: Mapping[str, Path | str]) -> str:
    total = sha256()
    for name, what in sorted(content.items()):
        text = what.encode() if isinstance(what, str) else what.read_bytes()
        total.update(f"{name} {sha256(text).hexdigest()}\n".encode())
    return total.hexdigest()
