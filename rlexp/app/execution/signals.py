"""Turns signals into a request to stop that a use case checks."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

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
    """Collect signals inside a `with` block.

    Args:
        handled: Whether the signal handlers of this process may be replaced. In a notebook they may
            not: an interrupt raises `KeyboardInterrupt` there.
    """
    signals = Signals()
    # A signal that the shell or nohup made this process ignore stays ignored.
    numbers = [n for n in STOP_SIGNALS if handled and signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, signals.receive) for number in numbers}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
