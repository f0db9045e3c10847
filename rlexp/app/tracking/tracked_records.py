"""Reads an experiment and its runs for trackers, with secrets masked.

`RunJournalReader` follows the journals of a run as they grow; `tracked_run`, `tracked_experiment`
and `read_summary` build what a tracker is given.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from hashlib import sha256
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from rlexp.app.reading.experiment_scan import READ_ERRORS
from rlexp.app.reading.headline_aggregate import HeadlineAggregate
from rlexp.app.reading.provenance import provenance_of
from rlexp.app.reading.summary import LabelSummary, StoredEntry, read_entries, summarise
from rlexp.app.tracking.run_labels import RunLabels
from rlexp.errors import RecordError, RlexpError
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.identity import canonical
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Continued, Ending, Event, RunEnded, RunStarted
from rlexp.records.run import RunRecord, State
from rlexp.records.system_metrics import SystemMeasurement
from rlexp.store.file_systems import is_shared
from rlexp.store.files import read_file, read_json, refuse_link
from rlexp.store.journal import events_of, follow
from rlexp.store.layout import AttemptPaths, ExperimentPaths, RunPaths
from rlexp.store.registers.ledger import sum_of_file
from rlexp.store.registers.scorings import with_scoring
from rlexp.store.runs import StoredAttempt, read_attempts, read_experiment, read_run, read_spec
from rlexp.store.secrets import mask_all, secret_values
from rlexp.store.sweeps import read_selection, read_trials
from rlexp.store.system_metrics import follow_measurements, read_measurements
from rlexp.store.tracker_positions import experiment_identity
from rlexp.trackers import (
    ExperimentSummary,
    MetricRow,
    RunEnd,
    TrackedAggregate,
    TrackedAnswer,
    TrackedExperiment,
    TrackedRun,
    TrackedWinner,
)
from rlexp.trackers.interval_figure import draw_intervals
from rlexp.trackers.metric_rows import merge_rows, rows_of, rows_of_measurements

ROW_STEP = re.compile(rb'^\{"event":"(?:measured|evaluated)"[^\n]*?"step":(\d+)', re.MULTILINE)
"""Finds the step in each journal line that gives a row."""


class RunJournalReader:
    """Reads a run's journals as they grow.

    A row is complete when a later step exists or the run has ended for good. Each step is therefore
    given once and whole, even if it was trained twice: a run that continues from a checkpoint
    reproduces the same numbers.
    """

    def __init__(self, paths: RunPaths) -> None:
        """Read the run's specification.

        Raises:
            RecordError: The specification is missing or damaged, or a folder is a link.
        """
        for folder in (paths.folder, paths.folder / "attempts"):
            refuse_link(folder)
        self.paths = paths
        self.spec = read_spec(paths)
        self.started: float | None = None
        self.begun = 1
        self._attempt = 0
        self._offset = 0
        self._ended = False
        self._rows: list[MetricRow] = []
        self._measured_bytes = 0

    @property
    def attempt(self) -> int:
        """The number of the newest attempt; 0 where there is none."""
        return self._attempt

    @property
    def newest(self) -> AttemptPaths:
        """The newest attempt."""
        return self.paths.attempt(self._attempt)

    def read(self, after: int) -> None:
        """Read the new rows of steps beyond `after`.

        Raises:
            RecordError: A journal cannot be read, or lies behind a link.
        """
        attempts = self.paths.attempts()
        if not attempts:
            return
        # Measurements of the machine are read before the journal. Every row up to their steps is
        # then in the journal: no service is told a later step first.
        is_new = attempts[-1].number != self._attempt or self._is_scored_later
        measured, self._measured_bytes = follow_measurements(
            attempts[-1], 0 if is_new else self._measured_bytes
        )
        if is_new:
            self._fold(attempts)
        else:
            self._follow(attempts)
        if self._ended:
            # Nothing follows the end in either file, and the last measurement precedes it.
            last, self._measured_bytes = follow_measurements(attempts[-1], self._measured_bytes)
            measured += last
        self._rows = merge_rows(self._rows, rows_of_measurements(measured))
        self._rows = [row for row in self._rows if row.step > after]

    def reread(self, after: int) -> None:
        """Read all rows beyond `after` again, because a service has lost rows."""
        self._attempt = 0
        self.read(after)

    def read_end(self, *, unended: bool) -> RunRecord | None:
        """The record of an ended run, or None; `unended` includes runs without a recorded end."""
        if not self._attempt or not (self._ended or unended or self.newest.verdict.exists()):
            return None
        record = read_run(self.paths, self.spec).record
        if record.state is State.RUNNING or (record.state is State.LOST and not unended):
            return None
        if self._is_scored_later and record.state is State.COMPLETED:
            # A service is told the end once, so the end waits for the score.
            return record if self.paths.scoring.exists() else None
        return record

    @property
    def _is_scored_later(self) -> bool:
        """Whether the trusted code of a stream scores the run, once its training has ended."""
        return self.spec.is_of_candidate

    def complete_rows(self, record: RunRecord | None) -> list[MetricRow]:
        """The complete rows: all of a final run, all but the last of an unfinished run."""
        return list(self._rows if is_final(record) else self._rows[:-1])

    def _fold(self, attempts: list[AttemptPaths]) -> None:
        for attempt in attempts:
            refuse_link(attempt.folder)
        # The newest attempt is read first and followed from there: events that are appended while
        # the older attempts are read are then not lost.
        lines, self._offset = _follow(attempts[-1], 0)
        newest = list(events_of(lines))
        earlier = read_attempts(self.paths, measurements=True)
        earlier_attempts = [a for a in earlier if a.paths.number < attempts[-1].number]
        events = [*(a.events for a in earlier_attempts), newest]
        if self._is_scored_later:
            # What the code of a candidate says of its own score never counts.
            events = [with_scoring(self.paths, each) for each in events]
        record = RunRecord.fold(self.spec, events)
        final = [record.final] if record.final else []
        rows = rows_of([*record.measurements, *record.evaluations, *final])
        earlier_measurements = _kept_measurements(earlier_attempts, newest)
        self._rows = merge_rows(rows, rows_of_measurements(earlier_measurements))
        start_times = (e.time for e in chain(*events) if isinstance(e, RunStarted))
        self._attempt, self.started = attempts[-1].number, next(start_times, None)
        self.begun = _begun(earlier_attempts, attempts[-1], newest)
        self._ended = _has_end(newest)

    def _follow(self, attempts: list[AttemptPaths]) -> None:
        lines, offset = _follow(attempts[-1], self._offset)
        events = list(events_of(lines))
        # A continuation may discard rows that were read before, so the attempts are folded again.
        if any(isinstance(event, RunStarted | Continued) for event in events):
            self._fold(attempts)
            return
        self._offset = offset
        self._rows = merge_rows(self._rows, rows_of(events))
        self._ended = self._ended or _has_end(events)


def _follow(attempt: AttemptPaths, offset: int) -> tuple[list[bytes], int]:
    try:
        return follow(attempt.journal, offset)
    except OSError as error:
        raise RecordError(f"{attempt.journal} cannot be read: {error.strerror}") from error


def is_final(record: RunRecord | None) -> bool:
    """Whether a run can add nothing at its last step, unless the user requests a retry."""
    return record is not None and not record.may_run()


def count_rows(paths: RunPaths, after: int) -> int:
    """The approximate number of rows beyond a step, without decoding the journals."""
    steps = set[int]()
    for attempt in paths.attempts():
        try:
            content = read_file(attempt.journal)
        except OSError:
            continue
        steps.update(int(match) for match in ROW_STEP.findall(content))
    return sum(step > after for step in steps)


def _begun(earlier: list[StoredAttempt], newest: AttemptPaths, events: list[Event]) -> int:
    """The number of the attempt with which the current numbers of a run begin.

    An attempt that starts at step 0 repeats the numbers of the attempt before. Its numbers may
    differ if that attempt failed because of the run itself, or if code or packages have changed
    since.
    """
    begun = 1
    attempts = [*((a.paths, a.events) for a in earlier), (newest, events)]
    for (previous, previous_events), (attempt, current_events) in pairwise(attempts):
        if any(isinstance(event, Continued) for event in current_events):
            continue
        if _failed_by_itself(previous_events) or _code_and_packages(
            previous
        ) != _code_and_packages(attempt):
            begun = attempt.number
    return begun


def _kept_measurements(
    earlier: list[StoredAttempt], newest: list[Event]
) -> list[SystemMeasurement]:
    """What earlier attempts measured up to the steps from which the next attempts continued."""
    kept: list[SystemMeasurement] = []
    following = [*(a.events for a in earlier), newest][1:]
    for attempt, events in zip(earlier, following, strict=True):
        step = next((e.step for e in events if isinstance(e, Continued)), -1)
        kept = [m for m in (*kept, *read_measurements(attempt.paths)) if m.step <= step]
    return kept


def _failed_by_itself(events: Iterable[Event]) -> bool:
    return any(
        isinstance(event, RunEnded)
        and event.ending is Ending.FAILED
        and event.failure is not None
        and not event.failure.of_the_machine
        for event in events
    )


def _code_and_packages(attempt: AttemptPaths) -> tuple[Any, ...]:
    provenance = provenance_of(attempt)
    code = provenance.get("code")
    commit = code.get("commit") if isinstance(code, Mapping) else None
    try:
        patch = read_file(attempt.patch)
    except OSError:
        patch = b""
    return commit, patch, provenance.get("packages"), provenance.get("python")


def _has_end(events: list[Event]) -> bool:
    return any(isinstance(event, RunEnded) for event in events)


LARGEST_REPORT = 50_000_000
"""Largest file of a report, in bytes, that is uploaded."""


AnswerReader = Callable[[ExperimentPaths, str], TrackedAnswer | None]
"""Computes the answer of an experiment's report; None where there is none.

