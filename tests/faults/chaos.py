"""Kills whatever takes part in a command, at random moments, and gives the command again."""

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
"""Seconds beyond what is promised that a busy machine may take to end a command."""
FIRST = ("worker", "command")
"""What always comes first: kill -9 of a run that has a checkpoint, and when a run has gone on from
one, of the command."""
CODES = {
    "command": {-signal.SIGKILL},
    "everything": {-signal.SIGKILL},
    "twice": {-signal.SIGKILL},
    "impatient": {-signal.SIGKILL, 130, -signal.SIGINT},
    # By its number where the signal comes as the command leaves, after its last run.
    "SIGTERM": {143, -signal.SIGTERM},
    "SIGINT": {130, -signal.SIGINT},
    "SIGUSR1": {75, -signal.SIGUSR1},
}
"""What ends the command, and the exit codes that it leads to where it had not ended before."""
KINDS = ("worker", "pause", "server", *CODES)
"""Everything that is done; what ends no command should hardly be noticed by it."""


@dataclass(frozen=True, slots=True)
class Target:
    """A run that a living process trains."""

    paths: RunPaths
    record: RunRecord
    pid: int

    def __str__(self) -> str:
        steps = [checkpoint.step for checkpoint in self.record.checkpoints]
        since = f"after its checkpoint at step {steps[-1]}" if steps else "without a checkpoint"
        return f"{self.paths.folder.name}, process {self.pid}, {since}"

    @property
    def will_be_tried_again(self) -> bool:
        """Whether one more failure is not the last."""
        return self.record.machine_failures < FURTHER_ATTEMPTS

    @property
    def has_checkpoint(self) -> bool:
        """Whether there is anything to go on from."""
        return bool(self.record.checkpoints)


@dataclass(slots=True)
class Chaos:
    """Gives a command until it ends by itself with 0, and disturbs it at random until then.

    Attributes:
        command: What is given.
        experiment: The experiment that it works on.
        draw: Of kinds, targets and moments.
        until: When to leave it alone, on the monotonic clock.
        pause: Seconds between two disturbances, at most.
        struck: How often each disturbance took place.
        story: What was done, and when.
    """

    command: MarkedCommand
    experiment: ExperimentPaths
    draw: random.Random
    until: float
    pause: float
    struck: Counter[str] = field(default_factory=Counter)
    story: list[str] = field(default_factory=list)
    _deck: list[str] = field(default_factory=list)
    _begun: float = field(default_factory=time.monotonic)

    def drive(self) -> None:
        """Bring the command to its end; afterwards nothing of it lives."""
        while (code := self._disturb(self.command.start())) != 0:
            self._tell(f"the command ended with {code}")
        self._tell("the command ended with 0")
        self.command.settle()

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Add to a failure what was done, and what the commands printed last."""
        try:
            yield
        except BaseException as error:
            error.add_note("\n".join([*self.story, *self.command.printed()[-30:]]))
            raise

    def targets(self) -> list[Target]:
        """The runs in training, by name."""
        alive, results = set(self.command.processes()), []
        for paths, record in self._records():
            if record.state is State.RUNNING:
                started = read_journal(paths.attempts()[-1].journal, measurements=False).events[:1]
                pids = [e.pid for e in started if isinstance(e, RunStarted)]
                results += [Target(paths, record, pid) for pid in pids if pid in alive]
        return results

    def _records(self) -> Iterator[tuple[RunPaths, RunRecord]]:
        """Every run that is written down so far."""
        for paths in self.experiment.runs():
            with suppress(RecordError):
                yield paths, read_run(paths).record

    def _disturb(self, command: subprocess.Popen[str]) -> int:
        """Disturb one command until it has ended; returns its exit code."""
        while self._goes_on() and self._wait_for_moment(command):
            kind = self._deal()
            if not self._strike(kind, command):
                continue
            self.struck[kind] += 1
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
        """Which of the first disturbances comes now, whatever the time."""
        return next((kind for kind in FIRST if not self.struck[kind]), None)

    def _deal(self) -> str:
        """The next disturbance: each comes once before any comes again."""
        if (first := self._missing()) is not None:
            return first
        self._deck = self._deck or self.draw.sample(KINDS, len(KINDS))
        return self._deck.pop()

    def _wait_for_moment(self, command: subprocess.Popen[str]) -> bool:
        """Wait until a run trains, and then a little; returns whether the command goes on.

        The first disturbances come as soon as they can show something.
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
        """Whether a run went on from a checkpoint."""
        return any(
            isinstance(event, Continued)
            for run in self.experiment.runs()
            for attempt in run.attempts()
            if attempt.journal.exists()
            for event in read_journal(attempt.journal, measurements=False).events
        )

    def _strike(self, kind: str, command: subprocess.Popen[str]) -> bool:
        """Do it; returns whether there was anything to do it to."""
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
                self._tell("kill -9 of the command")
                command.kill()
            case "impatient":
                self._tell("SIGINT to the command, and kill -9 soon after")
                command.send_signal(signal.SIGINT)
                time.sleep(self.draw.random())
                command.kill()
            case _:
                self._tell(f"{kind} to the command")
                command.send_signal(signal.Signals[kind])
        return True

    def _kill_worker(self) -> bool:
        """Kill one of the runs, rather one that has a checkpoint, that will be tried again."""
        fit = [target for target in self.targets() if target.will_be_tried_again]
        if not fit:
            return False
        target = max(fit, key=lambda t: (t.has_checkpoint, self.draw.random()))
        self._tell(f"kill -9 of {target}")
        kill(target.pid)
        return True

    def _pause_worker(self) -> bool:
        """Stop one of the runs for a second."""
        if not (targets := self.targets()):
            return False
        target = self.draw.choice(targets)
        self._tell(f"SIGSTOP to {target}, and SIGCONT")
        kill(target.pid, signal.SIGSTOP)
        time.sleep(1.0)
        kill(target.pid, signal.SIGCONT)
        return True

    def _kill_server(self, command: subprocess.Popen[str]) -> bool:
        """Kill what runs are forked from, which fails all of them, unless one fails for good."""
        server = self.command.server(command)
        unended = [record for _, record in self._records() if record.may_run()]
        # One that is lost may have just failed, and the command is about to say so.
        failures = [r.machine_failures + (r.state is State.LOST) for r in unended]
        if server is None or max(failures, default=0) >= FURTHER_ATTEMPTS:
            return False
        self._tell(f"kill -9 of the server, process {server}")
        kill(server)
        return True

    def _kill_everything(self, command: subprocess.Popen[str]) -> None:
        """Kill the command first, so that it fails no run, then all others in any order."""
        others = [pid for pid in self.command.processes() if pid != command.pid]
        self._tell(f"kill -9 of {len(others) + 1} processes")
        command.kill()
        for pid in self.draw.sample(others, len(others)):
            kill(pid)

    def _kill_twice(self, command: subprocess.Popen[str]) -> None:
        """Kill the command, and the next one in its first second."""
        self._tell("kill -9 of the command, and of the next one in its first second")
        command.kill()
        command.wait()
        follower = self.command.start()
        time.sleep(self.draw.random())
        follower.kill()
        assert follower.wait() in {-signal.SIGKILL, 0}

    def _tell(self, what: str) -> None:
        self.story.append(f"{time.monotonic() - self._begun:7.2f} s  {what}")
