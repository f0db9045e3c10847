"""The current results of an experiment, written to the MLflow runs of its groups.

They include a note with the answer, the numbers and the report, as Markdown, and the views of MLflow's page (3.17),
in the form that its button "Share view" stores.
"""

import json
import math
import re
import shlex
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from rlexp.errors import TrackerRefused
from rlexp.metrics.estimate_text import with_ends
from rlexp.text import format_count
from rlexp.trackers import (
    ExperimentSummary,
    TrackedAggregate,
    TrackedExperiment,
    TrackedPhase,
    TrackedWinner,
)
from rlexp.trackers.mlflow_bookkeeping import bookkeeping_tag
from rlexp.trackers.mlflow_limits import MetricValue, batches, legal_key, tags_of
from rlexp.trackers.mlflow_service import MLflowRun, Service
from rlexp.trackers.mlflow_uri import CURVES_KEY, VIEW_KEY

MODEL = "model"
"""The folder of a run's artifacts that holds its model."""
FIGURES = "figures"
REPORT = "report"
SENT = "report"
"""The bookkeeping with the digest of the figures and files that were uploaded."""
COUNTS = ("n", "planned", "failed", "missing")
ENDS = ("low", "high")
METRIC = "metric"
"""The tag with the name of the aggregate."""
WINNER = "winner"
"""The tag with the winner of a sweep; its hyperparameters are tags below it."""
AGGREGATE_TAGS = frozenset(
    {
        *("task", "phase", "score_rule", METRIC, "in_words"),
        *("method", "level", "resampling_seed", "reason", "seeds", WINNER),
    }
)
"""Tags of a group's run that the summary writes; the task may follow after a slash."""
PHASE_MEANS = "mean_"
OPTIMISM = "optimism"
SWEEP_METRICS = frozenset(
    {OPTIMISM, *(f"{PHASE_MEANS}{phase}" for phase in ("tuning", "selection", "test"))}
)
RUN = "rlexp.run"
"""The tag of a model version with the id of the run that trained it."""
MOST = 900
SHARED_VIEW = "mlflow.sharedViewState."
"""The beginning of the tag of an experiment that holds a view; its key follows."""
END_OF_NOTE = re.compile(r"Records: `runs/[^`]*`\.\Z")
"""How every note of rlexp ends. One that ends otherwise was written by a user."""
NOTE = "mlflow.note.content"
PAGE = "report.html"
"""The page of a report."""


@dataclass(frozen=True, slots=True)
class SummaryWriter:
    """Writes the results of an experiment to MLflow.

    Attributes:
        service: The connection to MLflow.
        experiment: The experiment.
        parent: Returns the MLflow run of a group.
        register: The name under which a winner's model is registered; None: it is not.
    """

    service: Service
    experiment: TrackedExperiment
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
        groups = list(dict.fromkeys([*summary.groups, *by_label]))
        parents = {group: self.parent(group) for group in groups}
        # The first group is the sweep, where there is one. Its run alone carries the report.
        page = self._upload(parents[groups[0]], summary) if groups else None
        for group in groups:
            if self.experiment.is_sweep and group == self.experiment.name:
                self._write_sweep(parents[group], summary, page)
            else:
                self._write_label(parents[group], by_label[group], summary, page)
        self._describe(summary, page)
        if self.register is not None and summary.winner is not None:
            self._register(self.register, summary.winner, summary.aggregates)

    def _describe(self, summary: ExperimentSummary, page: str | None) -> None:
        """Write the views of the experiment's runs, and the answer above them, if they changed."""
        present = self.service.experiment_tags()
        note = experiment_note(self.experiment, summary, page, self.service.curves_page())
        views = view_tags(
            _columns(summary.aggregates),
            tests_only=any(a.phase == "test" for a in summary.aggregates),
        )
        tags = {**views, **note_tag(present, note)}
        self.service.tag_experiment({k: v for k, v in tags.items() if present.get(k) != v})

    def _write_label(
        self,
        parent: MLflowRun,
        aggregates: Sequence[TrackedAggregate],
        summary: ExperimentSummary,
        page: str | None,
    ) -> None:
        self._measure(parent, _aggregate_metrics(aggregates))
        note = note_of(self.experiment, summary, aggregates, page)
        self._tag(parent, {**_aggregate_tags(aggregates), NOTE: note})
        self._finish(parent, complete=not any(aggregate.missing for aggregate in aggregates))

    def _write_sweep(
        self, parent: MLflowRun, summary: ExperimentSummary, page: str | None
    ) -> None:
        """Write what a sweep has found: the test score of its winner is its score."""
        won = _of_winner(summary)
        tags = {**_aggregate_tags(won), **_winner_tags(summary.winner)}
        self._measure(parent, {**_aggregate_metrics(won), **_phase_metrics(summary)})
        self._tag(parent, {**tags, NOTE: note_of(self.experiment, summary, won, page)})
        complete = summary.winner is not None and not any(a.missing for a in summary.aggregates)
        self._finish(parent, complete=complete)

    def _finish(self, parent: MLflowRun, *, complete: bool) -> None:
        """End the run of a group when its last run has ended; reopen it where runs are missing."""
        if complete and parent.status != "FINISHED":
            ended = self.service.last_end(parent.id)
            self.service.set_status(parent.id, "FINISHED", time.time() if ended is None else ended)
        elif not complete and parent.status != "RUNNING":
            self.service.set_status(parent.id, "RUNNING")

    def _measure(self, parent: MLflowRun, numbers: Mapping[str, float]) -> None:
        """Write the numbers that changed, with times after those of the old numbers."""
        now = int(time.time() * 1000)
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

    def _tag(self, parent: MLflowRun, texts: Mapping[str, object]) -> None:
        """Write the tags that changed, and remove those that no longer hold."""
        tags = dict(tags_of(texts))
        summary_tags = (k for k in parent.tags if _is_summary_tag(k))
        self.service.untag(parent.id, [k for k in summary_tags if k not in tags])
        changed = [(k, v) for k, v in tags.items() if parent.tags.get(k) != v]
        if changed:
            self.service.write(parent.id, changed)

    def _upload(self, parent: MLflowRun, summary: ExperimentSummary) -> str | None:
        """Upload figures and report if they have changed; returns the address of the report."""
        content: dict[str, Path | str] = {
            f"{FIGURES}/{name}.svg": text for name, text in summary.figures.items()
        }
        content |= {f"{REPORT}/{name}": path for name, path in summary.files.items()}
        digest = _digest(content)
        if content and parent.kept.get(SENT) != digest:
            for name, what in content.items():
                self.service.upload(parent.id, name, what)
            # Written last: an upload that breaks off has no digest and is repeated.
            kept = {**parent.kept, SENT: digest}
            self.service.write(parent.id, [bookkeeping_tag(kept)])
        if PAGE not in summary.files:
            return None
        return self.service.artifact_page(parent.id, f"{REPORT}/{PAGE}")

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
        tags = {"trial": winner.trial, RUN: winner.run.id}
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
        # Runs of seeds have their score under the same name: one column sorts both.
        score = {"score": None if aggregate.estimate is None else aggregate.estimate.estimate}
        for name, number in {**score, **aggregate.numbers, **counts}.items():
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
            "seeds": ", ".join(str(seed) for seed in sorted(aggregate.scores)) or None,
            **_interval(aggregate),
        }
        which = _key_suffix(aggregate, aggregates)
        texts |= {f"{name}{which}": value for name, value in values.items()}
    return texts


