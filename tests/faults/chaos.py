"""Kills processes of a command at random moments, and gives the command again."""

import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from marked_commands import LONGEST, SETTLING, MarkedCommand, kill

from rlexp.errors import RecordError
from rlexp.records.events import Continued, RunStarted
from rlexp.records.run import FURTHER_ATTEMPTS, RunRecord, State
from rlexp.store.journal import read_journal
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.runs import read_run

GRACE = 30.0
"""Additional seconds in which a busy machine may end a command."""
FIRST = ("worker", "command")
"""The first disturbances: kill -9 of a run that has a checkpoint, and kill -9 of the command
after a run has continued from a checkpoint."""
CODES = {
    "command": {-signal.SIGKILL},
    "everything": {-signal.SIGKILL},
    "twice": {-signal.SIGKILL},
    "impatient": {-signal.SIGKILL, 130, -signal.SIGINT},
    # Negative where the signal comes while the command exits, after its last run.
    "SIGTERM": {143, -signal.SIGTERM},
    "SIGINT": {130, -signal.SIGINT},
    "SIGUSR1": {75, -signal.SIGUSR1},
}
"""Disturbances that end the command, and the exit codes that they may lead to."""
KINDS = ("worker", "pause", "server", *CODES)
"""All disturbances; those outside CODES do not end the command."""


@dataclass(frozen=True, slots=True)
class Target:
    """A run with a living process."""

    paths: RunPaths
    record: RunRecord
    pid: int

    def __str__(self) -> str:
        steps = [checkpoint.step for checkpoint in self.record.checkpoints]
        since = f"after its checkpoint at step {steps[-1]}" if steps else "without a checkpoint"
        return f"{self.paths.folder.name}, process {self.pid}, {since}"

    @property
    def will_be_tried_again(self) -> bool:
        """Whether the run gets another attempt after one more failure."""
        return self.record.machine_failures < FURTHER_ATTEMPTS

    @property
    def has_checkpoint(self) -> bool:
        """Whether the run has a checkpoint to continue from."""
        return bool(self.record.checkpoints)


