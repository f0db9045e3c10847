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
"""A variable that every process inherits, by which those of one command are told from others."""
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

    def start(self) -> subprocess.Popen[str]:
        """Give the command; what it prints goes on where the one before it stopped."""
        with self._output.open("a") as output:
            command = subprocess.Popen(
                [*self.study.program, *self.words],
                cwd=self.study.folder,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                env=self.study.variables | {MARK: self.mark},
            )
        self.study.commands.append(command)
        return command

    def give(self) -> None:
        """Give the command, and make sure that it ends by itself, with 0."""
        code = self.start().wait(LONGEST)
        assert code == 0, "\n".join(self.printed())

    def printed(self) -> list[str]:
        """What all commands have printed, in lines."""
        return self._output.read_text().splitlines() if self._output.exists() else []

    def processes(self) -> list[int]:
        """The commands and all that they started, as far as it lives."""
        wanted = f"{MARK}={self.mark}".encode()
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal():
                with suppress(OSError):
                    if wanted in (folder / "environ").read_bytes().split(b"\0"):
                        found.append(int(folder.name))
        return found

    def server(self, command: subprocess.Popen[str]) -> int | None:
        """The process that the runs of a command are forked from."""
        with suppress(psutil.Error):
            for child in psutil.Process(command.pid).children():
                if "rlexp.executors.server" in child.cmdline():
                    number: int = child.pid
                    return number
        return None

    def settle(self) -> None:
        """Wait until nothing of it lives, which takes no longer than is promised."""
        wait_until(lambda: not self.processes(), SETTLING)

    @property
    def _output(self) -> Path:
        return self.study.folder / "output.txt"


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to a process that may be gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)