def _columns(aggregates: Sequence[TrackedAggregate]) -> list[str]:
    """The metrics by which a reader of the list of runs finds the answer."""
    ends = [f"{metric}_{end}" for metric in {a.metric: None for a in aggregates} for end in ENDS]
    # One more would be behind the edge of a page that is 1440 pixels wide.
    keys = ("score", *ends, "n")
    tasks = [_key_suffix(a, aggregates) for a in aggregates]
    return [legal_key(k + task) for k in keys for task in dict.fromkeys(["", *tasks])]


def _of_winner(summary: ExperimentSummary) -> list[TrackedAggregate]:
    """The aggregates of the winner's test runs; empty before it has a score."""
    run = None if summary.winner is None else summary.winner.run
    return [a for a in summary.aggregates if run is not None and a.label == run.label]


def _winner_tags(winner: TrackedWinner | None) -> dict[str, object]:
    if winner is None:
        return {}
    values = {f"{WINNER}/{key}": value for key, value in winner.parameters.items()}
    return {WINNER: f"trial {winner.trial}", **values}


def _phase_metrics(summary: ExperimentSummary) -> dict[str, float]:
    """The mean score of the winner in each phase, and the optimism of tuning, as in the report."""
    if summary.answer is None:
        return {}
    means = {
        f"{PHASE_MEANS}{phase.phase}": phase.mean.estimate
        for phase in summary.answer.phases
        if phase.mean is not None
    }
    gap = summary.answer.optimism
    return means if gap is None else {**means, OPTIMISM: gap}


def _is_summary_tag(key: str) -> bool:
    return key == NOTE or key.partition("/")[0] in AGGREGATE_TAGS


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
    return {
        "score",
        *COUNTS,
        *SWEEP_METRICS,
        *(f"{name}{end}" for name in led for end in ("", "_low", "_high")),
    }


def _is_same(value: float, other_value: float) -> bool:
    return value == other_value or (math.isnan(value) and math.isnan(other_value))


def _digest(content: Mapping[str, Path | str]) -> str:
    total = sha256()
    for name, what in sorted(content.items()):
        text = what.encode() if isinstance(what, str) else what.read_bytes()
        total.update(f"{name} {sha256(text).hexdigest()}\n".encode())
    return total.hexdigest()


