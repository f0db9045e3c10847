"""The process of one attempt at a run: it trains, and writes the run's journal and files.

`execute` is the entry. `AttemptGuard` ends the process when another attempt has superseded this
one, and `RunListener` writes what the training reports.
"""

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
from functools import partial
from pathlib import Path
from typing import Any

from rlexp.algorithms.compiled.runtime import import_jax, set_up
from rlexp.algorithms.external import External
from rlexp.app.execution.prior_data import prior_source
from rlexp.app.execution.scripts.external import train_external
from rlexp.app.execution.shortcuts import usable_here
from rlexp.app.execution.software_versions import collect_versions, describe_changes
from rlexp.app.execution.system_sampler import SystemSampler
from rlexp.config.validate import build, build_named
from rlexp.engine.run_in_flight import PROGRESS
from rlexp.environments.composed import ComposedTask
from rlexp.errors import NO_SPACE, HeldError, RecordError, RlexpError
from rlexp.executors import DISK_FULL, IN_USE, RUN_FAILED
from rlexp.protocol.budget import KEEP_BELOW, LEAN, OPERATIONAL, Budget, Compute
from rlexp.protocol.identity import HASHED, PLUG_IN, full_name, plug_in_of
from rlexp.protocol.seeds import Phase
from rlexp.protocol.shared_experience import EXPERIENCE
from rlexp.protocol.spec import CALLBACK, COMPONENTS, Parent, RunSpec
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
from rlexp.store.checkpoints.checkpoint_files import (
    checkpoint_steps,
    clear_replay,
    discard_after,
    publish_checkpoint,
    read_checkpoint,
)
from rlexp.store.checkpoints.checkpoint_folders import clear_stale, remove
from rlexp.store.checkpoints.inheritance import FIRST, drop_copy
from rlexp.store.checkpoints.policies import START_FROM, read_policy
from rlexp.store.checkpoints.prior_data import read_prior_data
from rlexp.store.checkpoints.shared_experience import find_experience, read_experience
from rlexp.store.files import publish_with, read_json, sync
from rlexp.store.journal import JournalWriter
from rlexp.store.layout import AttemptPaths, ExperimentPaths, RunPaths, cache_folder
from rlexp.store.locks.fencing import superseded
from rlexp.store.locks.lease import Lease, hold, holder
from rlexp.store.runs import STOP_REASON, StoredAttempt, read_attempts, read_spec, read_stop
from rlexp.store.system_metrics import append_measurement
from rlexp.training.acting.callbacks import fits_shortcuts
from rlexp.training.parts import Training, use_threads
from rlexp.training.training_run import train

CLOSE_LIMIT = 10.0
"""Seconds that environments may take to close once everything is recorded."""
STOP_CHECK_EVERY = 0.2
"""Seconds between two checks for a request to stop."""
GUARD_CHECK_EVERY = 2.0
"""Minimum seconds between two checks whether another attempt has superseded this one."""


