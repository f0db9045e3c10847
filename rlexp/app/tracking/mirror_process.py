"""The mirror: a process of its own that pushes an experiment's records to its trackers.

It is started by a command, told what to do by JSON lines on its standard input, and answers by
JSON lines on its standard output. When its input ends, so does it, whatever its services do.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlexp.app.pushing import Pushing, pause_after, pending, place_of
from rlexp.app.reading.leading import Leading, leading_aggregate
from rlexp.app.reading.survey import DAMAGE
from rlexp.config.validate import build
from rlexp.errors import HeldError, RlexpError, TrackerUnreachable
from rlexp.store.cursors import Cursors
from rlexp.store.layout import ExperimentPaths
from rlexp.store.lease import is_held
from rlexp.store.secrets import mask_known, secret_values
from rlexp.trackers import Tracker
from rlexp.trackers.idle import step_back

PAUSE = 2.0
"""Seconds between two looks at the journals."""
LOCKED = 8.0
"""Seconds that it waits for another process that pushes, before it says so."""
ORPHAN_SECONDS = 5.0
"""How long it goes on when the command is gone without a word."""


@dataclass(slots=True)
class Mirror:
    """One tracker in a thread of its own, so that none waits for another."""

    name: str
    tracker: Tracker
    paths: ExperimentPaths
    leading: Leading | RlexpError
    say: "Answers"
    once: bool
    finishing: threading.Event
    over: threading.Event = field(default_factory=threading.Event)
    problem: str | None = None
    _failures: int = 0

    def start(self) -> None:
        """Begin to push."""
        if self._place:
            threading.Thread(target=self._work, name=self.name, daemon=True).start()
        else:
            self.say(self.name, "open", place="")
            self.over.set()

    def tell(self) -> None:
        """Say how much is left to be pushed."""
        rows, runs = (None, None) if self._place else (0, 0)
        try:
            if self._place:
                rows, runs = pending(self.paths, Cursors(self.paths, self.name, self._place))
        except (RlexpError, *DAMAGE) as error:
            self.problem = self.problem or str(error)
        done = self.over.is_set() and self.problem is None
        self.say(self.name, "end", rows=rows, runs=runs, problem=self.problem, done=done)

    @property
    def _place(self) -> str:
        return place_of(self.tracker, self.paths)

    def _work(self) -> None:
        try:
            self._hold()
        except Exception as error:  # noqa: BLE001 libraries raise what they like
            self._found(error)
        self.over.set()

    def _hold(self) -> None:
        """Push as soon as nobody else does: the mirror of a killed command lives on for a while."""
        given_up = time.monotonic() + LOCKED
        while True:
            cursors = Cursors(self.paths, self.name, self._place)
            try:
                with cursors.holding(time.time()):
                    self._push_with(cursors)
                    return
            except HeldError as error:
                if time.monotonic() > given_up:
                    self._found(error)
                    if self.once or self.finishing.is_set():
                        return
            self.finishing.wait(0.5)

    def _push_with(self, cursors: Cursors) -> None:
        pushing = Pushing(self.paths, self.tracker, cursors, self._leading)
        try:
            self._push(pushing)
        finally:
            pushing.close()

    @property
    def _leading(self) -> Leading:
        if isinstance(self.leading, RlexpError):
            raise self.leading
        return self.leading

    def _push(self, pushing: Pushing) -> None:
        opened = False
        while True:
            last = self.finishing.is_set()
            try:
                if self.once and pushing.is_current():
                    self.problem = None
                    return
                pushing.open()
                if not opened:
                    self.say(self.name, "open", place=self._place)
                    opened = True
                # A run without an end is lost where no command works at the experiment.
                pushing.round(unended=last and self.once and not is_held(self.paths.lock))
                if last:
                    pushing.summarise()
                self._worked(pushing)
                if last:
                    return
            except (TrackerUnreachable, OSError) as error:
                self._found(error)
                self._failures += 1
            self._pause(last=last)

    def _pause(self, *, last: bool) -> None:
        """Wait for the next look; a service that failed is given longer and longer."""
        if not self._failures:
            self.finishing.wait(PAUSE)
        elif last and not self.once:
            # The last seconds of a command are not slept away.
            time.sleep(1.0)
        elif last:
            time.sleep(pause_after(self._failures))
        else:
            self.finishing.wait(pause_after(self._failures))

    def _worked(self, pushing: Pushing) -> None:
        self._failures = 0
        self.problem = next(iter(pushing.refused.values()), None)
        if self.problem:
            self.say(self.name, "problem", text=self.problem)

    def _found(self, error: Exception) -> None:
        known = isinstance(error, RlexpError | OSError)
        text = str(error) if known else f"{type(error).__name__}: {error}"
        self.problem = " ".join(text.split())[:400]
        self.say(self.name, "problem", text=self.problem)


class Answers:
    """Writes answers, each problem once."""

    def __init__(self, descriptor: int) -> None:
        """Write to a descriptor that no library knows of."""
        self._file = os.fdopen(descriptor, "w", encoding="utf-8")
        self._lock = threading.Lock()
        self._secrets = secret_values(os.environ)
        self._said: set[str] = set()

    def __call__(self, tracker: str, kind: str, **more: Any) -> None:
        """Say something of a tracker."""
        if isinstance(text := more.get("problem") or more.get("text"), str):
            key = "problem" if "problem" in more else "text"
            more[key] = mask_known(text, self._secrets)
        line = json.dumps({"tracker": tracker, "kind": kind, **more})
        with self._lock:
            if kind == "problem" and line in self._said:
                return
            self._said.add(line)
            try:
                self._file.write(line + "\n")
                self._file.flush()
            except OSError:
                # Nobody listens any more; what can still be pushed is.
                return


def main() -> None:
    """Mirror what the first line of standard input says, until it says enough."""
    answers = Answers(_silent())
    order, over = json.loads(sys.stdin.readline() or "{}"), threading.Event()
    if not order.get("once"):
        step_back(over)
    sys.path.append(order["folder"])
    mirrors = _mirrors(order, answers)
    for mirror in mirrors:
        mirror.start()
    told = json.loads(sys.stdin.readline() or "null") if not order.get("once") else {}
    waits = {m.name: m.tracker.wait for m in mirrors}
    if told is None:
        waits = dict.fromkeys(waits, ORPHAN_SECONDS)
    else:
        # The command waits for what is left.
        over.set()
        if (seconds := (told or order).get("wait")) is not None:
            waits = dict.fromkeys(waits, float(seconds))
    for mirror in mirrors:
        mirror.finishing.set()
    _finish(mirrors, waits)
    # A library that still waits for its service would keep the process alive.
    os._exit(0)


def _finish(mirrors: Sequence[Mirror], waits: Mapping[str, float]) -> None:
    begun = time.monotonic()
    for mirror in mirrors:
        mirror.over.wait(max(begun + waits[mirror.name] - time.monotonic(), 0.0))
    for mirror in mirrors:
        mirror.tell()


def _mirrors(order: Mapping[str, Any], answers: Answers) -> list[Mirror]:
    paths = ExperimentPaths(Path(order["experiment"]))
    leading: Leading | RlexpError
    try:
        leading = leading_aggregate(Path(order["folder"]), order["allowed"])
    except RlexpError as error:
        leading = error
    return [
        Mirror(
            name=name,
            tracker=build(plain, "tracker", order["allowed"]),
            leading=leading,
            paths=paths,
            say=answers,
            once=bool(order.get("once")),
            finishing=threading.Event(),
        )
        for name, plain in order["trackers"].items()
    ]


def _silent() -> int:
    """Give what libraries print to nobody; returns a descriptor of the old standard output."""
    kept = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
    return kept


if __name__ == "__main__":
    main()
