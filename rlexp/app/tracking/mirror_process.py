"""The mirror: a separate process that pushes an experiment's records to its trackers.

A command starts it. It reads its task as JSON lines from standard input and writes its answers as
JSON lines to standard output. It ends when its input ends, even if a service does not respond.
`main` is called by `rlexp.app.reporting.mirror_entry`; each tracker has a thread (`Mirror`), which uses an `Uploader`.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from rlexp.app.reading.experiment_scan import READ_ERRORS
from rlexp.app.reading.headline_aggregate import HeadlineAggregate, read_headline_aggregate
from rlexp.app.tracking.mirror_client import destination_of
from rlexp.app.tracking.run_labels import GroupStarts, RunLabels
from rlexp.app.tracking.tracked_records import (
    AnswerReader,
    RunJournalReader,
    count_rows,
    ended,
    group_of,
    is_final,
    read_summary,
    tracked_experiment,
    tracked_run,
)
from rlexp.app.workspace import Workspace
from rlexp.config.validate import build
from rlexp.errors import HeldError, RlexpError, TrackerRefused, TrackerUnreachable
from rlexp.protocol.identity import canonical
from rlexp.records.run import RunRecord, State
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.locks.lease import is_held
from rlexp.store.runs import read_run, read_spec
from rlexp.store.secrets import mask_known, secret_values
from rlexp.store.tracker_positions import TrackerPosition, TrackerPositions
from rlexp.trackers import (
    ExperimentSummary,
    MetricRow,
    SyncPosition,
    TrackedExperiment,
    TrackedRun,
    Tracker,
    TrackerConnection,
)
from rlexp.trackers.low_priority import lower_priority

ROWS_PER_PUSH = 1000
"""The largest number of rows in one push."""
SUMMARY = ".summary"
"""Name of the summary's cursor; no run can have this name."""
REPORT = "report"
"""Key of the summary's cursor for the sums of the report's files that were pushed."""
DESCRIPTIONS = ".descriptions"
"""Name of the cursor that holds with which labels the descriptions of runs were last compared."""


@dataclass(slots=True)
class _UploadedRun:
    """A run that is being pushed; `step` is the last one pushed, even if not yet safely stored."""

    reader: RunJournalReader
    tracked: TrackedRun | None = None
    described: str = ""
    step: int | None = None


