"""A thread that keeps the Optuna study of a sweep up to date, so that the search never waits."""

from collections.abc import Mapping, Sequence
from threading import Condition, Thread
from time import monotonic
from typing import Any

from rlexp.errors import RlexpError
from rlexp.exchange.optuna_study import JournalFile, OptunaStudyMirror
from rlexp.exchange.optuna_trials import MirroredSweep, MirroredTrial

SHARE = 0.1
"""The largest share of its time that the thread works while the search is running."""
PAUSE = (0.2, 30.0)
"""Shortest and longest pause between two attempts, in seconds."""


class BackgroundMirror:
    """A study mirror that is owned by a thread. Methods return at once unless they document a wait.

    Only the newest snapshot is written: snapshots that arrive while the database is slow or away
    are skipped. The next command writes what is missing at the end.
    """

    def __init__(self, mirror: OptunaStudyMirror) -> None:
        """Start the thread, which opens the study.

        Args:
            mirror: The mirror, used only by the thread from now on.
        """
        self._mirror = mirror
        self._changed = Condition()
        self._newest: MirroredSweep | None = None
        self._offered = self._mirrored = self._attempts = 0
        self._problem: str | None = None
        self._closing = self._given_up = False
        self._thread = Thread(target=self._work, name="optuna mirror", daemon=True)
        self._thread.start()

    @property
    def problem(self) -> str | None:
        """Why the last attempt failed, in one line without passwords; None if it succeeded."""
        with self._changed:
            return self._problem

    def offer(
        self,
        trials: Sequence[MirroredTrial],
        attributes: Mapping[str, Any] | None = None,
        notes: Mapping[int | None, str] | None = None,
    ) -> None:
        """Queue a snapshot of a sweep; it replaces an older snapshot that is still waiting."""
        with self._changed:
            self._newest = MirroredSweep(tuple(trials), attributes or {}, notes or {})
            self._offered += 1
            self._changed.notify_all()

    def check(self, patience: float = 3.0) -> str | None:
        """Wait a few seconds for the end of the first attempt; returns the problem, if any.

        A server that does not answer in this time is a problem. A slow attempt to write a file is none.
        """
        with self._changed:
            if self._changed.wait_for(lambda: self._attempts > 0, patience):
                return self._problem
            # A file of this machine does not answer: it is late because the machine is busy.
            is_file = isinstance(self._mirror.place, JournalFile)
            return None if is_file else self._describe("it has not answered yet")

    def close(self, patience: float = 5.0) -> str | None:
        """Write the newest snapshot, or give up after a few seconds; returns any problem."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            done = self._changed.wait_for(lambda: not self._is_behind(), patience)
            self._given_up = True
            self._changed.notify_all()
            problem = None if done else self._problem or self._describe("it is too slow")
        # A thread that hangs in a database driver is left behind: it is a daemon and ends with the
        # process.
        self._thread.join(max(patience, 1.0) if done else 0.0)
        return problem

    def _is_behind(self) -> bool:
        return self._mirrored < self._offered

    def _work(self) -> None:
        pause = 0.0
        while self._wait(pause):
            began = monotonic()
            if self._attempt():
                took = monotonic() - began
                # After work of t seconds a pause of 9 t makes the work a tenth of the time.
                pause = min(max(took / SHARE - took, PAUSE[0]), PAUSE[1])
            else:
                pause = min(max(2 * pause, PAUSE[0]), PAUSE[1])
        self._mirror.close()

    def _wait(self, pause: float) -> bool:
        """Wait for the pause and then for work; returns whether there is work to do."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing, pause)
            # Between failing attempts at the end, pause briefly instead of busy-looping until
            # `close` gives up.
            if self._closing and self._problem:
                self._changed.wait_for(lambda: self._given_up, PAUSE[0])
            self._changed.wait_for(lambda: self._closing or self._is_due())
            return not self._given_up and (self._is_behind() or not self._closing)

    def _is_due(self) -> bool:
        return self._is_behind() or self._attempts == 0 or self._problem is not None

    def _attempt(self) -> bool:
        """Write the newest snapshot, or open the study; returns whether it worked."""
        with self._changed:
            newest, number = self._newest, self._offered
        problem = None
        try:
            # Outside of the lock: `offer` must not wait for a slow database.
            if newest is None:
                self._mirror.open()
            else:
                self._mirror.sync(newest.trials, newest.attributes, newest.notes)
        except Exception as error:  # noqa: BLE001 drivers raise any type
            problem = (
                str(error) if isinstance(error, RlexpError) else self._describe(_reason(error))
            )
        with self._changed:
            self._problem = problem
            self._attempts += 1
            if problem is None:
                self._mirrored = number
            self._changed.notify_all()
        return problem is None

    def _describe(self, reason: str) -> str:
        for secret in self._mirror.place.secrets:
            reason = reason.replace(secret, "***")
        return (
            f"the study in {self._mirror.place.shown} is not up to date: {reason}; the search "
            "continues, and the study is updated when this is possible again"
        )


def _reason(error: BaseException) -> str:
    """The original cause of an error, in one line."""
    # SQLAlchemy keeps the driver's error in `orig`.
    while (cause := getattr(error, "orig", None) or error.__cause__) is not None:
        error = cause
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".:;") if lines else type(error).__name__
