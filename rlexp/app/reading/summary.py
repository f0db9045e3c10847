"""Summaries of an experiment's records: attempts, checkpoint costs, runs, scores and intervals.

`read_entries` reads the runs of a phase, and `summarise` computes scores and intervals.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rlexp.app.plans import RefusedCheckpoint
from rlexp.app.reading.catalogue import catalogue_of, collector_paused
from rlexp.app.reading.headline_aggregate import HeadlineAggregate
from rlexp.app.reading.interval_memory import IntervalMemory
from rlexp.errors import RecordError
from rlexp.metrics.estimate import Estimate, measure_ends
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.measures import DeclaredMeasure, d4rl_score
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec, scored_quantity
from rlexp.records import score_table
from rlexp.records.context_returns import is_worst_context
from rlexp.records.events import Checkpointed, Continued, Refused, RunStarted
from rlexp.records.run import RunRecord, State
from rlexp.reports.evidence.acting import ActingCounts
from rlexp.reports.evidence.restarts import RestartCounts
from rlexp.stats.pairs.reach import DetectableDifferences
from rlexp.store.catalogue import Catalogue
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.runs import StoredAttempt, StoredRun, read_run

if TYPE_CHECKING:
    from rlexp.stats.pairs.power import ComparisonPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """The start and the end of one attempt of a run.

    Attributes:
        attempt: The attempt's number.
        started: Time of the start, in seconds since 1970.
        began: Where the attempt started (`step 0`, `checkpoint at step 40`).
        continued: The step of the checkpoint from which it continued, if it did.
        refused: Checkpoints that it did not continue from.
        drift: Changes of versions since the checkpoint from which it continued all the same.
        state: The state in which it left the run.
        failure: The kind of its failure.
        reason: Why it ended as it did.
        step: Environment steps that the run had at its end.
        seconds: Its duration in seconds, if its end was recorded.
        checkpoints: Checkpoints that it wrote.
        host: The machine that executed it.
        pid: The number of its process.
    """

    attempt: int
    started: float | None
    began: str | None
    continued: int | None
    refused: tuple[RefusedCheckpoint, ...]
    drift: str | None
    state: str
    failure: str | None
    reason: str | None
    step: int
    seconds: float | None
    checkpoints: int
    host: str | None
    pid: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCost:
    """The cost of the checkpoints of all attempts of a run.

    Attributes:
        count: The number of checkpoints.
        seconds: The time that writing them took, in seconds.
        bytes: Their size, in bytes.
        share: `seconds` as a share of the duration of all attempts, or None where no duration is
            known, as for killed attempts.
    """

    count: int
    seconds: float
    bytes: int
    share: float | None


def describe_attempts(
    stored: StoredRun, attempts: Sequence[StoredAttempt]
) -> tuple[AttemptRow, ...]:
    """Describe every attempt of a run separately."""
    return tuple(_attempt(attempt, attempts, stored) for attempt in attempts)


def checkpoint_cost(record: RunRecord, attempts: Sequence[StoredAttempt]) -> CheckpointCost | None:
    """The cost of the checkpoints of all attempts, or None without checkpoints."""
    events = [e for a in attempts for e in a.events if isinstance(e, Checkpointed)]
    if not events:
        return None
    seconds = sum(event.seconds for event in events)
    duration = record.seconds_spent
    return CheckpointCost(
        count=len(events),
        seconds=seconds,
        bytes=sum(event.bytes for event in events),
        share=seconds / duration if duration else None,
    )


def _attempt(
    attempt: StoredAttempt, attempts: Sequence[StoredAttempt], stored: StoredRun
) -> AttemptRow:
    alive = attempt is attempts[-1] and stored.record.state is State.RUNNING
    record = RunRecord.fold(stored.record.spec, [attempt.events], alive=alive)
    started = next((e for e in attempt.events if isinstance(e, RunStarted)), None)
    continued = next((e for e in attempt.events if isinstance(e, Continued)), None)
    refused = [e for e in attempt.events if isinstance(e, Refused)]
    return AttemptRow(
        attempt=attempt.paths.number,
        started=record.started,
        began=_began(started, continued, refused),
        continued=continued.step if continued else None,
        refused=tuple(RefusedCheckpoint(step=e.step, reason=e.reason) for e in refused),
        drift=continued.drift if continued else None,
        state=str(record.state),
        failure=record.failure,
        reason=record.reason if started else record.reason or "its process never started",
        step=stored.record.step if alive else record.step,
        seconds=record.seconds,
        checkpoints=sum(isinstance(e, Checkpointed) for e in attempt.events),
        host=started.host if started else None,
        pid=started.pid if started else None,
    )


def _began(
    started: RunStarted | None, continued: Continued | None, refused: Sequence[Refused]
) -> str | None:
    """Where an attempt began."""
    if started is None:
        return None
    if continued is not None:
        return f"checkpoint at step {continued.step:,}"
    return "step 0, checkpoint refused" if refused else "step 0"


StoredEntry = tuple[Configuration, StoredRun]
"""A configuration, and one of its runs as stored on disk."""


@collector_paused()
def read_entries(
    paths: ExperimentPaths,
    experiment: Experiment,
    phase: Phase,
) -> list[StoredEntry]:
    """Read every planned run of a phase from disk.

    Records of ended runs come from the experiment's catalogue, without their curves.
    """
    catalogue = catalogue_of(paths)
    entries = [
        (configuration, _read(paths.run(spec.name), spec, catalogue))
        for configuration, spec in experiment.specs(phase)
    ]
    # Only one phase was read, so entries of the other phases must stay.
    catalogue.save(complete=False)
    return entries


def _read(run: RunPaths, spec: RunSpec, catalogue: Catalogue) -> StoredRun:
    if not os.path.lexists(run.folder):
        return StoredRun(run, RunRecord(spec=spec))
    with suppress(RecordError):
        stored = catalogue.look(run, read_run, spec)
        if stored.record.spec.id == spec.id:
            return stored
    # The folder is damaged or holds another run. Reading it with the planned specification gives an
    # error for the first, and a run without events for the second.
    return read_run(run, spec)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureSummary:
    """A measure of one label on one task, in one phase.

    Attributes:
        measure: The name of the measure.
        direction: `maximise` or `minimise`, as declared.
        values: Mean over the final episodes that report the measure, by seed.
        n: Number of runs with the measure.
        estimate: The mean over runs with its interval, as in reports.
    """

    measure: str
    direction: str
    values: Mapping[int, float]
    n: int
    estimate: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSummary:
    """The scores of one label on one task, in one phase.

    Attributes:
        label: The label.
        task: The task.
        score: The rule by which a run is scored: `final`, `auc`, `last_window`, or a measure.
        quantity: What is scored: `return`, or the name of a measure or an imported metric.
        lower_is_better: Whether the score is a measure that is declared as minimised.
        scores: Scores by seed, in units of the score.
        threshold: The score at which the task counts as solved, if it is declared.
        planned: Number of planned runs.
        n: Number of scores in the aggregate.
        counted_as_worst: Number of runs without a score that count as the declared minimum.
        failed: Number of failed runs.
        missing: Number of runs with neither a score nor a failure.
        metric: The name of the aggregate (`iqm`).
        title: The aggregate's title in tables (`IQM`).
        estimate: The aggregate with its interval, or None where no run has a score.
        detectable: What a comparison with another label of this spread could find; null for a single
            score, before all runs have ended, and in lists of experiments.
        measures: The measures that the final evaluations report, by name.
        dataset_anchors: The returns of a random policy and of an expert that the dataset of the runs
            declares; null without them.
        d4rl_score: The aggregate as D4RL normalises it: 0 for the random policy of `dataset_anchors`, 100
            for its expert; null without them.
        offline_steps: Gradient steps on the dataset before the first step of each run; 0 without one.
    """

    label: str
    task: str
    score: str
    quantity: str
    lower_is_better: bool
    scores: Mapping[int, float]
    threshold: float | None
    planned: int
    n: int
    counted_as_worst: int
    failed: int
    missing: int
    metric: str
    title: str
    estimate: Estimate | None
    detectable: DetectableDifferences | None
    measures: tuple[MeasureSummary, ...]
    dataset_anchors: tuple[float, float] | None = None
    d4rl_score: float | None = None
    offline_steps: int = 0

    @property
    def reached(self) -> int:
        """Number of runs whose score reaches the threshold; 0 without a threshold."""
        if self.threshold is None:
            return 0
        sign = -1 if self.lower_is_better else 1
        return sum(sign * score >= sign * self.threshold for score in self.scores.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A summary of one run.

    Attributes:
        run: Its name.
        label: The label under which it is compared.
        task: Its task.
        seed: Its seed within the phase.
        state: `planned`, `running`, `completed`, `failed`, `pruned`, `interrupted` or `lost`.
        score: Its score, or None.
        measure_means: Mean of each measure over the final episodes that report it, by name.
        step: Steps so far.
        steps: Steps of its budget, in the same unit.
        unit: The unit of steps: `environment_steps`, or `environment.unit`.
        seconds: Duration of the attempts that count for its record, in seconds.
        seconds_spent: Duration of all attempts, in seconds.
        attempts: Number of all attempts.
        continued: Steps of the checkpoints from which attempts continued.
        restarts: Attempts that started at step 0 although an earlier one had trained.
        refused: Checkpoints that could not be used.
        drift: Changes of versions, for each attempt that continued in spite of them.
        failure: The kind of its failure.
        reason: Why it ended as it did.
        unreadable_lines: Number of unreadable lines in its journal.
        configuration: Its configuration, in Python only.
    """

    run: str
    label: str
    task: str
    seed: int
    state: str
    score: float | None
    measure_means: Mapping[str, float]
    step: int
    steps: int
    unit: str
    seconds: float | None
    seconds_spent: float
    attempts: int
    continued: tuple[int, ...]
    restarts: int
    refused: tuple[RefusedCheckpoint, ...]
    drift: tuple[str, ...]
    failure: str | None
    reason: str | None
    unreadable_lines: int
    configuration: Configuration | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSummary:
    """The scores and runs of one phase of an experiment.

    Attributes:
        experiment: Its name.
        phase: `test`, `selection` or `tuning`.
        folder: The folder of its records.
        failures: How a run without a score counts: `missing` or `worst`.
        past: How runs continued from checkpoints or started again.
        remarks: Runs that ended before their budget, and what never acted, one sentence each.
        cells: The scores of every label on every task.
        runs: Every planned run of the phase.
    """

    experiment: str
    phase: str
    folder: str
    failures: str
    past: RestartCounts
    remarks: tuple[str, ...]
    cells: tuple[LabelSummary, ...]
    runs: tuple[RunRow, ...]


