"""Computes a part of a large command in a fork of its process, on another core.

A fork has all records in memory already. It sends its result back and ends; it writes nothing. Where no
fork is possible, or the fork fails, the command computes the part itself: the result is the same.
"""

import os
import pickle
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Generic, TypeVar, cast

T = TypeVar("T")


class PartBeside(Generic[T]):
    """A part of a command that another process may compute.

    The fork may be gone, or may have failed, when its result is asked for.
    """

    def __init__(self, compute: Callable[[], T], *, fork: bool) -> None:
        self._compute = compute
        self._pid, self._reading = self._forked() if fork else (None, None)

    def result(self) -> T:
        """The result of the fork; computed here where there is none.

        Raises:
            Exception: As of the function, which is called here where it fails in the fork.
        """
        content = self._received()
        # Only a complete result can be loaded: its fork may have been killed while it sent it.
        if content:
            with suppress(Exception):
                # It comes from a fork of this process and from nobody else.
                return cast("T", pickle.loads(content))  # noqa: S301
        return self._compute()

    def end(self) -> None:
        """Kill the fork if it still works, and forget it."""
        if self._reading is not None:
            os.close(self._reading)
            self._reading = None
        if self._pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            # Where SIGCHLD is ignored, the system has forgotten the fork already.
            with suppress(ChildProcessError):
                os.waitpid(self._pid, 0)
            self._pid = None

    def _received(self) -> bytes:
        if self._reading is None:
            return b""
        with os.fdopen(self._reading, "rb") as stream:
            self._reading = None
            return stream.read()

    def _forked(self) -> tuple[int | None, int | None]:
        reading, writing = os.pipe()
        command = os.getpid()
        # A Ctrl-C right after the fork would let the fork leave the block below as a second command.
        with _interrupts_held():
            try:
                with warnings.catch_warnings():
                    # Python 3.12 warns of threads of libraries in C, which are idle here.
                    warnings.simplefilter("ignore", DeprecationWarning)
                    self._pid = os.fork()
            except OSError:
                os.close(reading)
                os.close(writing)
                return None, None
            if self._pid == 0:
                # Nowhere may the fork leave this block: what follows belongs to the command. It goes on
                # without SIGINT: a Ctrl-C ends the command, which kills the fork.
                try:
                    os.close(reading)
                    self._send(writing, command)
                finally:
                    os._exit(0)
            os.close(writing)
        return self._pid, reading

    def _send(self, writing: int, command: int) -> None:
        """Compute and send the result; an error sends nothing."""
        from rlexp.executors.lifetime import die_with

        # The command may be killed, and the fork holds locks of the command open.
        die_with(command)
        with suppress(BaseException):
            content = pickle.dumps(self._compute(), protocol=pickle.HIGHEST_PROTOCOL)
            with os.fdopen(writing, "wb") as stream:
                stream.write(content)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold back a Ctrl-C until the block ends.

    A signal mask would not do: it belongs to one thread, and a thread of a library may receive the signal. Python
    would then interrupt the block, and its mask would stay. Only the main thread may set a handler.
    """
    held: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: held.append(number))
    try:
        yield
    finally:
        # None: the handler was not set by Python, which cannot set it again.
        if handler is not None:
            signal.signal(signal.SIGINT, handler)
    if held:
        signal.raise_signal(signal.SIGINT)


def can_fork() -> bool:
    """Whether this process has a second core to use, and no thread that a fork would lack."""
    return (
        hasattr(os, "sched_getaffinity")
        and len(os.sched_getaffinity(0)) > 1
        and threading.active_count() == 1
        and threading.current_thread() is threading.main_thread()
    )


@contextmanager
def beside(compute: Callable[[], T], *, worthwhile: bool = True) -> Iterator[PartBeside[T]]:
    """Begin to compute a part in a fork of this process, while the caller computes the rest.

    Args:
        compute: Computes the part. Its result is pickled. It must write nothing.
        worthwhile: Whether the part takes longer than a fork, some hundredths of a second.
    """
    part = PartBeside(compute, fork=worthwhile and can_fork())
    try:
        yield part
    finally:
        part.end()
