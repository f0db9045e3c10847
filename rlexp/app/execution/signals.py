"""Turns signals into a request to stop that a use case checks."""

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from rlexp.interrupts import was_interrupted

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
"""Signals that request a graceful end."""


@dataclass(slots=True)
class Signals:
    """The first signal received requests a graceful end; a second one raises KeyboardInterrupt."""

    received: signal.Signals | None = None

    def asked_to_stop(self) -> bool:
        """Whether a signal was received."""
        return self.received is not None

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        del frame
        # The second signal means that the user does not want to wait for a graceful end.
        if self.received is not None:
            raise KeyboardInterrupt
        self.received = signal.Signals(number)


@contextmanager
def collect_signals(*, handled: bool = True) -> Iterator[Signals]:
    """Collect signals inside a `with` block, and restore the former signal handlers after it.

    Args:
        handled: Whether all signals that request an end are collected. In a program or a notebook
            that calls the Python API they are not: only an interrupt is, where it would raise
            `KeyboardInterrupt` at any line.
    """
    # An interrupt that came before may have been caught by a library.
    signals = Signals(signal.SIGINT if was_interrupted() else None)
    # A signal that the shell or nohup made this process ignore stays ignored.
    numbers = [n for n in STOP_SIGNALS if handled and signal.getsignal(n) is not signal.SIG_IGN]
    if not handled and _would_be_interrupted():
        numbers = [signal.SIGINT]
    before = {number: signal.signal(number, signals.receive) for number in numbers}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _would_be_interrupted() -> bool:
    """Whether the caller cannot handle SIGINT itself before this call returns.

    A program may have set a handler that reacts; Python's default handler does not, and the handler
    of an event loop waits until the loop, which this call blocks, goes on.
    """
    # Only the main thread may set handlers, and only the main thread is interrupted.
    if threading.current_thread() is not threading.main_thread():
        return False
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler or _in_event_loop()


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