The second argument is a digest of the results, so that an answer can be computed once.
"""


def read_summary(
    paths: ExperimentPaths,
    experiment: TrackedExperiment,
    labels: RunLabels,
    leading: HeadlineAggregate,
    read_answer: AnswerReader,
) -> tuple[ExperimentSummary, Mapping[str, Any]]:
    """The summary of an experiment, and JSON values that change whenever the summary does.

    Args:
        paths: The experiment's folder.
        experiment: The experiment as the service sees it.
        labels: Finds the label of each run.
        leading: The aggregate, with the settings of its interval.
        read_answer: Computes the answer that the report gives to a state of the results.

    Raises:
        RecordError: The experiment is damaged.
    """
    definition = read_experiment(paths)
    aggregates = list(_aggregates(paths, definition, leading))
    winner = _winner(paths, experiment, labels, definition)
    files = report_files(paths)
    groups = _groups(experiment, definition, aggregates)
    document = {
        "aggregates": [asdict(a) for a in aggregates],
        "groups": groups,
        "winner": None if winner is None else [winner.trial, winner.run and winner.run.id],
        "files": report_sums(paths),
    }
    # The same results have the same answer.
    answer = read_answer(paths, sha256(canonical(document).encode()).hexdigest())
    summary = ExperimentSummary(
        aggregates=aggregates,
        groups=groups,
        winner=winner,
        figures={"intervals": draw_intervals(aggregates)} if aggregates else {},
        files=files,
        answer=answer,
    )
    document["answer"] = None if answer is None else asdict(answer)
    return summary, document


def _aggregates(
    paths: ExperimentPaths, definition: Experiment, leading: HeadlineAggregate
) -> Iterator[TrackedAggregate]:
    """Aggregates of the test runs, or of tuning runs alone; never of the search of a sweep."""
    phases = (Phase.TEST,) if definition.sweep else (Phase.TEST, Phase.TUNING)
    for phase in phases:
        entries = read_entries(paths, definition, phase)
        if any(stored.record.state is not State.PLANNED for _, stored in entries):
            summary = summarise(paths, definition, phase, entries, leading)
            yield from (_aggregate(cell, str(phase), entries) for cell in summary.cells)


def _aggregate(cell: LabelSummary, phase: str, entries: Iterable[StoredEntry]) -> TrackedAggregate:
    records = [
        stored.record
        for configuration, stored in entries
        if (configuration.label, configuration.task) == (cell.label, cell.task)
    ]
    return TrackedAggregate(
        label=cell.label,
        task=cell.task,
        phase=phase,
        planned=cell.planned,
        n=cell.n,
        failed=cell.failed,
        missing=cell.missing,
        score_rule=cell.score,
        scores=cell.scores,
        metric=cell.metric,
        title=cell.title,
        estimate=cell.estimate,
        unscored={r.spec.seed: str(r.state) for r in records if r.spec.seed not in cell.scores},
    )


def _groups(
    experiment: TrackedExperiment, definition: Experiment, aggregates: list[TrackedAggregate]
) -> list[str]:
    sweep_group = [experiment.name] if definition.sweep else []
    return list(dict.fromkeys([*sweep_group, *(a.label for a in aggregates)]))


def _winner(
    paths: ExperimentPaths,
    experiment: TrackedExperiment,
    labels: RunLabels,
    definition: Experiment,
) -> TrackedWinner | None:
    selection = read_selection(paths) if definition.sweep else None
    if selection is None:
        return None
    trial = next(t for t in read_trials(paths) if t.number == selection.winner)
    # A trial whose configuration is invalid has no run, and cannot win.
    assert trial.configuration is not None
    winner = trial.configuration.fingerprint
    run = _of_median_score(paths, experiment, labels, definition, winner)
    return TrackedWinner(trial=trial.number, parameters=trial.parameters, run=run)


def _of_median_score(
    paths: ExperimentPaths,
    experiment: TrackedExperiment,
    labels: RunLabels,
    definition: Experiment,
    winner: str,
) -> TrackedRun | None:
    """The winner's test run with the median score, the lower one of two."""
    scored_runs: list[tuple[float, int, RunRecord]] = []
    for _, spec in definition.specs(Phase.TEST):
        if spec.fingerprint != winner:
            continue
        try:
            record = read_run(paths.run(spec.name), spec).record
        except (RlexpError, *READ_ERRORS):
            continue
        if record.score is not None:
            scored_runs.append((record.score, spec.seed, record))
    if not scored_runs:
        return None
    # By score and seed only: records cannot be compared.
    scored_runs.sort(key=lambda entry: entry[:2])
    record = scored_runs[(len(scored_runs) - 1) // 2][2]
    run = paths.run(record.spec.name)
    reader = RunJournalReader(run)
    reader.read(record.step)
    return tracked_run(experiment, reader, labels)


def report_files(paths: ExperimentPaths) -> Mapping[str, Path]:
    """The files of an experiment's last report by name, without links and very large files."""
    folder = paths.folder.parent.parent / "reports" / paths.name
    if not folder.is_dir() or folder.is_symlink():
        return {}
    return {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= LARGEST_REPORT
    }


def report_sums(paths: ExperimentPaths) -> Mapping[str, str | None]:
    """The sha256 of each file that `report_files` returns, by name."""
    return {name: sum_of_file(path) for name, path in report_files(paths).items()}


def tracked_experiment(paths: ExperimentPaths, labels: RunLabels) -> TrackedExperiment:
    """The experiment as trackers see it, without a folder for the tracker's files.

    Raises:
        RecordError: The definition or the identity is damaged.
    """
    definition = mask_all(read_json(paths.definition), secret_values(os.environ))
    identity = experiment_identity(paths)
    return TrackedExperiment(
        id=identity.id,
        name=identity.name,
        project=paths.folder.parent.parent,
        folder=paths.trackers,
        definition=definition,
        is_sweep=labels.is_sweep,
        shared=is_shared(paths.folder),
    )


def tracked_run(
    experiment: TrackedExperiment, reader: RunJournalReader, labels: RunLabels
) -> TrackedRun:
    """A started run as trackers see it.

    A run that was restarted after a failure, or with other code, is a new run to a service, because
    its numbers may differ.
    """
    spec, begun = reader.spec, "" if reader.begun == 1 else f"/{reader.begun}"
    secrets = secret_values(os.environ)
    label, task, trial, tags = labels.describe(spec)
    return TrackedRun(
        id=sha256(f"{experiment.id}/{spec.id}{begun}".encode()).hexdigest()[:32],
        name=reader.paths.folder.name,
        group=group_of(experiment, spec, labels),
        label=label,
        task=task,
        phase=str(spec.phase),
        seed=spec.seed,
        trial=trial,
        tags=tags,
        fingerprint=spec.fingerprint,
        configuration=mask_all(spec.plain(), secrets),
        provenance=mask_all(provenance_of(reader.newest), secrets),
        started=reader.started or 0.0,
    )


def group_of(experiment: TrackedExperiment, spec: RunSpec, labels: RunLabels) -> str:
    """The label of a run; the experiment's name for a trial or a finalist of a sweep."""
    searched = experiment.is_sweep and spec.phase is not Phase.TEST
    return experiment.name if searched else labels.describe(spec).label


def ended(reader: RunJournalReader, record: RunRecord) -> RunEnd:
    """The end of a run as trackers see it."""
    paths, newest = reader.paths, reader.newest
    candidates = {
        p.name: p for p in (paths.spec, newest.provenance, paths.model, paths.normalisation)
    }
    return RunEnd(
        state=str(record.state),
        time=record.ended or record.started or 0.0,
        step=record.step,
        seconds=record.seconds,
        attempts=record.attempts,
        score=record.score,
        score_rule=str(record.spec.budget["score"]),
        failure=str(record.failure) if record.failure else None,
        reason=mask_all(record.reason, secret_values(os.environ)),
        weights=record.weights,
        training_seconds=record.seconds_spent,
        # A link could lead to any file of the user's.
        files={n: p for n, p in candidates.items() if p.is_file() and not p.is_symlink()},
    )
