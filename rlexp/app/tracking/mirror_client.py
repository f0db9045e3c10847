"""A command's side of the mirror: starts the process, passes its problems on, and ends it.

`mirroring` is the entry for commands that execute runs, `catch_up` for those that execute none.
"""

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
from typing import TYPE_CHECKING, Any, Self

from rlexp.app.workspace import Workspace
from rlexp.errors import RlexpError, TrackerUnreachable
from rlexp.store.layout import ExperimentPaths
from rlexp.store.secrets import without_secrets
from rlexp.store.tracker_positions import TrackerPositions
from rlexp.text import format_count

if TYPE_CHECKING:
    from rlexp.app.observer import Observer
    from rlexp.config.validate import PlugIns
    from rlexp.trackers import Tracker

MIRROR_MODULE = "rlexp.app.reporting.mirror_entry"
"""The mirror is a process of its own: it shows the answers of reports, which this floor cannot."""
MIRROR_ENDED = "the process that sends records to the trackers has ended"
KILL_MARGIN = 5.0
"""Seconds after the trackers' own waiting time, after which the mirror is killed."""
OPENING_LIMIT = 60.0
"""Seconds that a required tracker may take to respond."""


@dataclass(frozen=True, slots=True)
class ChosenTrackers:
    """The trackers of a command, by name: the plug-ins, and the settings they were built from."""

    built: "Mapping[str, Tracker]" = field(default_factory=dict)
    plain: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, configuration: Mapping[str, Any], parts: "PlugIns") -> Self:
        """The trackers of a validated configuration."""
        return cls(parts.trackers, configuration["tracker"] or {})


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorRequest:
    """The task of a mirror process.

    Attributes:
        trackers: The trackers to push to.
        once: Whether the mirror pushes the present records and ends, because no run is executed;
            else it runs with low priority beside the runs.
        wait: Seconds to wait for every tracker, instead of each tracker's own setting.
        retries: Whether a tracker that cannot be reached is tried again within its time.
    """

    trackers: ChosenTrackers
    once: bool = False
    wait: float | None = None
    retries: bool = True


class MirrorClient:
    """A handle on the running mirror process of one experiment."""

    def __init__(
        self,
        paths: ExperimentPaths,
        request: MirrorRequest,
        workspace: Workspace,
        observer: "Observer | None",
    ) -> None:
        """Start the process. An observer receives each problem when it occurs."""
        self._request, self._observer = request, observer
        self._answers: dict[str, dict[str, Any]] = {}
        self._opened: set[str] = set()
        self._problems: dict[str, str] = {}
        self._changed = threading.Condition()
        self._ended = self._finishing = False
        self.interrupted = False
        self._process = subprocess.Popen(
            # -P keeps the current folder off the path, where a file could shadow a module.
            [sys.executable, "-P", "-m", MIRROR_MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # Ctrl-C in the terminal must reach the command only, which tells the mirror when to
            # end.
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._listen, name="mirror", daemon=True)
        self._reader.start()
        self._send(
            {
                "experiment": str(paths.folder),
                "trackers": request.trackers.plain,
                "allowed": list(workspace.allowed),
                "folder": str(workspace.folder),
                "once": request.once,
                "wait": request.wait,
                "retries": request.retries,
            }
        )

    def require(self) -> None:
        """Wait until every required tracker has responded.

        Raises:
            TrackerUnreachable: A required tracker did not respond; no run was started.
        """
        names = {n for n, t in self._request.trackers.built.items() if t.required}
        reports = self._opened, self._problems
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._ended or all(any(n in reported for reported in reports) for n in names)
                ),
                OPENING_LIMIT,
            )
            missing = sorted(names - self._opened)
        if missing:
            self.kill()
            name = missing[0]
            problem = self._problems.get(name) or (
                MIRROR_ENDED if self._ended else f"no response in {OPENING_LIMIT:.0f} seconds"
            )
            raise TrackerUnreachable(
                f"the required tracker {name} is unreachable: {problem}; no run was started. "
                f"To train without it, leave out tracker.{name}.required"
            )

    def finish(self) -> dict[str, dict[str, Any]]:
        """Let the mirror push the remaining records within its time; returns its last answers."""
        self._finishing = True
        waits = [t.wait for t in self._request.trackers.built.values()]
        # The trackers wait in parallel, so the longest wait is that of all.
        longest = max(waits) if self._request.wait is None else self._request.wait
        if not self._request.once:
            self._send({"wait": self._request.wait})
        try:
            self._process.wait(longest + KILL_MARGIN)
        except subprocess.TimeoutExpired:
            pass
        except KeyboardInterrupt:
            # The user ended the wait. A later `rlexp sync` pushes the remaining records.
            self.interrupted = True
        self.kill()
        return self._answers

    def kill(self) -> None:
        """Kill the process and everything it has started."""
        # The group includes processes that a service's library has started.
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        # Not forever: a grandchild outside the group may still hold the other end of the pipe.
        self._reader.join(1.0)
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with suppress(ValueError, KeyError):
                self._hear(json.loads(line))
        self._process.stdout.close()
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        # Final answers come at the end: a process that ends without any has crashed.
        early = not self._answers
        if self._observer and early and not self._finishing:
            self._observer.note(f"{MIRROR_ENDED}; runs and records continue without it")

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
        # `require` raises the problem of a required tracker as an error, so it is not noted too.
        required = self._request.trackers.built[name].required and name not in self._opened
        if self._observer and answer["kind"] == "problem" and first and not required:
            self._observer.note(f"{name}: {answer['text']}; {self._consequence(answer)}")

    def _consequence(self, answer: Mapping[str, Any]) -> str:
        """What happens after a problem of a tracker."""
        if not self._request.once:
            return "runs and records continue without it"
        if not answer.get("again"):
            return "it is not tried again"
        usual = self._request.trackers.built[str(answer["tracker"])].wait
        seconds = usual if self._request.wait is None else self._request.wait
        return f"it is tried again for at most {seconds:g} s, and Ctrl-C ends that"