def summarise(
    paths: ExperimentPaths,
    experiment: Experiment,
    phase: Phase,
    entries: Sequence[StoredEntry],
    leading: HeadlineAggregate,
    *,
    detectable: bool = False,
) -> PhaseSummary:
    """Compute scores and intervals, and count failed and missing runs.

    Args:
        paths: The experiment's folder.
        experiment: Its definition.
        phase: The phase.
        entries: The runs of the phase, from `read_entries`.
        leading: The aggregate, with the settings of its interval.
        detectable: Whether to compute what comparisons of test runs could find.
    """
    table = score_table.ScoreTable.from_records(
        (score_table.Entry(c.label, c.task, stored.record) for c, stored in entries),
        phase,
    )
    records: dict[int, list[RunRecord]] = {}
    for configuration, stored in entries:
        # By identity, because a configuration holds dictionaries and has no hash.
        records.setdefault(id(configuration), []).append(stored.record)
    labels = len({configuration.label for configuration in experiment.configurations})
    plan = leading.plan(labels) if detectable and phase is Phase.TEST else None
    memory = IntervalMemory.of(paths)
    leading = leading.keeping(memory)
    summary = PhaseSummary(
        experiment=experiment.name,
        phase=str(phase),
        folder=str(paths.folder),
        failures=experiment.failures,
        past=RestartCounts.of(stored.record for _, stored in entries),
        remarks=tuple(_acting(entries)),
        cells=tuple(
            _cell(c, table, records.get(id(c), []), experiment, leading, plan)
            for c in experiment.of_phase(phase)
        ),
        runs=tuple(describe_run(c, stored) for c, stored in entries),
    )
    memory.save()
    return summary


