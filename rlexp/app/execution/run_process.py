"""Executes one job: an attempt at a run, in a process of its own."""

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlexp.algorithms.external import External
from rlexp.app.execution.external import train_external
from rlexp.app.execution.reproducibility import difference, versions
from rlexp.app.execution.same_plug_ins import check_plug_ins
from rlexp.app.listener import Post, RunListener
from rlexp.config.validate import build
from rlexp.errors import NO_SPACE, RecordError, RlexpError
from rlexp.executors import DISK_FULL
from rlexp.protocol.budget import OPERATIONAL, Budget, Compute
from rlexp.protocol.spec import RunSpec
from rlexp.records.checkpoint import MODEL, NORMALISATION, SavedCheckpoint
from rlexp.records.events import (
    Ending,
    Failure,
    Refused,
    RunEnded,
    RunStarted,
)
from rlexp.store.bundles import clear_stale
from rlexp.store.checkpoints import (
    checkpoint_steps,
    read_checkpoint,
)
from rlexp.store.files import read_json
from rlexp.store.journal import JournalWriter
from rlexp.store.layout import AttemptPaths, RunPaths
from rlexp.store.lease import hold
from rlexp.store.runs import StoredAttempt, read_attempts, read_spec
from rlexp.training.parts import Training, use_threads
from rlexp.training.train import train

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
