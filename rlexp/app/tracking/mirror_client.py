"""A command's side of the mirror: starts it, hears what is wrong, and waits for it in the end."""

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from rlexp.app.observer import Observer
from rlexp.app.workspace import Workspace
from rlexp.config.validate import Parts
from rlexp.errors import TrackerUnreachable
from rlexp.store.layout import ExperimentPaths
from rlexp.store.secrets import without_secrets
from rlexp.text import counted
from rlexp.trackers import Tracker

GONE = "the process that mirrors records has ended"
MARGIN = 5.0
"""Seconds beyond those that the mirror waits, after which it is killed."""
OPENING = 60.0
"""Seconds that a required tracker gets to answer."""


@dataclass(frozen=True, slots=True)
class Trackers:
    """What a command mirrors to: by name, the plug-ins and the settings that they were built from."""

    built: Mapping[str, Tracker] = field(default_factory=dict)
    plain: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, plain: Mapping[str, Any], parts: Parts) -> "Trackers":
        """Those of a validated configuration."""
        return cls(parts.trackers, plain["tracker"] or {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a mirror is to do.

    Attributes:
        trackers: What it pushes to.
        once: Whether it pushes what is there and ends, for nothing is running; else it leaves the
            processors to what runs.
        wait: Seconds to wait for every tracker, instead of what its settings say.
    """

    trackers: Trackers
    once: bool = False
    wait: float | None = None


class Mirrored:
    """A running mirror of one experiment."""

    def __init__(
        self, paths: ExperimentPaths, order: Order, workspace: Workspace, observer: Observer | None
    ) -> None:
        """Start it. With an observer, problems are said as they come."""
        self._order, self._observer = order, observer
        self._answers: dict[str, dict[str, Any]] = {}
        self._opened: set[str] = set()
        self._problems: dict[str, str] = {}
        self._changed = threading.Condition()
        self._gone = self._finishing = False
        self.interrupted = False
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "rlexp.app.tracking.mirror_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # A signal of the terminal is for the command, which tells the mirror when to end.
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._listen, name="mirror", daemon=True)
        self._reader.start()
        self._send(
            {
                "experiment": str(paths.folder),
                "trackers": order.trackers.plain,
                "allowed": list(workspace.allowed),
                "folder": str(workspace.folder),
                "once": order.once,
                "wait": order.wait,
            }
        )

    def require(self) -> None:
        """Wait until the trackers that are required have answered.

        Raises:
            TrackerUnreachable: One of them did not; nothing was started.
        """
        names = {n for n, t in self._order.trackers.built.items() if t.required}
        heard = self._opened, self._problems
        with self._changed:
            self._changed.wait_for(
                lambda: self._gone or all(any(n in known for known in heard) for n in names),
                OPENING,
            )
            missing = sorted(names - self._opened)
        if missing:
            self.kill()
            name = missing[0]
            problem = self._problems.get(name) or (
                GONE if self._gone else f"it did not answer in {OPENING:.0f} seconds"
            )
            raise TrackerUnreachable(
                f"{name} is required and not there: {problem}; nothing was started. "
                f"To train all the same, leave out tracker.{name}.required"
            )

    def finish(self) -> dict[str, dict[str, Any]]:
        """Let it push what is left within the time that it has; returns its last answers."""
        self._finishing = True
        waits = [t.wait for t in self._order.trackers.built.values()]
        longest = max(waits) if self._order.wait is None else self._order.wait
        if not self._order.once:
            self._send({"wait": self._order.wait})
        try:
            self._process.wait(longest + MARGIN)
        except subprocess.TimeoutExpired:
            pass
        except KeyboardInterrupt:
            # The user has waited long enough; what was not pushed is pushed another time.
            self.interrupted = True
        self.kill()
        return self._answers

    def kill(self) -> None:
        """End it at once."""
        # Whatever a service's library has started goes with it.
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(1.0)
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()

    def _send(self, plain: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(json.dumps(plain).encode() + b"\n")
            self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with suppress(ValueError, KeyError):
                self._hear(json.loads(line))
        self._process.stdout.close()
        with self._changed:
            self._gone = True
            self._changed.notify_all()
        early = not self._answers
        if self._observer and early and not self._finishing:
            self._observer.note(f"{GONE}; runs and records go on without it")

    def _hear(self, answer: dict[str, Any]) -> None:
        name = str(answer["tracker"])
        with self._changed:
            first = name not in self._problems
            match answer["kind"]:
                case "open":
                    self._opened.add(name)
                case "problem":
                    self._problems[name] = str(answer["text"])
                case _:
                    self._answers[name] = answer
            self._changed.notify_all()
        required = self._order.trackers.built[name].required and name not in self._opened
        if self._observer and answer["kind"] == "problem" and first and not required:
            self._observer.note(f"{name}: {answer['text']}; runs and records go on without it")


@contextmanager
def mirroring(
    paths: ExperimentPaths,
    trackers: Trackers,
    command: Sequence[str],
    workspace: Workspace,
    observer: Observer,
) -> Iterator[None]:
    """Mirror an experiment as long as the context lasts, and a bounded time beyond.

    Raises:
        TrackerUnreachable: A tracker is required, and not there.
    """
    if not trackers.built:
        yield
        return
    mirror = Mirrored(paths, Order(trackers=trackers), workspace, observer)
    mirror.require()
    try:
        yield
    finally:
        tell_pending(mirror.finish(), trackers, paths, command, workspace, observer)


def catch_up(
    paths: ExperimentPaths,
    trackers: Trackers,
    command: Sequence[str],
    workspace: Workspace,
    observer: Observer,
) -> None:
    """Push what an earlier command could not."""
    if trackers.built:
        order = Order(trackers=trackers, once=True)
        answers = Mirrored(paths, order, workspace, observer).finish()
        tell_pending(answers, trackers, paths, command, workspace, observer)


def tell_pending(
    answers: Mapping[str, Mapping[str, Any]],
    trackers: Trackers,
    paths: ExperimentPaths,
    command: Sequence[str],
    workspace: Workspace,
    observer: Observer,
) -> None:
    """Say what was not pushed, and the command that does it later."""
    left = [
        f"{name}: {_left(answers.get(name))}"
        for name in trackers.built
        if not _has_all(answers.get(name))
    ]
    for text in left:
        observer.note(text)
    if left:
        words = [w for w in command if w.lstrip("+").startswith(("tracker=", "tracker."))]
        again = shlex.join(["rlexp", "sync", paths.name, *words, *workspace.permission])
        secret = len(without_secrets(words)) < len(words)
        told = "give the same command again" if secret else again
        observer.note(f"To push it later: {told}")


def _has_all(answer: Mapping[str, Any] | None) -> bool:
    return answer is not None and bool(answer.get("done")) and answer.get("rows") == 0


def _left(answer: Mapping[str, Any] | None) -> str:
    if answer is None:
        return "it did not end in time, and what it lacks was not counted"
    rows, runs, problem = answer.get("rows"), answer.get("runs"), answer.get("problem")
    if rows is None or runs is None:
        what = "what it lacks cannot be counted"
    else:
        what = f"{counted(rows, 'record')} of {counted(runs, 'run')} pending"
    return f"{what} ({problem})" if problem else what
