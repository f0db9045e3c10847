"""The mirror: a process of its own that pushes an experiment's records to its trackers.

It is started by a command, told what to do by JSON lines on its standard input, and answers by
JSON lines on its standard output. When its input ends, so does it, whatever its services do.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from rlexp.app.reading.leading import Leading, leading_aggregate
from rlexp.app.reading.survey import DAMAGE
from rlexp.app.tracking.snapshot import (
    Feed,
    Labels,
    count_rows,
    ended,
    is_final,
    read_summary,
    tracked_experiment,
    tracked_run,
)
from rlexp.config.validate import build
from rlexp.errors import HeldError, RlexpError, TrackerRefused, TrackerUnreachable
from rlexp.protocol.identity import canonical
from rlexp.records.run import RunRecord, State
from rlexp.store.cursors import Cursor, Cursors
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.lease import is_held
from rlexp.store.runs import read_run
from rlexp.store.secrets import mask_known, secret_values
from rlexp.trackers import (
    Reached,
    Row,
    Sink,
    Summary,
    TrackedExperiment,
    TrackedRun,
    Tracker,
)
from rlexp.trackers.idle import step_back

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
    return tracker.destination(project).replace(f"{project}{os.sep}", "")


def pause_after(failures: int) -> float:
    """Seconds until the next attempt after so many in a row that failed."""
    # Processes that failed together do not come back together.
    jitter = 0.75 + 0.5 * (time.monotonic_ns() % 1000) / 1000
    return 2.0 ** min(failures, 6) * jitter


PAUSE = 2.0
"""Seconds between two looks at the journals."""
LOCKED = 8.0
"""Seconds that it waits for another process that pushes, before it says so."""
ORPHAN_SECONDS = 5.0
"""How long it goes on when the command is gone without a word."""


@dataclass(slots=True)
class Mirror:
    """One tracker in a thread of its own, so that none waits for another."""

    name: str
    tracker: Tracker
    paths: ExperimentPaths
    leading: Leading | RlexpError
    say: "Answers"
    once: bool
    finishing: threading.Event
    over: threading.Event = field(default_factory=threading.Event)
    problem: str | None = None
    _failures: int = 0

    def start(self) -> None:
        """Begin to push."""
        if self._place:
            threading.Thread(target=self._work, name=self.name, daemon=True).start()
        else:
            self.say(self.name, "open", place="")
            self.over.set()

    def tell(self) -> None:
        """Say how much is left to be pushed."""
        rows, runs = (None, None) if self._place else (0, 0)
        try:
            if self._place:
                rows, runs = pending(self.paths, Cursors(self.paths, self.name, self._place))
        except (RlexpError, *DAMAGE) as error:
            self.problem = self.problem or str(error)
        done = self.over.is_set() and self.problem is None
        self.say(self.name, "end", rows=rows, runs=runs, problem=self.problem, done=done)

    @property
    def _place(self) -> str:
        return place_of(self.tracker, self.paths)

    def _work(self) -> None:
        try:
            self._hold()
        except Exception as error:  # noqa: BLE001 libraries raise what they like
            self._found(error)
        self.over.set()

    def _hold(self) -> None:
        """Push as soon as nobody else does: the mirror of a killed command lives on for a while."""
        given_up = time.monotonic() + LOCKED
        while True:
            cursors = Cursors(self.paths, self.name, self._place)
            try:
                with cursors.holding(time.time()):
                    self._push_with(cursors)
                    return
            except HeldError as error:
                if time.monotonic() > given_up:
                    self._found(error)
                    if self.once or self.finishing.is_set():
                        return
            self.finishing.wait(0.5)

    def _push_with(self, cursors: Cursors) -> None:
        pushing = Pushing(self.paths, self.tracker, cursors, self._leading)
        try:
            self._push(pushing)
        finally:
            pushing.close()

    @property
    def _leading(self) -> Leading:
        if isinstance(self.leading, RlexpError):
            raise self.leading
        return self.leading

    def _push(self, pushing: Pushing) -> None:
        opened = False
        while True:
            last = self.finishing.is_set()
            try:
                if self.once and pushing.is_current():
                    self.problem = None
                    return
                pushing.open()
                if not opened:
                    self.say(self.name, "open", place=self._place)
                    opened = True
                # A run without an end is lost where no command works at the experiment.
                pushing.round(unended=last and self.once and not is_held(self.paths.lock))
                if last:
                    pushing.summarise()
                self._worked(pushing)
                if last:
                    return
            except (TrackerUnreachable, OSError) as error:
                self._found(error)
                self._failures += 1
            self._pause(last=last)

    def _pause(self, *, last: bool) -> None:
        """Wait for the next look; a service that failed is given longer and longer."""
        if not self._failures:
            self.finishing.wait(PAUSE)
        elif last and not self.once:
            # The last seconds of a command are not slept away.
            time.sleep(1.0)
        elif last:
            time.sleep(pause_after(self._failures))
        else:
            self.finishing.wait(pause_after(self._failures))

    def _worked(self, pushing: Pushing) -> None:
        self._failures = 0
        self.problem = next(iter(pushing.refused.values()), None)
        if self.problem:
            self.say(self.name, "problem", text=self.problem)

    def _found(self, error: Exception) -> None:
        known = isinstance(error, RlexpError | OSError)
        text = str(error) if known else f"{type(error).__name__}: {error}"
        self.problem = " ".join(text.split())[:400]
        self.say(self.name, "problem", text=self.problem)


class Answers:
    """Writes answers, each problem once."""

    def __init__(self, descriptor: int) -> None:
        """Write to a descriptor that no library knows of."""
        self._file = os.fdopen(descriptor, "w", encoding="utf-8")
        self._lock = threading.Lock()
        self._secrets = secret_values(os.environ)
        self._said: set[str] = set()

    def __call__(self, tracker: str, kind: str, **more: Any) -> None:
        """Say something of a tracker."""
        if isinstance(text := more.get("problem") or more.get("text"), str):
            key = "problem" if "problem" in more else "text"
            more[key] = mask_known(text, self._secrets)
        line = json.dumps({"tracker": tracker, "kind": kind, **more})
        with self._lock:
            if kind == "problem" and line in self._said:
                return
            self._said.add(line)
            try:
                self._file.write(line + "\n")
                self._file.flush()
            except OSError:
                # Nobody listens any more; what can still be pushed is.
                return


def main() -> None:
    """Mirror what the first line of standard input says, until it says enough."""
    answers = Answers(_silent())
    order, over = json.loads(sys.stdin.readline() or "{}"), threading.Event()
    if not order.get("once"):
        step_back(over)
    sys.path.append(order["folder"])
    mirrors = _mirrors(order, answers)
    for mirror in mirrors:
        mirror.start()
    told = json.loads(sys.stdin.readline() or "null") if not order.get("once") else {}
    waits = {m.name: m.tracker.wait for m in mirrors}
    if told is None:
        waits = dict.fromkeys(waits, ORPHAN_SECONDS)
    else:
        # The command waits for what is left.
        over.set()
        if (seconds := (told or order).get("wait")) is not None:
            waits = dict.fromkeys(waits, float(seconds))
    for mirror in mirrors:
        mirror.finishing.set()
    _finish(mirrors, waits)
    # A library that still waits for its service would keep the process alive.
    os._exit(0)


def _finish(mirrors: Sequence[Mirror], waits: Mapping[str, float]) -> None:
    begun = time.monotonic()
    for mirror in mirrors:
        mirror.over.wait(max(begun + waits[mirror.name] - time.monotonic(), 0.0))
    for mirror in mirrors:
        mirror.tell()


def _mirrors(order: Mapping[str, Any], answers: Answers) -> list[Mirror]:
    paths = ExperimentPaths(Path(order["experiment"]))
    leading: Leading | RlexpError
    try:
        leading = leading_aggregate(Path(order["folder"]), order["allowed"])
    except RlexpError as error:
        leading = error
    return [
        Mirror(
            name=name,
            tracker=build(plain, "tracker", order["allowed"]),
            leading=leading,
            paths=paths,
            say=answers,
            once=bool(order.get("once")),
            finishing=threading.Event(),
        )
        for name, plain in order["trackers"].items()
    ]


def _silent() -> int:
    """Give what libraries print to nobody; returns a descriptor of the old standard output."""
    kept = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
    return kept


if __name__ == "__main__":
    main()
