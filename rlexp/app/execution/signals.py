"""What signals ask of a use case."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
"""Signals that ask for a graceful end."""


@dataclass(slots=True)
class Signals:
    """The first signal asks for a graceful end, a second one ends everything at once."""

    received: signal.Signals | None = None

    def asked_to_stop(self) -> bool:
        """Whether a signal has come."""
        return self.received is not None

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        del frame
        if self.received is not None:
            raise KeyboardInterrupt
        self.received = signal.Signals(number)


@contextmanager
def listening(*, handled: bool = True) -> Iterator[Signals]:
    """Collect signals as long as the context lasts.

    Args:
        handled: Whether the handlers of this process may be replaced. In a notebook they may not:
            there, an interrupt is a `KeyboardInterrupt`.
    """
    signals = Signals()
    # What the shell or nohup told us to ignore stays ignored.
    heard = [n for n in HEARD if handled and signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, signals.receive) for number in heard}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