@dataclass(slots=True)
class Chaos:
    """Gives a command until it ends with 0, and disturbs it at random until then.

    Attributes:
        command: The command.
        experiment: The experiment of the command.
        draw: Source of random disturbances, targets and moments.
        until: Monotonic time after which the command is left alone.
        pause: Maximum seconds between two disturbances.
        strikes: How often each disturbance took place.
        story: Log of the disturbances with their times.
    """

    command: MarkedCommand
    experiment: ExperimentPaths
    draw: random.Random
    until: float
    pause: float
    strikes: Counter[str] = field(default_factory=Counter)
    story: list[str] = field(default_factory=list)
    _deck: list[str] = field(default_factory=list)
    _start: float = field(default_factory=time.monotonic)

    def drive(self) -> None:
        """Give the command until it ends with 0; afterwards no process of it lives."""
        while (code := self._disturb(self.command.start())) != 0:
            self._log(f"the command ended with {code}")
        self._log("the command ended with 0")
        self.command.settle()

    @contextmanager
    def annotated_failures(self) -> Iterator[None]:
        """Add the log of disturbances and the last output to a failure."""
        try:
            yield
        except BaseException as error:
            error.add_note("\n".join([*self.story, *self.command.output_lines()[-30:]]))
            raise

    def targets(self) -> list[Target]:
        """The runs with a living process."""
        alive, targets = set(self.command.processes()), []
        for paths, record in self._records():
            if record.state is State.RUNNING:
                started = read_journal(paths.attempts()[-1].journal, measurements=False).events[:1]
                pids = [e.pid for e in started if isinstance(e, RunStarted)]
                targets += [Target(paths, record, pid) for pid in pids if pid in alive]
        return targets

    def _records(self) -> Iterator[tuple[RunPaths, RunRecord]]:
        """Every run whose record can be read."""
        for paths in self.experiment.runs():
            with suppress(RecordError):
                yield paths, read_run(paths).record

    def _disturb(self, command: subprocess.Popen[str]) -> int:
        """Disturb one command until it has ended; returns its exit code."""
        while self._goes_on() and self._wait_for_moment(command):
            kind = self._deal()
            if not self._strike(kind, command):
                continue
            self.strikes[kind] += 1
            if kind in CODES:
                code = self.command.wait(command, SETTLING + GRACE)
                assert code in {*CODES[kind], 0}, f"{kind} led to exit code {code}"
                if self.draw.random() < 0.5:
                    self.command.settle()
                return code
        code = self.command.wait(command, LONGEST)
        assert code == 0, f"the command ended by itself with {code}"
        return code

    def _goes_on(self) -> bool:
        return self._missing() is not None or time.monotonic() < self.until

    def _missing(self) -> str | None:
        """The next of the first disturbances that has not taken place."""
        return next((kind for kind in FIRST if not self.strikes[kind]), None)

    def _deal(self) -> str:
        """The next disturbance; each comes once before any comes again."""
        if (first := self._missing()) is not None:
            return first
        self._deck = self._deck or self.draw.sample(KINDS, len(KINDS))
        return self._deck.pop()

    def _wait_for_moment(self, command: subprocess.Popen[str]) -> bool:
        """Wait a random time and until a run trains; returns whether the command still runs.

        The first disturbances come as soon as they can have an effect.
        """
        first = self._missing()
        if first is None:
            time.sleep(self.draw.uniform(0.0, self.pause))
        while command.poll() is None:
            targets = self.targets()
            if any(target.has_checkpoint or first is None for target in targets) and (
                first != FIRST[1] or self._has_continued()
            ):
                return True
            time.sleep(0.1)
        return False

    def _has_continued(self) -> bool:
        """Whether a run has continued from a checkpoint."""
        return any(
            isinstance(event, Continued)
            for run in self.experiment.runs()
            for attempt in run.attempts()
            if attempt.journal.exists()
            for event in read_journal(attempt.journal, measurements=False).events
        )

    def _strike(self, kind: str, command: subprocess.Popen[str]) -> bool:
        """Carry out a disturbance; returns whether it had a target."""
        match kind:
            case "worker":
                return self._kill_worker()
            case "pause":
                return self._pause_worker()
            case "server":
                return self._kill_server(command)
            case "everything":
                self._kill_everything(command)
            case "twice":
                self._kill_twice(command)
            case "command":
                self._log("kill -9 of the command")
                command.kill()
            case "impatient":
                self._log("SIGINT to the command, and kill -9 soon after")
                command.send_signal(signal.SIGINT)
                time.sleep(self.draw.random())
                command.kill()
            case _:
                self._log(f"{kind} to the command")
                command.send_signal(signal.Signals[kind])
        return True

    def _kill_worker(self) -> bool:
        """Kill a run that will be tried again, preferably one with a checkpoint."""
        candidates = [target for target in self.targets() if target.will_be_tried_again]
        if not candidates:
            return False
        target = max(candidates, key=lambda t: (t.has_checkpoint, self.draw.random()))
        self._log(f"kill -9 of {target}")
        kill(target.pid)
        return True

    def _pause_worker(self) -> bool:
        """Stop one of the runs for a second."""
        if not (targets := self.targets()):
            return False
        target = self.draw.choice(targets)
        self._log(f"SIGSTOP to {target}, and SIGCONT")
        kill(target.pid, signal.SIGSTOP)
        time.sleep(1.0)
        kill(target.pid, signal.SIGCONT)
        return True

    def _kill_server(self, command: subprocess.Popen[str]) -> bool:
        """Kill the server of the runs, unless that would fail a run for good."""
        server = self.command.server(command)
        open_records = [record for _, record in self._records() if record.may_run()]
        # A lost run may have failed a moment ago, before the command recorded the failure.
        failures = [r.machine_failures + (r.state is State.LOST) for r in open_records]
        if server is None or max(failures, default=0) >= FURTHER_ATTEMPTS:
            return False
        self._log(f"kill -9 of the server, process {server}")
        kill(server)
        return True

    def _kill_everything(self, command: subprocess.Popen[str]) -> None:
        """Kill the command first, so that it fails no run, then its other processes."""
        others = [pid for pid in self.command.processes() if pid != command.pid]
        self._log(f"kill -9 of {len(others) + 1} processes")
        command.kill()
        for pid in self.draw.sample(others, len(others)):
            kill(pid)

    def _kill_twice(self, command: subprocess.Popen[str]) -> None:
        """Kill the command, and the next command within its first second."""
        self._log("kill -9 of the command, and of the next one in its first second")
        command.kill()
        command.wait()
        follower = self.command.start()
        time.sleep(self.draw.random())
        follower.kill()
        assert follower.wait() in {-signal.SIGKILL, 0}

    def _log(self, what: str) -> None:
        self.story.append(f"{time.monotonic() - self._start:7.2f} s  {what}")