@dataclass(slots=True)
class Uploader:
    """Pushes one experiment to one tracker. One thread uses it, which holds the cursors' lease.

    Attributes:
        paths: The experiment.
        tracker: The tracker.
        cursors: The position of every run, stored on disk.
        leading: Computes the aggregates of the summary.
        read_answer: Computes the answer of the experiment's report.
        refused: Why the service refused a run, by the run's name.
    """

    paths: ExperimentPaths
    tracker: Tracker
    cursors: TrackerPositions
    leading: HeadlineAggregate
    read_answer: AnswerReader
    refused: dict[str, str] = field(default_factory=dict)
    _labels: RunLabels = field(init=False)
    _experiment: TrackedExperiment = field(init=False)
    _starts: GroupStarts = field(init=False)
    _sink: TrackerConnection | None = None
    _runs: dict[str, _UploadedRun] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read the experiment's definition.

        Raises:
            RecordError: The definition is damaged.
        """
        self._labels = RunLabels(self.paths)
        experiment = tracked_experiment(self.paths, self._labels)
        self._experiment = replace(experiment, folder=self.cursors.folder)
        self._starts = GroupStarts(
            self.paths, lambda spec: group_of(self._experiment, spec, self._labels)
        )

    def open(self) -> TrackerConnection:
        """Connect to the service, unless connected.

        Raises:
            TrackerUnreachable: The service does not respond.
            TrackerRefused: The service refuses the experiment.
        """
        if self._sink is None:
            self._sink = self.tracker.open(self._experiment)
        return self._sink

    def push_all(self, *, unended: bool = False, last: bool = False) -> None:
        """Push all new rows of every run.

        Args:
            unended: Whether a run without a recorded end is reported as lost, which is right when
                no command is executing the experiment.
            last: Whether no further push follows, so that runs are described again whose label,
                task, trial or tags have changed since.

        Raises:
            TrackerUnreachable: The service does not respond; what was pushed stays.
            TrackerRefused: The service refuses three runs or the whole experiment.
            OSError: The cursor cannot be written.
        """
        changed = self._changed_descriptions() if last else frozenset()
        if changed:
            # The summary names labels, too.
            self.cursors.move(SUMMARY, kept={})
        for paths in self.paths.runs():
            if paths.folder.name in self.refused:
                continue
            try:
                self._push(paths, unended=unended, again=paths.folder.name in changed)
            except TrackerRefused as error:
                # A single run may hold data that a service cannot store; three refused runs mean
                # that it refuses everything.
                self.refused[paths.folder.name] = str(error)
                if len(self.refused) >= 3:
                    raise
            except TrackerUnreachable:
                raise
            except (RlexpError, *READ_ERRORS) as error:
                if isinstance(error, OSError):
                    raise
                self.refused[paths.folder.name] = str(error)
        if last and not self.refused:
            self.cursors.move(DESCRIPTIONS, kept={"digest": self._labels.digest})

    def _changed_descriptions(self) -> frozenset[str]:
        """The names of the runs that the service shows with another label, task, trial or tag."""
        self._labels.refresh()
        if self.cursors.of(DESCRIPTIONS).kept.get("digest") == self._labels.digest:
            return frozenset()
        runs = self.paths.runs()
        return frozenset(paths.folder.name for paths in runs if self._is_changed(paths))

    def _is_changed(self, paths: RunPaths) -> bool:
        position = self.cursors.of(paths.folder.name)
        if position == TrackerPosition():
            # The service does not have the run yet.
            return False
        try:
            return position.described != self._labels.describe(read_spec(paths)).digest
        except (RlexpError, *READ_ERRORS):
            return False

    def summarise(self) -> None:
        """Push the experiment's summary if it has changed.

        Raises:
            TrackerUnreachable: The service does not respond.
            TrackerRefused: The service refuses the summary.
        """
        summary, digest, report = self._summary()
        if not self._has(digest):
            self.open().summarise(summary)
        # Stored after the push, so that an interrupted push is repeated.
        self.cursors.move(SUMMARY, kept={"digest": digest, REPORT: report})

    def is_current(self) -> bool:
        """Whether the service has everything, so that no connection is needed."""
        if count_pending(self.paths, self.cursors) != (0, 0) or self._changed_descriptions():
            return False
        _, digest, report = self._summary()
        # Positions that an older version has stored lack the sums.
        return self._has(digest) and self.cursors.of(SUMMARY).kept.get(REPORT) == report

    def _summary(self) -> tuple[ExperimentSummary, str, Mapping[str, str | None]]:
        """The summary, its digest, and the sums of the report's files."""
        summary, document = read_summary(
            self.paths, self._experiment, self._labels, self.leading, self.read_answer
        )
        return summary, sha256(canonical(document).encode()).hexdigest(), document["files"]

    def _has(self, digest: str) -> bool:
        return self.cursors.of(SUMMARY).kept.get("digest") == digest

    def close(self) -> None:
        """Close the connection."""
        if self._sink is not None:
            self._sink.close()
            self._sink = None

    def _push(self, paths: RunPaths, *, unended: bool, again: bool) -> None:
        """Push what is new of a run; `again` describes it and its end again."""
        name = paths.folder.name
        attempts = paths.attempts()
        # The cursor stores the last attempt whose end was pushed: only its description can change.
        ended_before = attempts and self.cursors.of(name).attempt >= attempts[-1].number
        if not attempts or (ended_before and not again):
            return
        if again:
            # A run that is forgotten here begins anew, with its new description.
            self._runs.pop(name, None)
        run = self._runs.get(name) or self._runs.setdefault(
            name, _UploadedRun(RunJournalReader(paths))
        )
        self._read(name, run)
        record = run.reader.read_end(unended=unended)
        rows = run.reader.complete_rows(record)
        lost = record is not None and record.state is State.LOST
        is_known = record is None or (lost and self._knows_loss(name, run))
        if not rows and is_known and not again:
            return
        try:
            tracked = self._begin(name, run)
            rows = run.reader.complete_rows(record)
            # The cursor moves after each part, so an interruption repeats few rows.
            for start in range(0, len(rows), ROWS_PER_PUSH):
                self._take(name, run, tracked, rows[start : start + ROWS_PER_PUSH])
            if record is not None:
                self._end(name, run, tracked, record)
            else:
                self.cursors.move(name, described=run.described)
        except OSError:
            # Rows beyond the stored cursor are pushed again when the run is opened again.
            del self._runs[name]
            raise

    def _read(self, name: str, run: _UploadedRun) -> None:
        """Read new events; all events where the run was restarted and its numbers may differ."""
        run.reader.read(self.cursors.of(name).step if run.step is None else run.step)
        if run.reader.begun != self.cursors.of(name).begun:
            # The whole position is reset: to the service, this is a new run without rows.
            self.cursors.move(name, **asdict(TrackerPosition(begun=run.reader.begun)))
            run.tracked = run.step = None
            run.reader.reread(-1)

    def _knows_loss(self, name: str, run: _UploadedRun) -> bool:
        return self.cursors.of(name).lost == run.reader.attempt

    def _begin(self, name: str, run: _UploadedRun) -> TrackedRun:
        if run.step is not None and run.tracked is not None:
            return run.tracked
        cursor, reader = self.cursors.of(name), run.reader
        run.described = self._labels.describe(reader.spec).digest
        tracked = tracked_run(self._experiment, reader, self._labels)
        begun = self._starts.of(tracked.group, tracked.started)
        run.tracked = replace(tracked, group_started=begun)
        reached = self.open().begin(run.tracked, SyncPosition(step=cursor.step, kept=cursor.kept))
        self._move(name, reached)
        # The service may have lost rows since the last command, for example a deleted run.
        if reached.step < cursor.step:
            reader.reread(reached.step)
        else:
            reader.read(reached.step)
        run.step = reached.step
        return run.tracked

    def _take(
        self, name: str, run: _UploadedRun, tracked: TrackedRun, rows: list[MetricRow]
    ) -> None:
        # The cursor moves only as far as the service has stored rows safely. `run.step` moves
        # further, so that this process sends no row twice.
        self._move(name, self.open().push(tracked, rows))
        run.step = rows[-1].step

    def _end(self, name: str, run: _UploadedRun, tracked: TrackedRun, record: RunRecord) -> None:
        reached = self.open().end(tracked, ended(run.reader, record))
        outcome = "lost" if record.state is State.LOST else "attempt"
        # Together with the end: a description counts once the service has all of it.
        self._move(name, reached, described=run.described, **{outcome: run.reader.attempt})
        del self._runs[name]

    def _move(self, name: str, reached: SyncPosition, **more: Any) -> None:
        self.cursors.move(name, step=reached.step, kept=reached.kept, **more)


