"""A command that is given again and again, and every process that comes of it."""

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
"""A variable that every process inherits, by which those of one command are told from others.

That of forked commands does not stand in `/proc`: they are known by the folder that they work in.
"""
SETTLING = 10.0
"""Seconds in which everything is gone after kill -9 of a command."""

LONGEST = 600.0
"""Seconds that a command which nobody disturbs may take, on a busy machine."""


@dataclass(frozen=True, slots=True)
class MarkedCommand:
    """Words to give in a study."""

    study: StudyFolder
    words: tuple[str, ...]
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    _printed: bytearray = field(default_factory=bytearray)

    def start(self) -> subprocess.Popen[str]:
        """Give the command; what it prints goes on where the one before it stopped."""
        self._read()
        return self.study.start(*self.words, variables={MARK: self.mark})

    def give(self) -> None:
        """Give the command, and make sure that it ends by itself, with 0."""
        code = self.wait(self.start(), LONGEST)
        assert code == 0, "\n".join(self.printed())

    def wait(self, command: subprocess.Popen[str], seconds: float) -> int:
        """Wait for the end of a command, and read meanwhile what it prints."""

        def ended() -> bool:
            self._read()
            return command.poll() is not None

        wait_until(ended, seconds)
        code: int = command.returncode
        return code

    def printed(self) -> list[str]:
        """What all commands have printed, in lines."""
        self._read()
        return self._printed.decode(errors="replace").splitlines()

    def _read(self) -> None:
        """Take what commands have printed, so that none waits for somebody to read it."""
        for command in self.study.commands:
            if command.stdout is None or command.stdout.closed:
                continue
            number = command.stdout.fileno()
            os.set_blocking(number, False)
            with suppress(BlockingIOError):
                while content := os.read(number, 1 << 16):
                    self._printed.extend(content)

    def processes(self) -> list[int]:
        """The commands and all that they started, as far as it lives."""
        results = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal() and int(folder.name) != os.getpid():
                with suppress(OSError):
                    if self._has(folder):
                        results.append(int(folder.name))
        return results

    def _has(self, process: Path) -> bool:
        """Whether a folder below `/proc` is that of a process of the commands."""
        if self.study.warm:
            # A process that has died works nowhere.
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
        """Wait until nothing of it lives, which takes no longer than is promised."""
        wait_until(lambda: not self.processes(), SETTLING)


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to a process that may be gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)
