"""How an experiment stands, on the runs of MLflow that stand for its groups."""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from rlexp.errors import TrackerRefused
from rlexp.trackers import Aggregate, Summary, Winner
from rlexp.trackers.mlflow_limits import MetricValue, batches, legal_key, tags_of
from rlexp.trackers.mlflow_service import ID, MLflowRun, Service

MODEL = "model"
"""The folder of a run's artifacts that holds its model."""
FIGURES = "figures"
REPORT = "report"
SENT = "rlexp.report"
"""The tag that says which figures and files a run has."""
ABOUT = "rlexp.aggregates"
"""The tag that names the tags of aggregates that a run has."""
COUNTS = ("n", "planned", "failed", "missing")
METRIC = "metric"
"""The tag that names the aggregate."""
MOST = 900


@dataclass(frozen=True, slots=True)
class SummaryWriter:
    """Says how an experiment stands.

    Attributes:
        service: Where.
        parent: The run that stands for a group.
        register: The name under which a winner's model is registered, if it is.
    """

    service: Service
    parent: Callable[[str], MLflowRun]
    register: str | None

    def __call__(self, summary: Summary) -> None:
        """Say it on every group; what was said before is replaced.

        Raises:
            TrackerUnreachable: MLflow does not answer.
            TrackerRefused: It does not take it, or there is no model to register.
        """
        told: dict[str, list[Aggregate]] = defaultdict(list)
        for aggregate in summary.aggregates:
            told[aggregate.label].append(aggregate)
        for group in dict.fromkeys([*summary.groups, *told]):
            self._say(self.parent(group), told[group], summary)
        if self.register is not None and summary.winner is not None:
            self._register(self.register, summary.winner, summary.aggregates)

    def _say(self, parent: MLflowRun, aggregates: Sequence[Aggregate], summary: Summary) -> None:
        now = time.time()
        self._measure(parent, _numbers(aggregates), int(now * 1000))
        self._tag(parent, aggregates)
        self._send(parent, summary)
        complete = not any(aggregate.missing for aggregate in aggregates)
        if complete and parent.status != "FINISHED":
            self.service.stands(parent.id, "FINISHED", now)
        elif not complete and parent.status != "RUNNING":
            self.service.stands(parent.id, "RUNNING")

    def _measure(self, parent: MLflowRun, wanted: Mapping[str, float], now: int) -> None:
        """Write the numbers that changed, newer than the old ones whatever the clock says."""
        ours = _number_names(parent)
        gone = {
            k: math.nan for k in parent.metrics if k.partition("/")[0] in ours and k not in wanted
        }
        changed = []
        for key, value in {**gone, **wanted}.items():
            latest = parent.metrics.get(key)
            if latest is None or not _is_same(latest.value, value):
                then = now if latest is None else max(now, latest.time + 1)
                changed.append(MetricValue(key, value, then, 0))
        for batch in batches(changed, MOST):
            self.service.measure(parent.id, batch)

    def _tag(self, parent: MLflowRun, aggregates: Sequence[Aggregate]) -> None:
        tags = dict(tags_of(_words(aggregates)))
        names = ",".join(tags)
        before = parent.tags.get(ABOUT, "").split(",")
        self.service.untag(parent.id, [k for k in before if k in parent.tags and k not in tags])
        if any(parent.tags.get(key) != value for key, value in tags.items()):
            self.service.write(parent.id, [*tags.items(), *tags_of({ABOUT: names})])

    def _send(self, parent: MLflowRun, summary: Summary) -> None:
        content: dict[str, Path | str] = {
            f"{FIGURES}/{name}.svg": text for name, text in summary.figures.items()
        }
        content |= {f"{REPORT}/{name}": path for name, path in summary.files.items()}
        digest = _digest(content)
        if not content or parent.tags.get(SENT) == digest:
            return
        for name, what in content.items():
            self.service.upload(parent.id, name, what)
        self.service.write(parent.id, [(SENT, digest)])

    def _register(self, name: str, winner: Winner, aggregates: Sequence[Aggregate]) -> None:
        if winner.run is None:
            return
        found = self.service.find(winner.run.id)
        run = next((run for run in found if self.service.holds(run.id, MODEL)), None)
        if run is None:
            raise TrackerRefused(
                f"tracker.mlflow.register: the run {winner.run.name} of the winner has no model "
                "in MLflow; it was mirrored with tracker.mlflow.models=false, or is not complete"
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


def _numbers(aggregates: Sequence[Aggregate]) -> dict[str, float]:
    """Numbers of a group by key: the task is part of it where there are several."""
    told = {}
    for aggregate in aggregates:
        counts = {name: getattr(aggregate, name) for name in COUNTS}
        for name, number in {**aggregate.numbers, **counts}.items():
            if number is not None:
                told[legal_key(name + _key_suffix(aggregate, aggregates))] = float(number)
    return told


def _words(aggregates: Sequence[Aggregate]) -> dict[str, object]:
    told: dict[str, object] = {}
    for aggregate in aggregates:
        words = {
            "task": aggregate.task,
            "phase": aggregate.phase,
            "score_rule": aggregate.score_rule,
            METRIC: aggregate.metric,
            "in_words": aggregate.in_words,
            **_interval(aggregate),
        }
        which = _key_suffix(aggregate, aggregates)
        told |= {f"{name}{which}": word for name, word in words.items()}
    return told


def _interval(aggregate: Aggregate) -> dict[str, object]:
    """How the interval was made, or why there is none."""
    found = aggregate.estimate
    if found is None:
        return {}
    made = {"method": found.method, "level": found.level, "resampling_seed": found.seed}
    return {**made, "reason": found.reason}


def _key_suffix(aggregate: Aggregate, aggregates: Sequence[Aggregate]) -> str:
    """What tells an aggregate from the others of its group."""
    phases = {other.phase for other in aggregates}
    tasks = {other.task for other in aggregates}
    phase = f"/{aggregate.phase}" if len(phases) > 1 else ""
    return phase + (f"/{aggregate.task}" if len(tasks) > 1 else "")


def _number_names(parent: MLflowRun) -> set[str]:
    """Names of numbers that were said of a group, whichever aggregate led then."""
    led = {v for k, v in parent.tags.items() if k.partition("/")[0] == METRIC} | {"iqm"}
    return {*COUNTS, *(f"{name}{end}" for name in led for end in ("", "_low", "_high"))}


def _is_same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def _digest(content: Mapping[str, Path | str]) -> str:
    total = sha256()
    for name, what in sorted(content.items()):
        text = what.encode() if isinstance(what, str) else what.read_bytes()
        total.update(f"{name} {sha256(text).hexdigest()}\n".encode())
    return total.hexdigest()