class AttemptGuard:
    """Ends the process of an attempt that another attempt has superseded, or that lost its lease.

    From then on only the newer attempt may write to the run's folder.
    """

    def __init__(self, paths: RunPaths, attempt: AttemptPaths) -> None:
        self._paths = paths
        self._attempt = attempt
        self._exit_lock = threading.Lock()
        self.lease: Lease | None = None

    def check(self, written: Path | None = None) -> None:
        """End the process with code 0 if the attempt was superseded or lost its lease.

        Args:
            written: A temporary file about to be published, which is removed in that case.
        """
        lost = self.lease is not None and self.lease.lost
        if (reason := superseded(self._attempt)) is not None or lost:
            if written is not None:
                with suppress(OSError):
                    remove(written)
            self._leave(reason)

    def leave(self) -> None:
        """End the process because its lease is lost."""
        self._leave(superseded(self._attempt))

    def _leave(self, reason: str | None) -> None:
        # Never released: the training thread and the lease's thread may both get here, and the
        # second must wait here until the first has ended the process.
        self._exit_lock.acquire()
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
    """Writes events, files and checkpoints of a training into the run's folder.

    Each write is preceded by a check that the attempt is still the run's last one.
    """

    def __init__(
        self,
        paths: RunPaths,
        attempt: AttemptPaths,
        journal: JournalWriter,
        guard: AttemptGuard | None = None,
    ) -> None:
        self._paths = paths
        self._attempt = attempt
        self._guard = guard or AttemptGuard(paths, attempt)
        self._journal = journal
        self.origin: Mapping[str, Any] = {}
        self.keeps_replay = False
        """Whether the replay buffer stays on disk when the run ends."""
        self.failure: Failure | None = None
        """Why the run has failed, after its end."""
        self._from_scratch = False
        self._started = time.monotonic()
        self._next_stop_check = self._next_guard_check = 0.0
        self._request: StopRequest | None = None
        self._beats = self._step = 0
        self._sampler: SystemSampler | None = None
        # Some environments never return from close(). By then the end is recorded, so that the
        # process may simply end.
        self.last_resort = threading.Timer(CLOSE_LIMIT, os._exit, (0,))
        self.last_resort.daemon = True
        with attempt.progress.open("w+b") as file:
            file.write(PROGRESS.pack(0, 0))
            file.flush()
            # A memory-mapped file, so that a heartbeat costs no system call.
            self._progress = mmap.mmap(file.fileno(), PROGRESS.size)

    def emit(self, event: Event) -> None:
        """Append an event to the journal; after the last one, limit the time that closing takes."""
        if isinstance(event, Measured):
            self._check_guard_now_and_then()
        else:
            self._guard.check()
        if isinstance(event, RunEnded) and self._sampler is not None:
            # The last measurement comes before the end: a reader expects nothing after the end.
            self._sampler.stop()
        self._journal.append(event)
        if isinstance(event, RunEnded):
            self.failure = event.failure
            if event.ending in {Ending.COMPLETED, Ending.PRUNED}:
                # An interrupted or failed run may continue, so it keeps its checkpoints.
                self._clear()
            self.last_resort.start()

    def _clear(self) -> None:
        """Remove checkpoints that only an unfinished run needs; files that remain do no harm."""
        with suppress(OSError, RlexpError):
            drop_copy(self._paths)
            if self._from_scratch:
                discard_after(self._paths, None)
            if not self.keeps_replay:
                clear_replay(self._paths)

    def publish(self, name: str, write: Callable[[Path], object]) -> None:
        """Publish a file of the run."""
        self._guard.check()

        def write_and_check(temporary: Path) -> None:
            write(temporary)
            # The file is synced before the check, not after it: the slow part is then over, and as
            # little time as possible remains between the check and the renaming.
            sync(temporary)
            self._guard.check(temporary)

        publish_with(self._paths.folder / name, write_and_check)

    def checkpoint(self, checkpoint: Checkpoint) -> int:
        """Publish a checkpoint; the last two are kept."""
        self._guard.check()
        size = publish_checkpoint(
            self._paths, checkpoint, self.origin, last_look=self._guard.check
        )
        self._from_scratch = False
        return size

    def goes_on_from(self, step: int | None) -> None:
        """Remove checkpoints after the step from which the attempt continues.

        With `step=None` the attempt starts from scratch. Refused checkpoints then stay until a new
        one replaces them, because the reason for the refusal may pass.
        """
        self._from_scratch = step is None
        if step is not None:
            self._guard.check()
            discard_after(self._paths, step)

    def beat(self, step: int) -> None:
        """Overwrite the progress counters."""
        # Without the counter of beats, a long evaluation at one step would look like a hang.
        self._beats += 1
        self._step = step
        PROGRESS.pack_into(self._progress, 0, step, self._beats)

    def measure_system(self, every: float | None) -> None:
        """Measure the processes of the run every so many seconds until its end; not with None."""
        if every is None:
            return
        attempt = self._attempt
        # A run must not end because it cannot be measured, for instance without a free thread.
        with suppress(Exception):
            self._sampler = SystemSampler(
                every, lambda: self._step, partial(append_measurement, attempt)
            )

    def stopping(self) -> StopRequest | None:
        """The request to stop that a signal or a file in the run's folder made, or None."""
        now = time.monotonic()
        if now >= self._next_stop_check:
            self._next_stop_check = now + STOP_CHECK_EVERY
            self._check_guard_now_and_then()
            if self._paths.stop.exists():
                self._request = read_stop(self._paths)
        return self._request

    def _check_guard_now_and_then(self) -> None:
        """Check the guard at most every `GUARD_CHECK_EVERY` seconds.

        A check reads the folder: before every measurement it would cost more than the measurement.
        """
        now = time.monotonic()
        if now >= self._next_guard_check:
            self._next_guard_check = now + GUARD_CHECK_EVERY
            self._guard.check()

    def interrupt(self, *_: object) -> None:
        """Handle a signal: request that the training stops at its next step."""
        self._request = StopRequest(Ending.INTERRUPTED, STOP_REASON)

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def elapsed(self) -> float:
        """Seconds since the attempt began."""
        return time.monotonic() - self._started


PATIENCE = 10.0
"""Seconds to wait for the lease of an earlier process of the run, which may still be ending."""
RESTORE_FAILURES = (Failure.CRASHED, Failure.HUNG, Failure.OUT_OF_MEMORY)
"""Failures that restoring a checkpoint may cause, and would cause again at every attempt."""


