"""Executes one job: an attempt at a run, in a process of its own."""

import mmap
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlexp.algorithms.external import External
from rlexp.app.execution.external import train_external
from rlexp.app.execution.reproducibility import difference, versions
from rlexp.config.validate import build
from rlexp.engine.running import PROGRESS
from rlexp.environments.composed import ComposedTask
from rlexp.errors import NO_SPACE, RecordError, RlexpError
from rlexp.executors import DISK_FULL
from rlexp.protocol.budget import OPERATIONAL, Budget, Compute
from rlexp.protocol.identity import HASHED, PLUG_IN, full_name, plug_in_of
from rlexp.protocol.spec import COMPONENTS, RunSpec
from rlexp.records.checkpoint import MODEL, NORMALISATION, Checkpoint, SavedCheckpoint
from rlexp.records.events import (
    Ending,
    Event,
    Failure,
    Measured,
    Refused,
    RunEnded,
    RunStarted,
    StopRequest,
)
from rlexp.store.bundles import clear_stale, remove
from rlexp.store.checkpoints import (
    checkpoint_steps,
    clear_replay,
    discard_after,
    publish_checkpoint,
    read_checkpoint,
)
from rlexp.store.fences import superseded
from rlexp.store.files import publish_with, read_json, sync
from rlexp.store.journal import JournalWriter
from rlexp.store.layout import AttemptPaths, RunPaths
from rlexp.store.lease import Held, hold, holder
from rlexp.store.runs import ASKED_TO_END, StoredAttempt, read_attempts, read_spec, read_stop
from rlexp.training.parts import Training, use_threads
from rlexp.training.training_run import train

if TYPE_CHECKING:
    from rlexp.training.parts import Training


def check_plug_ins(spec: RunSpec, training: "Training") -> None:
    """Refuse to train a run with classes that declare to be something else by now.

    Raises:
        RecordError: One does; says which, and what to do.
    """
    for group, plain, part in _built(spec, training):
        recorded, now = plain.get(PLUG_IN, {}), plug_in_of(type(part), group)
        if any(recorded.get(key) != now.get(key) for key in HASHED):
            raise RecordError(
                f"run {spec.name} was asked for with {group} {full_name(recorded)}, and its class "
                f"is {full_name(now)} by now: ask for it again under another experiment=…"
            )


def _built(spec: RunSpec, training: "Training") -> Iterator[tuple[str, Any, Any]]:
    """Every plug-in: its group, its mapping in the specification, and what was built of it."""
    yield "agent", spec.agent, training.agent
    yield "algorithm", spec.algorithm, training.algorithm
    environment = training.environment
    if isinstance(environment, ComposedTask):
        for name, component in environment.components.items():
            yield "component", spec.environment[COMPONENTS][name], component
        environment = environment.environment
    yield "environment", spec.environment, environment


CLOSE_LIMIT = 10.0
"""Seconds that environments may take to close once everything is recorded."""
LOOK_EVERY = 0.2
"""Seconds between looks for a request to stop."""
LOOK_LATE_EVERY = 2.0
"""Seconds between looks, at most, whether another attempt has taken the place of this one."""


class Post:
    """Whether an attempt still is its run's last: where it is not, its process ends.

    What it would write then is the next attempt's to write.
    """

    def __init__(self, paths: RunPaths, attempt: AttemptPaths) -> None:
        self._paths = paths
        self._attempt = attempt
        self._last_word = threading.Lock()
        self.lease: Held | None = None

    def check(self, written: Path | None = None) -> None:
        """End the process, with code 0, where the attempt was superseded or lost its lease.

        Args:
            written: What was to be published; removed then.
        """
        lost = self.lease is not None and self.lease.lost
        if (reason := superseded(self._attempt)) is not None or lost:
            if written is not None:
                with suppress(OSError):
                    remove(written)
            self._leave(reason)

    def leave(self) -> None:
        """End the process, whose lease is lost."""
        self._leave(superseded(self._attempt))

    def _leave(self, reason: str | None) -> None:
        # Never given back: the other of two threads waits for the end.
        self._last_word.acquire()
        with suppress(OSError, ValueError):
            print(  # noqa: T201
                f"{reason or self._loss()}: nothing more is recorded", flush=True
            )
            sys.stderr.flush()
        if self.lease is not None:
            self.lease.release()
        os._exit(0)

    def _loss(self) -> str:
        return f"attempt {self._attempt.number} lost its lease to {holder(self._paths.lease)}"


