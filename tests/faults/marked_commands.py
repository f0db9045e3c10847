"""A command that is given again and again, and every process that it starts."""

import os
import signal
import subprocess
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from studies import StudyFolder, wait_until

MARK = "RLEXP_CHAOS_MARK"
"""A variable that every process inherits, by which the processes of one command are recognised.

The variables of forked commands are not in `/proc`: forks are recognised by their working folder.
"""
SETTLING = 10.0
"""Seconds within which every process is gone after kill -9 of a command."""

LONGEST = 600.0
"""Maximum seconds of an undisturbed command on a busy machine."""


@dataclass(frozen=True, slots=True)
class MarkedCommand:
    """The arguments of a command, which is given in a study."""

    study: StudyFolder
    words: tuple[str, ...]
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    _output: bytearray = field(default_factory=bytearray)

    def start(self) -> subprocess.Popen[str]:
        """Start the command; its output is added to that of earlier commands."""
        self._read()
        return self.study.start(*self.words, variables={MARK: self.mark})

    def give(self) -> None:
        """Give the command, and check that it ends by itself with 0."""
        code = self.wait(self.start(), LONGEST)
        assert code == 0, "\n".join(self.output_lines())

    def wait(self, command: subprocess.Popen[str], seconds: float) -> int:
        """Wait for the end of a command, and read its output meanwhile."""

        def ended() -> bool:
            self._read()
            return command.poll() is not None

        wait_until(ended, seconds)
        code: int = command.returncode
        return code

    def output_lines(self) -> list[str]:
        """The lines of output of all commands."""
        self._read()
        return self._output.decode(errors="replace").splitlines()

    def _read(self) -> None:
        """Read the output of the commands, so that no command waits for a reader."""
        for command in self.study.commands:
            if command.stdout is None or command.stdout.closed:
                continue
            number = command.stdout.fileno()
            os.set_blocking(number, False)
            with suppress(BlockingIOError):
                while content := os.read(number, 1 << 16):
                    self._output.extend(content)

    def processes(self) -> list[int]:
        """The living processes of the commands."""
        pids = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal() and int(folder.name) != os.getpid():
                with suppress(OSError):
                    if self._has(folder):
                        pids.append(int(folder.name))
        return pids

    def _has(self, process: Path) -> bool:
        """Whether a folder below `/proc` belongs to a process of the commands."""
        if self.study.warm:
            # A dead process has no working folder.
            return (process / "cwd").readlink() == self.study.folder
        return f"{MARK}={self.mark}".encode() in (process / "environ").read_bytes().split(b"\0")

    def server(self, command: subprocess.Popen[str]) -> int | None:
        """The process that the runs of a command are forked from, which leads a session."""
        with suppress(psutil.Error, ProcessLookupError):
            for child in psutil.Process(command.pid).children():
                number: int = child.pid
                if os.getsid(number) == number:
                    return number
        return None

    def settle(self) -> None:
        """Wait until no process of the commands lives, for as long as is promised."""
        wait_until(lambda: not self.processes(), SETTLING)


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to a process that may be gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)