def execute(arguments: list[str]) -> int:
    """Execute an attempt.

    Args:
        arguments: The run's folder and the attempt's number.

    Returns:
        0 or `RUN_FAILED` when the journal records the end of the attempt; `DISK_FULL` when the disk
        is full; `IN_USE` when another process executes the run.
    """
    try:
        return _execute(RunPaths(Path(arguments[0])), int(arguments[1]))
    except HeldError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return IN_USE
    except OSError as error:
        # Another error is a crash of this run; a full disk stops all runs.
        if error.errno not in NO_SPACE:
            raise
        print(error, file=sys.stderr)  # noqa: T201
        # The journal cannot record this failure, so the exit code reports it.
        return DISK_FULL


def import_compiler() -> None:
    """Import JAX in the server, so that the processes of compiled runs need not."""
    import_jax(cache_folder())


def _execute(paths: RunPaths, number: int) -> int:
    attempt = paths.attempt(number)
    guard = AttemptGuard(paths, attempt)
    with (
        _holding(paths, guard),
        closing(JournalWriter(attempt.journal)) as journal,
    ):
        with suppress(OSError, RecordError):
            # A killed attempt may have left half-written files.
            clear_stale(paths.folder, {MODEL, NORMALISATION})
        listener = RunListener(paths, attempt, journal, guard)
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
        # The environments have closed within their limit.
        listener.last_resort.cancel()
    # A loss that became NaN says nothing about the process. After another failure, the next run gets
    # a fresh one.
    return 0 if listener.failure in {None, Failure.NAN} else RUN_FAILED


@contextmanager
def _holding(paths: RunPaths, guard: AttemptGuard) -> Iterator[None]:
    """Hold the run's lease; ends the process if the attempt was superseded meanwhile."""
    what = f"run {paths.folder.name}"
    # The command that started this attempt holds the run's claim, so no other attempt is meant to
    # run: its lease may be taken over.
    held = hold(
        paths.lease, what, now=time.time(), patience=PATIENCE, on_loss=guard.leave, over=True
    )
    # The check comes after the lease: an attempt that was superseded while it waited must not
    # write.
    with held as guard.lease:
        guard.check()
        yield


def _train(paths: RunPaths, attempt: AttemptPaths, listener: RunListener) -> None:
    try:
        settings = read_json(attempt.settings)
        spec = read_spec(paths)
        origin = {"run": spec.id, "attempt": attempt.number, "versions": collect_versions(spec)}
        training = assemble(
            spec,
            operational=_operational(spec, settings),
            allowed=tuple(settings["allowed"]),
            lean=settings.get(LEAN) is not False,
        )
        check_plug_ins(spec, training)
        if training.dataset is not None:
            training.dataset.check_content()
        digest = spec.algorithm.get(START_FROM)
        # An extended run has begun already, before its parent's last rollout.
        if digest is not None and spec.parent is None:
            policy = read_policy(ExperimentPaths(paths.folder.parent), digest)
            training = replace(training, policy=policy)
        if spec.algorithm.get(EXPERIENCE) is not None:
            experiment = ExperimentPaths(paths.folder.parent)
            training = replace(training, read_experience=partial(read_experience, experiment))
            # Before the training, which may take hours to the step at which it reads them.
            for received in filter(None, spec.algorithm[EXPERIENCE]["values"]):
                find_experience(experiment, received)
        if (source := prior_source(spec.replay)) is not None:
            transitions = read_prior_data(ExperimentPaths(paths.folder.parent), source)
            training = replace(training, prior=transitions)
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
        listener.measure_system(training.budget.system_metrics_seconds)
        if isinstance(training.algorithm, External):
            train_external(spec, training.algorithm, training, attempt, listener)
            return
        listener.origin = origin
        listener.keeps_replay = training.budget.keep_last is True
        checkpoints = _checkpoints(paths, spec, origin, settings, listener)
        train(training, listener, attempt.folder, checkpoints)