class RunListener:
    """Writes what a training tells into the run's folder, while its attempt is the run's last."""

    def __init__(
        self,
        paths: RunPaths,
        attempt: AttemptPaths,
        journal: JournalWriter,
        post: Post | None = None,
    ) -> None:
        self._paths = paths
        self._post = post or Post(paths, attempt)
        self._journal = journal
        self.origin: Mapping[str, Any] = {}
        self._anew = False
        self._started = time.monotonic()
        self._look_at = self._look_late_at = 0.0
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
        if isinstance(event, Measured):
            self._look_late()
        else:
            self._post.check()
        self._journal.append(event)
        if isinstance(event, RunEnded):
            if event.ending in {Ending.COMPLETED, Ending.PRUNED}:
                self._clear()
            self.last_resort.start()

    def _clear(self) -> None:
        """Remove what only a run needs that goes on; what stays of it harms nobody."""
        with suppress(OSError, RlexpError):
            if self._anew:
                discard_after(self._paths, None)
            clear_replay(self._paths)

    def publish(self, name: str, write: Callable[[Path], object]) -> None:
        """Publish a file of the run."""
        self._post.check()

        def write_and_look(temporary: Path) -> None:
            write(temporary)
            # Here, so that as little time as can be lies between the look and the new name.
            sync(temporary)
            self._post.check(temporary)

        publish_with(self._paths.folder / name, write_and_look)

    def checkpoint(self, checkpoint: Checkpoint) -> int:
        """Publish a checkpoint; the last two are kept."""
        self._post.check()
        size = publish_checkpoint(self._paths, checkpoint, self.origin, last_look=self._post.check)
        self._anew = False
        return size

    def goes_on_from(self, step: int | None) -> None:
        """Remove what the attempt will make again.

        What was refused stays until there is a checkpoint in its place: the reason may pass.
        """
        self._anew = step is None
        if step is not None:
            self._post.check()
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
            self._look_late()
            if self._paths.stop.exists():
                self._request = read_stop(self._paths)
        return self._request

    def _look_late(self) -> None:
        """Look now and then: where much is told, each look would cost more than the telling."""
        now = time.monotonic()
        if now >= self._look_late_at:
            self._look_late_at = now + LOOK_LATE_EVERY
            self._post.check()

    def interrupt(self, *_: object) -> None:
        """Handle a signal: end at the next step."""
        self._request = StopRequest(Ending.INTERRUPTED, ASKED_TO_END)

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def elapsed(self) -> float:
        """Seconds since the attempt began."""
        return time.monotonic() - self._started


PATIENCE = 10.0
"""Seconds to wait for an earlier process of the run, which may still be dying."""
PUTTING_BACK = (Failure.CRASHED, Failure.HUNG, Failure.OUT_OF_MEMORY)
"""Deaths that putting a checkpoint back may bring about, again and again."""


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
    post = Post(paths, attempt)
    with (
        _holding(paths, post),
        closing(JournalWriter(attempt.journal)) as journal,
    ):
        with suppress(OSError, RecordError):
            clear_stale(paths.folder, {MODEL, NORMALISATION})
        listener = RunListener(paths, attempt, journal, post)
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


@contextmanager
def _holding(paths: RunPaths, post: Post) -> Iterator[None]:
    """Hold the run's lease, where the attempt still is its last by then."""
    what = f"run {paths.folder.name}"
    # Whoever started this attempt has claimed the run: no other holder is meant to live.
    held = hold(
        paths.lease, what, now=time.time(), patience=PATIENCE, on_loss=post.leave, over=True
    )
    with held as post.lease:
        post.check()
        yield


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
        check_plug_ins(spec, training)
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
        if isinstance(training.algorithm, External):
            train_external(spec, training.algorithm, training, attempt, listener)
            return
        listener.origin = origin
        checkpoints = _checkpoints(paths, origin, settings, listener)
        train(training, listener, attempt.folder, checkpoints)


def _checkpoints(
    paths: RunPaths, origin: Mapping[str, Any], settings: Mapping[str, Any], listener: RunListener
) -> Iterator[SavedCheckpoint]:
    """What earlier attempts left, newest first; what cannot be used is told."""
    death = _death_before_a_word(read_attempts(paths)[:-1])
    for step in checkpoint_steps(paths):
        saved, refusal = None, death
        try:
            if death is None:
                saved = read_checkpoint(paths, step, run_id=origin["run"])
                refusal = difference(saved.about.get("versions"), origin["versions"])
        except RecordError as error:
            refusal = str(error)
        if saved is not None and (refusal is None or settings.get("allow_drift")):
            yield replace(saved, about={**saved.about, "drift": refusal})
        else:
            listener.emit(Refused(time=listener.now(), step=step, reason=str(refusal)))


def _death_before_a_word(earlier: Sequence[StoredAttempt]) -> str | None:
    """How the last attempt was ended by the machine, if it had neither gone on nor begun anew."""
    events = earlier[-1].events if earlier else []
    match events:
        case [RunStarted(), RunEnded(failure=failure, reason=reason)] if failure in PUTTING_BACK:
            return f"the attempt before died while it was put back ({failure}: {reason})"
        case _:
            return None


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
