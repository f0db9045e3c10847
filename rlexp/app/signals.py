"""What signals ask of a command."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGUSR1: 75}
"""Exit codes; 75 asks a scheduler to queue the job again."""


@dataclass(slots=True)
class Signals:
    """The first signal asks for a graceful end, a second one ends everything at once."""

    code: int | None = None

    def asked_to_stop(self) -> bool:
        """Whether a signal has come."""
        return self.code is not None

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        del frame
        if self.code is not None:
            raise KeyboardInterrupt
        self.code = CODES[signal.Signals(number)]


@contextmanager
def listening() -> Iterator[Signals]:
    """Collect signals as long as the context lasts."""
    signals = Signals()
    # What the shell or nohup told us to ignore stays ignored.
    heard = [number for number in CODES if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, signals.receive) for number in heard}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
