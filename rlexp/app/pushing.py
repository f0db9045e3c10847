"""Pushes what the records of an experiment hold to one tracker, and keeps how far it is."""

import os
import time
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from typing import Any

from rlexp.app.feed import Feed, count_rows, is_final
from rlexp.app.reading.leading import Leading
from rlexp.app.reading.survey import DAMAGE
from rlexp.app.tracked_summary import read_summary
from rlexp.app.tracking.snapshot import Labels, ended, tracked_experiment, tracked_run
from rlexp.errors import RlexpError, TrackerRefused, TrackerUnreachable
from rlexp.protocol.identity import canonical
from rlexp.records.run import RunRecord, State
from rlexp.store.cursors import Cursor, Cursors
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.runs import read_run
from rlexp.trackers import (
    Reached,
    Row,
    Sink,
    Summary,
    TrackedExperiment,
    TrackedRun,
    Tracker,
)

ROWS = 1000
"""Rows that are pushed at a time."""
SUMMARY = ".summary"
"""The cursor of the summary, which is no name of a run."""


@dataclass(slots=True)
class _Run:
    """A run that is being pushed: `step` is how far rows were taken, safe or not."""

    feed: Feed
    tracked: TrackedRun | None = None
    step: int | None = None


@dataclass(slots=True)
class Pushing:
    """One experiment and one tracker. One thread calls it, holding the cursors.

    Attributes:
        paths: The experiment.
        tracker: Where to.
        cursors: How far it is.
        leading: The aggregate of its summary.
        refused: What single runs were refused for.
    """

    paths: ExperimentPaths
    tracker: Tracker
    cursors: Cursors
    leading: Leading
    refused: dict[str, str] = field(default_factory=dict)
    _labels: Labels = field(init=False)
    _experiment: TrackedExperiment = field(init=False)
    _sink: Sink | None = None
    _runs: dict[str, _Run] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read what the experiment is.

        Raises:
            RecordError: That is damaged.
        """
        self._labels = Labels(self.paths)
        known = tracked_experiment(self.paths, self._labels)
        self._experiment = replace(known, folder=self.cursors.folder)

    def open(self) -> Sink:
        """Reach the service, once.

        Raises:
            TrackerUnreachable: It does not answer.
            TrackerRefused: It takes nothing.
        """
        if self._sink is None:
            self._sink = self.tracker.open(self._experiment)
        return self._sink

    def round(self, *, unended: bool = False) -> None:
        """Push what every run has that the service has not.

        Args:
            unended: Whether a run that died without a word is said to be lost: so it is when no
                command works at the experiment.

        Raises:
            TrackerUnreachable: The service does not answer; what was pushed stays.
            TrackerRefused: It takes nothing any more.
            OSError: The disk does not take the cursor.
        """
        for paths in self.paths.runs():
            if paths.folder.name in self.refused:
                continue
            try:
                self._push(paths, unended=unended)
            except TrackerRefused as error:
                # One run may hold what a service cannot take; three show that it takes nothing.
                self.refused[paths.folder.name] = str(error)
                if len(self.refused) >= 3:
                    raise
            except TrackerUnreachable:
                raise
            except (RlexpError, *DAMAGE) as error:
                if isinstance(error, OSError):
                    raise
                self.refused[paths.folder.name] = str(error)

    def summarise(self) -> None:
        """Say how the experiment stands, if that has changed.

        Raises:
            TrackerUnreachable: The service does not answer.
            TrackerRefused: It does not take it.
        """
        summary, digest = self._summary()
        if not self._has(digest):
            self.open().summarise(summary)
            self.cursors.move(SUMMARY, kept={"digest": digest})

    def is_current(self) -> bool:
        """Whether the service has everything, so that it need not be asked."""
        return pending(self.paths, self.cursors) == (0, 0) and self._has(self._summary()[1])

    def _summary(self) -> tuple[Summary, str]:
        summary, said = read_summary(self.paths, self._experiment, self._labels, self.leading)
        return summary, sha256(canonical(said).encode()).hexdigest()

    def _has(self, digest: str) -> bool:
        return self.cursors.of(SUMMARY).kept.get("digest") == digest

    def close(self) -> None:
        """Let go of the service."""
        if self._sink is not None:
            self._sink.close()
            self._sink = None

    def _push(self, paths: RunPaths, *, unended: bool) -> None:
        name = paths.folder.name
        attempts = paths.attempts()
        if not attempts or self.cursors.of(name).attempt >= attempts[-1].number:
            return
        run = self._runs.get(name) or self._runs.setdefault(name, _Run(Feed(paths)))
        self._read(name, run)
        record = run.feed.stand(unended=unended)
        rows = run.feed.ready(record)
        lost = record is not None and record.state is State.LOST
        if not rows and (record is None or (lost and self._knows_loss(name, run))):
            return
        try:
            tracked = self._begin(name, run)
            rows = run.feed.ready(record)
            for start in range(0, len(rows), ROWS):
                self._take(name, run, tracked, rows[start : start + ROWS])
            if record is not None:
                self._end(name, run, tracked, record)
        except OSError:
            # What was written beyond the cursor is written over when the run is opened again.
            del self._runs[name]
            raise

    def _read(self, name: str, run: _Run) -> None:
        """Read what is new; from the beginning where a run began anew with other numbers."""
        run.feed.read(self.cursors.of(name).step if run.step is None else run.step)
        if run.feed.begun != self.cursors.of(name).begun:
            self.cursors.move(name, **asdict(Cursor(begun=run.feed.begun)))
            run.tracked = run.step = None
            run.feed.again(-1)

    def _knows_loss(self, name: str, run: _Run) -> bool:
        return self.cursors.of(name).lost == run.feed.attempt

    def _begin(self, name: str, run: _Run) -> TrackedRun:
        if run.step is not None and run.tracked is not None:
            return run.tracked
        cursor, feed = self.cursors.of(name), run.feed
        run.tracked = tracked_run(self._experiment, feed, self._labels)
        reached = self.open().begin(run.tracked, Reached(step=cursor.step, kept=cursor.kept))
        self._move(name, reached)
        if reached.step < cursor.step:
            feed.again(reached.step)
        else:
            feed.read(reached.step)
        run.step = reached.step
        return run.tracked

    def _take(self, name: str, run: _Run, tracked: TrackedRun, rows: list[Row]) -> None:
        self._move(name, self.open().push(tracked, rows))
        run.step = rows[-1].step

    def _end(self, name: str, run: _Run, tracked: TrackedRun, record: RunRecord) -> None:
        reached = self.open().end(tracked, ended(run.feed, record))
        told = "lost" if record.state is State.LOST else "attempt"
        self._move(name, reached, **{told: run.feed.attempt})
        del self._runs[name]

    def _move(self, name: str, reached: Reached, **more: Any) -> None:
        self.cursors.move(name, step=reached.step, kept=reached.kept, **more)


def pending(paths: ExperimentPaths, cursors: Cursors) -> tuple[int, int]:
    """About how many rows a service does not have, and of how many runs something is to be said."""
    rows = runs = 0
    for run in paths.runs():
        cursor = cursors.of(run.folder.name)
        try:
            attempts = run.attempts()
            if not attempts or cursor.attempt >= attempts[-1].number:
                continue
            record = read_run(run).record
            waiting = count_rows(run, cursor.step)
        except (RlexpError, *DAMAGE):
            continue
        # The last step of a run that goes on is not over.
        waiting -= bool(waiting and not is_final(record))
        rows += waiting
        settled = record.state is not State.RUNNING and cursor.lost != attempts[-1].number
        runs += bool(waiting or settled)
    return rows, runs


def place_of(tracker: Tracker, paths: ExperimentPaths) -> str:
    """Where a tracker mirrors to; within the project's folder without that, which may be moved."""
    project = paths.folder.parent.parent
    return tracker.place(project).replace(f"{project}{os.sep}", "")


def pause_after(failures: int) -> float:
    """Seconds until the next attempt after so many in a row that failed."""
    # Processes that failed together do not come back together.
    jitter = 0.75 + 0.5 * (time.monotonic_ns() % 1000) / 1000
    return 2.0 ** min(failures, 6) * jitter