def _acting(entries: Sequence[StoredEntry]) -> Iterator[str]:
    """Sentences about runs that ended early, and about what never acted; of each label, if there are several."""
    records: dict[str, list[RunRecord]] = {}
    for configuration, stored in entries:
        records.setdefault(configuration.label, []).append(stored.record)
    for label, runs in records.items():
        for text in ActingCounts.of(runs).sentences():
            yield f"{label}: {text}" if len(records) > 1 else text


def describe_run(configuration: Configuration, stored: StoredRun) -> RunRow:
    """Summarise one run."""
    record = stored.record
    return RunRow(
        run=stored.paths.folder.name,
        label=configuration.label,
        task=configuration.task,
        seed=record.spec.seed,
        state=str(record.state),
        score=record.score,
        measure_means=record.measures,
        step=record.step,
        steps=record.spec.budget["steps"],
        unit=record.spec.unit,
        seconds=record.seconds,
        seconds_spent=record.seconds_spent,
        attempts=record.attempts,
        continued=tuple(event.step for event in record.continuations),
        restarts=record.restarts,
        refused=tuple(RefusedCheckpoint(step=e.step, reason=e.reason) for e in record.refused),
        drift=tuple(event.drift for event in record.continuations if event.drift),
        failure=record.failure,
        reason=record.reason,
        unreadable_lines=stored.torn + stored.quarantined,
        configuration=configuration,
    )