@contextmanager
def mirroring(
    paths: ExperimentPaths,
    trackers: ChosenTrackers,
    command: Sequence[str],
    workspace: Workspace,
    observer: "Observer",
) -> Iterator[None]:
    """Mirror an experiment inside a `with` block, and for a limited time after it.

    Raises:
        TrackerUnreachable: A required tracker does not respond.
    """
    if not trackers.built:
        yield
        return
    mirror = MirrorClient(paths, MirrorRequest(trackers=trackers), workspace, observer)
    # Before the first run: a required tracker must not be found missing after hours of training.
    mirror.require()
    try:
        yield
    finally:
        report(mirror.finish(), trackers, paths, command, workspace, observer)


def catch_up(
    paths: ExperimentPaths,
    trackers: ChosenTrackers,
    command: Sequence[str],
    workspace: Workspace,
    observer: "Observer",
) -> None:
    """Push the records that an earlier command could not push."""
    if trackers.built:
        request = MirrorRequest(trackers=trackers, once=True)
        answers = MirrorClient(paths, request, workspace, observer).finish()
        report(answers, trackers, paths, command, workspace, observer)


def note_missing_packages(trackers: ChosenTrackers, observer: "Observer") -> None:
    """Name the trackers whose package is not installed, with the command that installs it."""
    from rlexp.trackers.viewing import missing_package

    for name, tracker in trackers.built.items():
        if (refusal := missing_package(tracker)) is not None:
            observer.note(f"{refusal}; until then, nothing is sent to {name}")


def report(
    answers: Mapping[str, Mapping[str, Any]],
    trackers: ChosenTrackers,
    paths: ExperimentPaths,
    command: Sequence[str],
    workspace: Workspace,
    observer: "Observer",
) -> None:
    """Report what was not pushed, and where to look at what was."""
    report_pending(answers, trackers, paths, command, workspace, observer)
    for name, tracker in trackers.built.items():
        if page := page_of(name, tracker, paths, answers.get(name)):
            observer.note(f"{name}: {page}")


def page_of(
    name: str, tracker: "Tracker", paths: ExperimentPaths, answer: Mapping[str, Any] | None
) -> str | None:
    """Where to look at what a tracker has received; None if it was not reached."""
    if answer is None or answer.get("problem"):
        return None
    # A service that never answers gives no problem. One that has everything need not be opened.
    if not (answer.get("opened") or answer.get("done")):
        return None
    try:
        folder = TrackerPositions(paths, name, destination_of(tracker, paths)).folder
    except (RlexpError, OSError):
        return None
    from rlexp.trackers.viewing import where_to_look

    return where_to_look(tracker, paths.folder.parent.parent, folder)


def destination_of(tracker: "Tracker", paths: ExperimentPaths) -> str:
    """A tracker's destination as text, with paths relative to the project, which may be moved."""
    project = paths.folder.parent.parent
    return tracker.destination(project).replace(f"{project}{os.sep}", "")


def report_pending(
    answers: Mapping[str, Mapping[str, Any]],
    trackers: ChosenTrackers,
    paths: ExperimentPaths,
    command: Sequence[str],
    workspace: Workspace,
    observer: "Observer",
) -> None:
    """Report the records that were not pushed, and the command that pushes them later."""
    reports = [
        f"{name}: {_describe_pending(answers.get(name))}"
        for name in trackers.built
        if not _has_all(answers.get(name))
    ]
    for text in reports:
        observer.note(text)
    if reports:
        tracker_overrides = [
            w for w in command if w.lstrip("+").startswith(("tracker=", "tracker."))
        ]
        sync_command = shlex.join(
            ["rlexp", "sync", paths.name, *tracker_overrides, *workspace.permission]
        )
        # A printed command must not repeat a password or token that an override contained.
        secret = len(without_secrets(tracker_overrides)) < len(tracker_overrides)
        advice = "repeat the same command" if secret else sync_command
        observer.note(f"To push it later: {advice}")


def _has_all(answer: Mapping[str, Any] | None) -> bool:
    return answer is not None and bool(answer.get("done")) and answer.get("rows") == 0


def _describe_pending(answer: Mapping[str, Any] | None) -> str:
    if answer is None:
        return "it did not end in time; its pending records were not counted"
    rows, runs, problem = answer.get("rows"), answer.get("runs"), answer.get("problem")
    if rows is None or runs is None:
        pending = "its pending records cannot be counted"
    else:
        pending = f"{format_count(rows, 'record')} of {format_count(runs, 'run')} pending"
    return f"{pending} ({problem})" if problem else pending