def count_pending(paths: ExperimentPaths, cursors: TrackerPositions) -> tuple[int, int]:
    """The approximate number of pending rows, and the number of runs with anything pending."""
    rows = runs = 0
    for run in paths.runs():
        cursor = cursors.of(run.folder.name)
        try:
            attempts = run.attempts()
            if not attempts or cursor.attempt >= attempts[-1].number:
                continue
            record = read_run(run).record
            waiting = count_rows(run, cursor.step)
        except (RlexpError, *READ_ERRORS):
            continue
        # The last step of an unfinished run may still grow, so its row is not counted.
        waiting -= bool(waiting and not is_final(record))
        rows += waiting
        settled = record.state is not State.RUNNING and cursor.lost != attempts[-1].number
        runs += bool(waiting or settled)
    return rows, runs


def retry_delay(failures: int) -> float:
    """Seconds to wait before the next attempt, after this many consecutive failures."""
    # The random factor keeps processes that failed together from retrying together.
    jitter = 0.75 + 0.5 * (time.monotonic_ns() % 1000) / 1000
    return 2.0 ** min(failures, 6) * jitter


POLL_SECONDS = 2.0
"""Seconds between two readings of the journals."""
LOCK_PATIENCE = 8.0
"""Seconds to wait for another mirror of the same experiment before reporting a problem."""
ORPHAN_SECONDS = 5.0
"""Seconds to continue after the command has ended without a message."""