def worst_scores(
    configuration: Configuration, experiment: Experiment, scoreless: int
) -> list[float]:
    """The scores of runs without one: the declared worst score for each, or an empty list."""
    worst = configuration.worst_score
    return [worst] * scoreless if experiment.failures == "worst" and worst is not None else []


def measure_summaries(
    configuration: Configuration,
    records: Sequence[RunRecord],
    leading: HeadlineAggregate,
    only: str | None = None,
) -> tuple[MeasureSummary, ...]:
    """The measures of one configuration on one task, over its completed runs.

    Args:
        configuration: The configuration, which declares directions and bounds.
        records: Its runs in one phase.
        leading: The settings of the intervals.
        only: The name of the only measure to compute; None computes all.
    """
    completed = [r for r in records if r.state is State.COMPLETED]
    names = sorted({name for record in completed for name in record.measures})
    summaries = []
    for name in [name for name in names if only in {None, name}]:
        values = {r.spec.seed: r.measures[name] for r in completed if name in r.measures}
        declared = _declaration(configuration, name, leading)
        summaries.append(
            MeasureSummary(
                measure=name,
                direction=declared.get("direction", DeclaredMeasure().direction),
                values=values,
                n=len(values),
                estimate=_mean_over_runs(name, [*values.values()], declared, leading),
            )
        )
    return tuple(summaries)


def _declaration(
    configuration: Configuration, name: str, leading: HeadlineAggregate
) -> Mapping[str, Any]:
    """What is declared about a measure; the worst mean return has the bounds of returns."""
    if is_worst_context(name):
        return leading.usable(configuration.reference)
    declared: Mapping[str, Any] = configuration.measures.get(name, {})
    return declared


def _mean_over_runs(
    name: str, values: Sequence[float], declared: Mapping[str, Any], leading: HeadlineAggregate
) -> Estimate:
    return leading.mean_of(values, measure_ends(name, declared, values))


def _cell(
    configuration: Configuration,
    table: score_table.ScoreTable,
    records: Sequence[RunRecord],
    experiment: Experiment,
    leading: HeadlineAggregate,
    plan: "ComparisonPlan | None",
) -> LabelSummary:
    scored = table.cells.get((configuration.label, configuration.task), {})
    by_seed = {seed: score for (_, seed), score in scored.items()}
    failed = sum(r.state is State.FAILED for r in records)
    worst = worst_scores(configuration, experiment, sum(r.scoreless for r in records))
    values = [*by_seed.values(), *worst]
    missing = len(records) - len(by_seed) - failed
    estimate = leading.estimate(values, configuration.score_reference)
    anchors = None if leading.normalised_already else configuration.dataset_anchors
    return LabelSummary(
        label=configuration.label,
        task=configuration.task,
        score=configuration.budget.score,
        quantity=scored_quantity(configuration.algorithm, configuration.budget.score),
        lower_is_better=configuration.lower_is_better,
        scores=by_seed,
        threshold=leading.usable(configuration.score_reference).get("threshold"),
        dataset_anchors=anchors,
        d4rl_score=None
        if anchors is None or estimate is None
        else d4rl_score(estimate.estimate, anchors),
        offline_steps=max((record.spec.offline_steps for record in records), default=0),
        planned=len(records),
        n=len(values),
        counted_as_worst=len(worst),
        failed=failed,
        missing=missing,
        metric=leading.name,
        title=leading.title,
        estimate=estimate,
        detectable=leading.detectable(values, plan, configuration.score_reference)
        if plan is not None and len(values) > 1 and not missing
        else None,
        measures=measure_summaries(configuration, records, leading),
    )