def _operational(spec: RunSpec, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the budget that change no number."""
    operational = {key: settings.get(key) for key in OPERATIONAL}
    below = settings.get(KEEP_BELOW)
    # A trial with more steps may continue this run: it then needs the replay buffer, too.
    if below is not None and spec.phase is Phase.TUNING and spec.budget["steps"] < below:
        operational["keep_last"] = operational["keep_last"] is not False
    return operational


def _checkpoints(
    paths: RunPaths,
    spec: RunSpec,
    origin: Mapping[str, Any],
    settings: Mapping[str, Any],
    listener: RunListener,
) -> Iterator[SavedCheckpoint]:
    """Yield usable checkpoints of earlier attempts, newest first; report each refused one.

    The last one of an extended run is the copy of its parent.
    """
    restore_failure = _restore_failure(read_attempts(paths)[:-1])
    readers = [
        (step, restore_failure, partial(read_checkpoint, paths, step, run_id=spec.id))
        for step in checkpoint_steps(paths)
    ]
    if spec.parent is not None:
        # Without this copy the run cannot begin: it is tried at every attempt.
        readers.append((spec.parent.step, None, partial(_parent_copy, paths, spec.parent)))
    for step, failure, read in readers:
        saved, refusal = None, failure
        try:
            if failure is None:
                saved = read()
                refusal = describe_changes(saved.about.get("versions"), origin["versions"])
        except RecordError as error:
            refusal = str(error)
        if saved is not None and (refusal is None or settings.get("allow_drift")):
            yield replace(saved, about={**saved.about, "drift": refusal})
        else:
            listener.emit(Refused(time=listener.now(), step=step, reason=str(refusal)))


def _parent_copy(paths: RunPaths, parent: Parent) -> SavedCheckpoint:
    """The copy of the parent's training, as a checkpoint of the attempt with its events.

    Raises:
        RecordError: The copy is missing, damaged, or of another state than defined.
    """
    saved = read_checkpoint(paths.parent, parent.step, run_id=parent.run)
    if saved.about.get("digest") != parent.digest:
        raise RecordError(f"{paths.parent.folder} holds another state than the run continues from")
    return replace(saved, about={**saved.about, "attempt": FIRST})


def _restore_failure(earlier: Sequence[StoredAttempt]) -> str | None:
    """Why the last attempt died while it restored a checkpoint, or None if it did not.

    Such an attempt has a start and an end in its journal, and no event between them.
    """
    events = earlier[-1].events if earlier else []
    match events:
        case [RunStarted(), RunEnded(failure=failure, reason=reason)] if (
            failure in RESTORE_FAILURES
        ):
            return f"the previous attempt died while it restored this checkpoint ({failure}: {reason})"
        case _:
            return None


def assemble(
    spec: RunSpec,
    *,
    operational: Mapping[str, Any] | None = None,
    allowed: tuple[str, ...] = (),
    lean: bool = True,
) -> Training:
    """Build the plug-ins of a run, and set the number of threads that is part of its identity.

    With `lean`, the training uses the shortcuts that this machine may use.

    Raises:
        ConfigError: A plug-in cannot be built.
    """
    use_threads(spec.compute["threads"])
    callbacks = build_named(spec.callback or {}, CALLBACK, allowed)
    lean = lean and all(map(fits_shortcuts, callbacks.values()))
    if spec.compiled:
        set_up(cache_folder())
    return Training(
        agent=build(spec.agent, "agent", allowed),
        algorithm=build(spec.algorithm, "algorithm", allowed),
        # Reference scores are not part of a run's specification.
        environment=build({**spec.environment, "reference": {}}, "environment", allowed),
        budget=Budget(**spec.budget, **(operational or {})),
        compute=Compute(**spec.compute, lean=lean),
        streams=spec.streams,
        parent=spec.parent,
        callbacks=callbacks,
        replay=None if spec.replay is None else build(spec.replay, "replay", allowed),
        dataset=None if spec.dataset is None else build(spec.dataset, "dataset", allowed),
        shortcuts=usable_here() if lean else frozenset(),
    )


def check_plug_ins(spec: RunSpec, training: Training) -> None:
    """Check that the plug-ins still declare the identity with which the run was recorded.

    Raises:
        RecordError: A plug-in declares another identity; names both, and what to do.
    """
    for group, recorded_settings, part in _built(spec, training):
        recorded, current = recorded_settings.get(PLUG_IN, {}), plug_in_of(type(part), group)
        if any(recorded.get(key) != current.get(key) for key in HASHED):
            raise RecordError(
                f"run {spec.name} was recorded with {group} {full_name(recorded)}, but its class "
                f"is now {full_name(current)}: start it again under another experiment=…"
            )


def _built(spec: RunSpec, training: Training) -> Iterator[tuple[str, Any, Any]]:
    """Yield every plug-in: its group, its settings in the specification, and the instance."""
    yield "agent", spec.agent, training.agent
    yield "algorithm", spec.algorithm, training.algorithm
    for name, callback in training.callbacks.items():
        yield CALLBACK, (spec.callback or {})[name], callback
    if spec.replay is not None:
        yield "replay", spec.replay, training.replay
    if spec.dataset is not None:
        yield "dataset", spec.dataset, training.dataset
    environment = training.environment
    if isinstance(environment, ComposedTask):
        for name, component in environment.components.items():
            yield "component", spec.environment[COMPONENTS][name], component
        environment = environment.environment
    yield "environment", spec.environment, environment