@dataclass(slots=True)
class Mirror:
    """One tracker with its own thread, so that a slow tracker does not delay the others."""

    name: str
    tracker: Tracker
    paths: ExperimentPaths
    leading: HeadlineAggregate | RlexpError
    read_answer: AnswerReader
    answer: "AnswerWriter"
    once: bool
    retries: bool
    finishing: threading.Event
    over: threading.Event = field(default_factory=threading.Event)
    problem: str | None = None
    opened: bool = False
    _failures: int = 0

    def start(self) -> None:
        """Start the thread; a tracker without a destination is finished at once."""
        if self._destination:
            threading.Thread(target=self._work, name=self.name, daemon=True).start()
        else:
            self.answer(self.name, "open", place="")
            self.over.set()

    def report_pending(self) -> None:
        """Report how much is still pending."""
        rows, runs = (None, None) if self._destination else (0, 0)
        try:
            if self._destination:
                # Read from disk, because the thread may still be pushing or may hang.
                rows, runs = count_pending(
                    self.paths, TrackerPositions(self.paths, self.name, self._destination)
                )
        except (RlexpError, *READ_ERRORS) as error:
            self.problem = self.problem or str(error)
        done = self.over.is_set() and self.problem is None
        self.answer(
            self.name,
            "end",
            rows=rows,
            runs=runs,
            problem=self.problem,
            done=done,
            opened=self.opened,
        )

    @property
    def _destination(self) -> str:
        return destination_of(self.tracker, self.paths)

    def _work(self) -> None:
        try:
            self._hold()
        except Exception as error:  # noqa: BLE001 libraries raise what they like
            self._report_problem(error)
        self.over.set()

    def _hold(self) -> None:
        """Push as soon as no other process does: a killed command's mirror lives on for a while."""
        deadline = time.monotonic() + LOCK_PATIENCE
        while True:
            cursors = TrackerPositions(self.paths, self.name, self._destination)
            try:
                with cursors.holding(time.time()):
                    self._push_with(cursors)
                    return
            except HeldError as error:
                if time.monotonic() > deadline:
                    self._report_problem(error)
                    if self.once or self.finishing.is_set():
                        return
            self.finishing.wait(0.5)

    def _push_with(self, cursors: TrackerPositions) -> None:
        pushing = Uploader(self.paths, self.tracker, cursors, self._leading, self.read_answer)
        try:
            self._push(pushing)
        finally:
            pushing.close()

    @property
    def _leading(self) -> HeadlineAggregate:
        # Raised in the thread, so that the command hears of it as a problem of the tracker.
        if isinstance(self.leading, RlexpError):
            raise self.leading
        return self.leading

    def _push(self, pushing: Uploader) -> None:
        while True:
            last = self.finishing.is_set()
            try:
                if self.once and pushing.is_current():
                    self.problem = None
                    return
                pushing.open()
                if not self.opened:
                    self.answer(self.name, "open", place=self._destination)
                    self.opened = True
                # Without a command at work, a run without a recorded end is lost.
                alone = last and self.once and not is_held(self.paths.lock)
                pushing.push_all(unended=alone, last=last)
                if last:
                    pushing.summarise()
                self._worked(pushing)
                if last:
                    return
            except (TrackerUnreachable, OSError) as error:
                self._report_problem(error, again=self.retries)
                self._failures += 1
                if not self.retries:
                    return
            self._pause(last=last)

    def _pause(self, *, last: bool) -> None:
        """Wait before the next reading, longer after each failure."""
        if not self._failures:
            self.finishing.wait(POLL_SECONDS)
        elif last and not self.once:
            # The remaining seconds of a command are too few for long delays.
            time.sleep(1.0)
        elif last:
            time.sleep(retry_delay(self._failures))
        else:
            self.finishing.wait(retry_delay(self._failures))

    def _worked(self, pushing: Uploader) -> None:
        self._failures = 0
        self.problem = next(iter(pushing.refused.values()), None)
        if self.problem:
            self.answer(self.name, "problem", text=self.problem)

    def _report_problem(self, error: Exception, *, again: bool = False) -> None:
        expected = isinstance(error, RlexpError | OSError)
        text = str(error) if expected else f"{type(error).__name__}: {error}"
        self.problem = " ".join(text.split())[:400]
        self.answer(self.name, "problem", text=self.problem, again=again)