def view_tags(columns: Sequence[str], *, tests_only: bool) -> dict[str, str]:
    """The tags with the views of an experiment's runs: as a list, and as curves of labels.

    Args:
        columns: Metrics that the list shows, in this order.
        tests_only: Whether the curves are those of test runs only.
    """
    names = [f"metrics.`{name}`" for name in columns]
    # Without an order, MLflow sorts columns by name: the score would be behind the edge of the page.
    listed = {**_view(), "selectedColumns": names, "columnOrder": names}
    by_label = {"mode": "tag", "groupByData": "label"}
    curves = {
        **_view("tags.`phase` = 'test'" if tests_only else ""),
        "selectedColumns": names,
        "groupBy": {"aggregateFunction": "average", "groupByKeys": [by_label]},
    }
    views = {VIEW_KEY: listed, CURVES_KEY: curves}
    return {f"{SHARED_VIEW}{key}": json.dumps(view) for key, view in views.items()}


def _view(search: str = "") -> dict[str, Any]:
    return {
        # By time and not by score: a tuning score on one seed must not come first.
        "orderByKey": "attributes.start_time",
        "orderByAsc": False,
        "searchFilter": search,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "modelVersionFilter": "All Runs",
        "datasetsFilter": [],
    }


def experiment_note(
    experiment: TrackedExperiment, summary: ExperimentSummary, page: str | None, curves: str
) -> str:
    """The description of an experiment: MLflow shows its first line above the list of runs.

    Args:
        experiment: The experiment.
        summary: Its current results.
        page: The address of the report's page; None where no page was uploaded.
        curves: The address of the curves.
    """
    return " ".join(_note_parts(experiment, summary, page, curves))


def _note_parts(
    experiment: TrackedExperiment, summary: ExperimentSummary, page: str | None, curves: str
) -> Iterator[str]:
    if summary.answer is not None:
        yield f"{escaped(summary.answer.text)}."
    yield f"[Curves of labels]({curves})."
    yield sources(experiment, page)


def note_tag(present: Mapping[str, str], note: str) -> dict[str, str]:
    """The tag with the note; none where a user has written a description.

    Args:
        present: The tags of the experiment.
        note: The new note.
    """
    written = present.get(NOTE, "")
    return {NOTE: note} if not written or END_OF_NOTE.search(written) else {}


def note_of(
    experiment: TrackedExperiment,
    summary: ExperimentSummary,
    aggregates: Sequence[TrackedAggregate],
    page: str | None,
) -> str:
    """The note of a label or of a sweep.

    Args:
        experiment: The experiment.
        summary: Its current results.
        aggregates: The aggregates of the label, or of the sweep's winner.
        page: The address of the report's page; None where no page was uploaded.
    """
    # MLflow folds a long note after a few lines: the answer and the report come first.
    first = [*_answer(summary), sources(experiment, page)]
    numbers = [*_winner(experiment, summary), *map(_aggregate, aggregates)]
    return "\n\n".join([*first, *numbers])


def _answer(summary: ExperimentSummary) -> Iterator[str]:
    if summary.answer is not None:
        yield escaped(summary.answer.in_words)


def _winner(experiment: TrackedExperiment, summary: ExperimentSummary) -> Iterator[str]:
    """The winner of a sweep, with its mean score in each phase."""
    if not experiment.is_sweep:
        return
    if summary.winner is None:
        yield "The sweep has no winner yet."
        return
    yield f"The winner is trial {summary.winner.trial}. It was chosen by its selection runs."
    if summary.answer is None or not summary.answer.phases:
        return
    rows = ["| phase | mean score of the winner | runs |", "|---|---|---|"]
    yield "\n".join([*rows, *map(_row, summary.answer.phases)])
    gap = escaped(summary.answer.optimism_text)
    yield f"{f'Optimism of tuning: {gap}. ' if gap else ''}Only test scores are results."


def _row(phase: TrackedPhase) -> str:
    mean = "—" if phase.mean is None else escaped(with_ends(phase.mean, phase.mean.digits))
    n = 0 if phase.mean is None else phase.mean.n
    return f"| {phase.phase} | {mean} | {n} of {phase.planned} |"


def _aggregate(aggregate: TrackedAggregate) -> str:
    """The aggregate of a label on a task, with the runs that have no score."""
    absent = {"failed": aggregate.failed, "missing": aggregate.missing}
    states = "".join(f", {count} {name}" for name, count in absent.items() if count)
    runs = f"{aggregate.n} of {format_count(aggregate.planned, f'{aggregate.phase} run')}"
    label, task = escaped(aggregate.label), escaped(aggregate.task)
    return f"{label} on {task}: {escaped(aggregate.in_words)}. Scored: {runs}{states}."


def sources(experiment: TrackedExperiment, page: str | None) -> str:
    """Where the report and the records are.

    Args:
        experiment: The experiment.
        page: The address of the report's page; None where no page was uploaded.
    """
    records = f"Records: `runs/{experiment.name}`."
    if page is not None:
        return f"Report: [{PAGE}]({page}). {records}"
    command = shlex.join(["rlexp", "report", experiment.name])
    return f"No report page is attached. To write one: `{command}`. {records}"


def escaped(text: str) -> str:
    """A text whose characters have no meaning in Markdown."""
    for character in "\\`*_[]<>|#":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())
