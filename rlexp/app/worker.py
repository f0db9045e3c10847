"""Executes one job: an attempt at a run, in a process of its own."""

import mmap
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlexp.app.drift import difference, versions
from rlexp.config.validate import build
from rlexp.engine.loop import PROGRESS
from rlexp.errors import NO_SPACE, RecordError, RlexpError
from rlexp.executors import DISK_FULL
from rlexp.protocol.budget import OPERATIONAL, Budget, Compute
from rlexp.protocol.spec import RunSpec
from rlexp.records.checkpoint import Checkpoint, SavedCheckpoint
from rlexp.records.events import (
    Ending,
    Event,
    Failure,
    Refused,
    RunEnded,
    RunStarted,
    StopRequest,
)
from rlexp.store.checkpoints import (
    checkpoint_steps,
    clear_replay,
    discard_after,
    publish_checkpoint,
    read_checkpoint,
)
from rlexp.store.files import publish_with, read_json
from rlexp.store.journal import JournalWriter
from rlexp.store.layout import AttemptPaths, RunPaths
from rlexp.store.lease import hold
from rlexp.store.runs import ASKED_TO_END, read_spec, read_stop
from rlexp.training.parts import Training, use_threads
from rlexp.training.train import train

PATIENCE = 10.0
"""Seconds to wait for an earlier process of the run, which may still be dying."""
CLOSE_LIMIT = 10.0
"""Seconds that environments may take to close once everything is recorded."""
LOOK_EVERY = 0.2
"""Seconds between looks for a request to stop."""


class RunListener:
    """Writes what a training tells into the run's folder."""

    def __init__(
        self,
        paths: RunPaths,
        attempt: AttemptPaths,
        journal: JournalWriter,
    ) -> None:
        self._paths = paths
        self._journal = journal
        self.origin: Mapping[str, Any] = {}
        self._started = time.monotonic()
        self._look_at = 0.0
        self._request: StopRequest | None = None
        self._beats = 0
        self.last_resort = threading.Timer(CLOSE_LIMIT, os._exit, (0,))
        self.last_resort.daemon = True
        with attempt.progress.open("w+b") as file:
            file.write(PROGRESS.pack(0, 0))
            file.flush()
            self._progress = mmap.mmap(file.fileno(), PROGRESS.size)

    def emit(self, event: Event) -> None:
        """Append an event to the journal; after the last one, closing may not take for ever."""
        self._journal.append(event)
        if isinstance(event, RunEnded):
            self.last_resort.start()

    def publish(self, name: str, write: Callable[[Path], object]) -> None:
        """Publish a file of the run."""
        publish_with(self._paths.folder / name, write)

    def checkpoint(self, checkpoint: Checkpoint) -> int:
        """Publish a checkpoint; the last two are kept."""
        return publish_checkpoint(self._paths, checkpoint, self.origin)

    def goes_on_from(self, step: int | None) -> None:
        """Remove what the attempt will make again."""
        discard_after(self._paths, step)

    def beat(self, step: int) -> None:
        """Overwrite the progress counters."""
        self._beats += 1
        PROGRESS.pack_into(self._progress, 0, step, self._beats)

    def stopping(self) -> StopRequest | None:
        """A signal's request, or one left in the run's folder."""
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_EVERY
            if self._paths.stop.exists():
                self._request = read_stop(self._paths)
        return self._request

    def interrupt(self, *_: object) -> None:
        """Handle a signal: end at the next step."""
        self._request = StopRequest(Ending.INTERRUPTED, ASKED_TO_END)

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def elapsed(self) -> float:
        """Seconds since the attempt began."""
        return time.monotonic() - self._started


def execute(words: list[str]) -> int:
    """Execute an attempt.

    Args:
        words: The run's folder and the attempt's number.

    Returns:
        0 when the journal says how the attempt ended, whatever that is.
    """
    try:
        _execute(RunPaths(Path(words[0])), int(words[1]))
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        print(error, file=sys.stderr)  # noqa: T201
        return DISK_FULL
    return 0


def _execute(paths: RunPaths, number: int) -> None:
    attempt = paths.attempt(number)
    with (
        hold(paths.lease, f"run {paths.folder.name}", now=time.time(), patience=PATIENCE),
        closing(JournalWriter(attempt.journal)) as journal,
    ):
        listener = RunListener(paths, attempt, journal)
        signal.signal(signal.SIGTERM, listener.interrupt)
        listener.emit(
            RunStarted(
                time=listener.now(),
                attempt=attempt.number,
                pid=os.getpid(),
                host=socket.gethostname(),
            ),
        )
        _train(paths, attempt, listener)
        listener.last_resort.cancel()


def _train(paths: RunPaths, attempt: AttemptPaths, listener: RunListener) -> None:
    try:
        settings = read_json(attempt.settings)
        spec = read_spec(paths)
        origin = {"run": spec.id, "attempt": attempt.number, "versions": versions(spec)}
        training = assemble(
            spec,
            operational={key: settings.get(key) for key in OPERATIONAL},
            allowed=tuple(settings["allowed"]),
        )
    except RlexpError as error:
        print(error, file=sys.stderr)  # noqa: T201
        ended = RunEnded(
            time=listener.now(),
            step=0,
            ending=Ending.FAILED,
            seconds=listener.elapsed(),
            failure=Failure.USER,
            reason=str(error),
        )
        listener.emit(ended)
    else:
        listener.origin = origin
        ended = train(
            training, listener, attempt.folder, _checkpoints(paths, origin, settings, listener)
        )
        if ended.ending is Ending.COMPLETED:
            # What stays of the experience harms nobody; the run is completed whatever happens here.
            with suppress(OSError, RlexpError):
                clear_replay(paths)


def _checkpoints(
    paths: RunPaths, origin: Mapping[str, Any], settings: Mapping[str, Any], listener: RunListener
) -> Iterator[SavedCheckpoint]:
    """What earlier attempts left, newest first; what cannot be used is told."""
    for step in checkpoint_steps(paths):
        saved = None
        try:
            saved = read_checkpoint(paths, step, run_id=origin["run"])
            refusal = difference(saved.about.get("versions"), origin["versions"])
        except RecordError as error:
            refusal = str(error)
        if saved is not None and (refusal is None or settings.get("allow_drift")):
            yield replace(saved, about={**saved.about, "drift": refusal})
        else:
            listener.emit(Refused(time=listener.now(), step=step, reason=str(refusal)))


def assemble(
    spec: RunSpec,
    *,
    operational: Mapping[str, Any] | None = None,
    allowed: tuple[str, ...] = (),
) -> Training:
    """Build the parts of a run, and set the number of threads that is part of its identity.

    Raises:
        ConfigError: A part cannot be built.
    """
    use_threads(spec.compute["threads"])
    return Training(
        agent=build(spec.agent, "agent", allowed),
        algorithm=build(spec.algorithm, "algorithm", allowed),
        environment=build({**spec.environment, "reference": {}}, "environment", allowed),
        budget=Budget(**spec.budget, **(operational or {})),
        compute=Compute(**spec.compute),
        streams=spec.streams,
    )
