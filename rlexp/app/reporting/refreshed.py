"""Values that are computed again in the background, one at a time and with a share of one core."""

import os
import sys
import time
from collections.abc import Callable
from queue import SimpleQueue
from threading import Condition, Thread
from typing import Generic, TypeVar

T = TypeVar("T")

NICENESS = 10
"""Priority of the computations. A training on the same core then takes nine tenths of it."""


class BackgroundWorker:
    """A thread that executes one computation at a time, and rests in proportion to its work.

    Attributes:
        share: The share of one core that repeated computations may take.
        rests_until: The time before which no computation is repeated.
    """

    def __init__(self, share: float) -> None:
        self.share = share
        self.rests_until = 0.0
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._thread: Thread | None = None

    def submit(self, job: Callable[[], None]) -> None:
        """Execute a job after those that were submitted before; the job must not raise."""
        # A bug in a job ends the thread, with its traceback; the next job begins another one.
        if self._thread is None or not self._thread.is_alive():
            # A daemon: the process may end in the middle of a computation, which writes nothing.
            self._thread = Thread(target=self._work, daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def _work(self) -> None:
        _lower_priority()
        while True:
            self._jobs.get()()


def _lower_priority() -> None:
    """Let trainings go first; the threads that this thread starts have its priority.

    Only Linux has a priority for each thread. The lowest priority of all would be too low: beside
    a training on every core, a page would take minutes.
    """
    if sys.platform == "linux":
        present = os.getpriority(os.PRIO_PROCESS, 0)
        os.setpriority(os.PRIO_PROCESS, 0, max(present, NICENESS))


class Refreshed(Generic[T]):
    """A value that is computed when it is asked for, and again when it has become old.

    Whoever asks gets the present value at once, while a newer one is computed in the background.

    Args:
        worker: Executes the computation.
        compute: Returns the value; it must not raise.
        least: The least age in seconds at which the value is computed again.
    """

    def __init__(self, worker: BackgroundWorker, compute: Callable[[], T], least: float) -> None:
        self._worker = worker
        self._compute = compute
        self._least = least
        self._changed = Condition()
        self._submitted = False
        self._value: T | None = None
        self.due = 0.0
        """The time from which the value counts as old, on the clock of `time.monotonic`."""

    @property
    def value(self) -> T | None:
        """The present value; None before the first one."""
        return self._value

    def latest(self, patience: float | None = 0.0) -> T | None:
        """The present value; a newer one is requested if this one is old.

        Args:
            patience: Seconds to wait for a value that is being computed; None waits for its end.
        """
        with self._changed:
            if self._is_due():
                self._submitted = True
                self._worker.submit(self._refresh)
            self._changed.wait_for(lambda: not self._submitted, patience)
            return self._value

    def _is_due(self) -> bool:
        if self._submitted:
            return False
        # The first value is computed at once, however much the worker has done before.
        rested = self._value is None or time.monotonic() >= self._worker.rests_until
        return rested and time.monotonic() >= self.due

    def _refresh(self) -> None:
        begun, used = time.monotonic(), time.process_time()
        try:
            self._value = self._compute()
        finally:
            ended = time.monotonic()
            # Processor time: where other programs keep this one waiting, it takes nothing from them.
            rest = (time.process_time() - used) / self._worker.share
            self._worker.rests_until = max(self._worker.rests_until, begun) + rest
            with self._changed:
                self._submitted, self.due = False, ended + self._least
                self._changed.notify_all()
