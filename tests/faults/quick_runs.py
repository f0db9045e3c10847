"""Runs that train nothing and take milliseconds, for tests of faults in commands."""

import hashlib
import json
import os
import signal
import socket
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlexp.engine.run_in_flight import PROGRESS
from rlexp.errors import NO_SPACE
from rlexp.executors import DISK_FULL
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Ending, Evaluated, Failure, RunEnded, RunStarted, StopRequest
from rlexp.store.files import publish
from rlexp.store.journal import JournalWriter
from rlexp.store.layout import AttemptPaths, RunPaths
from rlexp.store.locks.lease import hold
from rlexp.store.runs import STOP_REASON, read_spec, read_stop

SETTINGS = "RLEXP_QUICK"
"""Variable with JSON settings of the runs.

`seconds` of each run; `again`: seconds of further attempts; `raises`: whether a run fails; `bytes`
of memory that a run takes; `flood`: bytes that a run writes to its output; `deaf`: whether a run
ignores SIGTERM; `warming`: seconds that importing this module takes, which delays the server that
runs are forked from; `starting`: seconds between the making of an attempt and its first event;
`gate`: a file; while it exists, no attempt writes its first event.
"""
LINE = b"x" * 999_999 + b"\n"
TICK = 0.02
"""Seconds between two checks for a request to stop."""


def _settings() -> Mapping[str, Any]:
    settings: Mapping[str, Any] = json.loads(os.environ.get(SETTINGS, "{}"))
    return settings


time.sleep(_settings().get("warming", 0.0))


def execute(arguments: list[str]) -> int:
    """Write the files of a training.

    Args:
        arguments: The run's folder and the attempt's number.
    """
    paths = RunPaths(Path(arguments[0]))
    attempt = paths.attempt(int(arguments[1]))
    _wait_before_first_event()
    try:
        with (
            hold(paths.lease, f"run {paths.folder.name}", now=time.time(), patience=10.0),
            closing(JournalWriter(attempt.journal)) as journal,
        ):
            _Quick(paths, attempt, journal, read_spec(paths)).run()
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        return DISK_FULL
    return 0


def _wait_before_first_event() -> None:
    time.sleep(_settings().get("starting", 0.0))
    gate = _settings().get("gate")
    while gate is not None and Path(gate).exists():
        time.sleep(TICK)


def score_of(spec: RunSpec) -> float:
    """The score of a run: a number in [0, 100) that depends on the run's identity only."""
    return int(hashlib.sha256(spec.id.encode()).hexdigest()[:8], 16) % 100_000 / 1000


@dataclass(slots=True)
class _Quick:
    paths: RunPaths
    attempt: AttemptPaths
    journal: JournalWriter
    spec: RunSpec
    start_time: float = 0.0
    request: StopRequest | None = None

    def run(self) -> None:
        self.start_time = time.monotonic()
        settings = _settings()
        signal.signal(signal.SIGTERM, signal.SIG_IGN if settings.get("deaf") else self._interrupt)
        self.journal.append(
            RunStarted(
                time=time.time(),
                attempt=self.attempt.number,
                pid=os.getpid(),
                host=socket.gethostname(),
            )
        )
        if settings.get("raises"):
            self._end(0, Ending.FAILED, Failure.ENVIRONMENT, "step 3: RuntimeError: no motor")
            return
        memory = b"x" * settings.get("bytes", 0)
        for _ in range(settings.get("flood", 0) // len(LINE)):
            os.write(1, LINE)
        del memory
        seconds = settings.get("seconds", 0.0)
        if self.attempt.number > 1:
            seconds = settings.get("again", seconds)
        steps, every = self.spec.budget["steps"], self.spec.budget["evaluation_every"]
        marks = [*range(every, steps + 1, every)] if every else []
        for mark in [*marks, steps]:
            if self._train(mark, seconds / (len(marks) + 1)):
                self._end(mark, self.request.ending, None, self.request.reason)  # type: ignore[union-attr]
                return
            if mark is not steps:
                self._evaluate(mark, final=False)
        self._evaluate(steps, final=True)
        publish(self.paths.model, self.spec.id.encode())
        self._end(steps, Ending.COMPLETED, None, None)

    def _interrupt(self, *_: object) -> None:
        self.request = StopRequest(Ending.INTERRUPTED, STOP_REASON)

    def _train(self, step: int, seconds: float) -> bool:
        """Let time pass; returns whether the run is to end."""
        until, beats = time.monotonic() + seconds, 0
        while True:
            beats += 1
            self.attempt.progress.write_bytes(PROGRESS.pack(step, step * 1000 + beats))
            if self.paths.stop.exists():
                self.request = read_stop(self.paths)
            if self.request is not None or time.monotonic() >= until:
                return self.request is not None
            time.sleep(TICK)

    def _evaluate(self, step: int, *, final: bool) -> None:
        self.journal.append(
            Evaluated(
                time=time.time(),
                step=step,
                returns=(score_of(self.spec) * step / self.spec.budget["steps"],),
                lengths=(10,),
                seconds=0.0,
                final=final,
            )
        )

    def _end(self, step: int, ending: Ending, failure: Failure | None, reason: str | None) -> None:
        completed = ending is Ending.COMPLETED
        self.journal.append(
            RunEnded(
                time=time.time(),
                step=step,
                ending=ending,
                seconds=time.monotonic() - self.start_time,
                failure=failure,
                reason=reason,
                weights=hashlib.sha256(self.spec.id.encode()).hexdigest() if completed else None,
                rung=self.request.rung if self.request else None,
            )
        )
