"""Remembers that Ctrl-C was pressed, also where a library turned the interrupt into something else.

Python raises `KeyboardInterrupt` wherever the program happens to be. There, a library may catch it, replace
it by an error of its own, or raise it where Python ignores exceptions (a callback of the garbage collector).
A command looks here before it starts runs, and when an error ends it.
"""

import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType


class InterruptMemory:
    """A handler of SIGINT that raises `KeyboardInterrupt`, as Python's own, and remembers it.

    Attributes:
        has_interrupted: Whether a signal came.
    """

    # No data class: nothing is remembered before this module is imported, and the module of data
    # classes takes most of that time.
    def __init__(self) -> None:
        self.has_interrupted = False

    def __call__(self, number: int, frame: "FrameType | None") -> None:
        """Handle a signal.

        Raises:
            KeyboardInterrupt: Always.
        """
        self.has_interrupted = True
        signal.default_int_handler(number, frame)


def remember_interrupts() -> None:
    """Let this process remember interrupts, unless it ignores them or handles them itself."""
    # Only the main thread may set handlers.
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, InterruptMemory())


def was_interrupted() -> bool:
    """Whether an interrupt came since `remember_interrupts`."""
    handler = signal.getsignal(signal.SIGINT)
    return isinstance(handler, InterruptMemory) and handler.has_interrupted