AnswerReaderOf = Callable[[Workspace], AnswerReader]
"""Makes the reader of answers for a workspace."""


class AnswerWriter:
    """Writes answers to the command as JSON lines, each problem once, with secrets masked."""

    def __init__(self, descriptor: int) -> None:
        """Write to a file descriptor that no library uses."""
        self._file = os.fdopen(descriptor, "w", encoding="utf-8")
        self._lock = threading.Lock()
        self._secrets = secret_values(os.environ)
        self._written: set[str] = set()

    def __call__(self, tracker: str, kind: str, **more: Any) -> None:
        """Write an answer about a tracker."""
        if isinstance(text := more.get("problem") or more.get("text"), str):
            key = "problem" if "problem" in more else "text"
            more[key] = mask_known(text, self._secrets)
        line = json.dumps({"tracker": tracker, "kind": kind, **more})
        with self._lock:
            if kind == "problem" and line in self._written:
                return
            self._written.add(line)
            try:
                self._file.write(line + "\n")
                self._file.flush()
            except OSError:
                # The command is gone; the mirror still pushes as much as it can.
                return


def main(answer_reader: AnswerReaderOf) -> None:
    """Mirror the experiment of the first input line, until the second line or the end of input.

    Args:
        answer_reader: Makes the reader of answers for a workspace.
    """
    answers = AnswerWriter(_silent())
    request, input_ended = json.loads(sys.stdin.readline() or "{}"), threading.Event()
    if not request.get("once"):
        lower_priority(input_ended)
    # Last on the path, so that modules of the workspace never shadow installed ones.
    sys.path.append(request["folder"])
    workspace = Workspace.here(tuple(request["allowed"]), folder=request["folder"])
    mirrors = _mirrors(request, answers, answer_reader(workspace))
    for mirror in mirrors:
        mirror.start()
    if request.get("once"):
        # The command keeps the input open until it has its answers.
        threading.Thread(target=_end_after_input, name="input", daemon=True).start()
        last_message: dict[str, Any] | None = {}
    else:
        last_message = json.loads(sys.stdin.readline() or "null")
    waits = {m.name: m.tracker.wait for m in mirrors}
    if last_message is None:
        # The input has ended without a message, so the command was killed and does not wait.
        waits = dict.fromkeys(waits, ORPHAN_SECONDS)
    else:
        # The command is waiting, so the mirror takes normal priority again.
        input_ended.set()
        if (seconds := (last_message or request).get("wait")) is not None:
            waits = dict.fromkeys(waits, float(seconds))
    for mirror in mirrors:
        mirror.finishing.set()
    _finish(mirrors, waits)
    # A library thread that still waits for its service would keep the process alive.
    os._exit(0)


def _end_after_input() -> None:
    """End the process soon after its command was killed: otherwise it would hold the trackers' locks."""
    sys.stdin.read()
    time.sleep(ORPHAN_SECONDS)
    os._exit(0)


def _finish(mirrors: Sequence[Mirror], waits: Mapping[str, float]) -> None:
    start = time.monotonic()
    for mirror in mirrors:
        mirror.over.wait(max(start + waits[mirror.name] - time.monotonic(), 0.0))
    for mirror in mirrors:
        mirror.report_pending()


def _mirrors(
    request: Mapping[str, Any], answers: AnswerWriter, read_answer: AnswerReader
) -> list[Mirror]:
    paths = ExperimentPaths(Path(request["experiment"]))
    leading: HeadlineAggregate | RlexpError
    try:
        leading = read_headline_aggregate(Path(request["folder"]), request["allowed"])
    except RlexpError as error:
        leading = error
    return [
        Mirror(
            name=name,
            tracker=build(settings, "tracker", request["allowed"]),
            leading=leading,
            read_answer=read_answer,
            paths=paths,
            answer=answers,
            once=bool(request.get("once")),
            retries=bool(request.get("retries", True)),
            finishing=threading.Event(),
        )
        for name, settings in request["trackers"].items()
    ]


def _silent() -> int:
    """Discard everything that libraries print; returns a descriptor of the original output."""
    # Libraries also write to the descriptors directly, which would mix with the answers.
    original = os.dup(1)
    null_device = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(null_device, descriptor)
    os.close(null_device)
    return original
