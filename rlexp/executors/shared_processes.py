"""Processes of the server that serve several jobs at the same time.

A job reaches its process through a pair of sockets, which no file system knows: the server sends one end to
the process, and the job inherits the other one. When either side dies, the other side reads the end.
"""

import importlib
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from rlexp.executors import SharedProcess
from rlexp.executors.jobs_in_turn import Command


@dataclass(slots=True)
class ServingProcess:
    """A process that serves jobs.

    Attributes:
        kind: What it executes, and for how many jobs.
        variables: Environment variables of its jobs: they name the device, for instance.
        log: The file with its output: the log of the job that needed it first.
        control: Sends descriptors to it.
        jobs: Jobs that it serves now, and processes that wait for their next such job.
        is_gone: Whether it has ended.
    """

    kind: SharedProcess
    variables: dict[str, str]
    log: Path
    control: socket.socket
    jobs: int = 0
    is_gone: bool = False


@dataclass(slots=True)
class ServingProcesses:
    """The processes of a server that serve jobs, by the process id of their guard.

    Attributes:
        fork: Forks a process with a log that executes a function, and returns the id of its guard.
    """

    fork: Callable[[Path, Callable[[], int]], int]
    processes: dict[int, ServingProcess] = field(default_factory=dict)

    def seat(self, command: Command) -> tuple[ServingProcess, socket.socket] | None:
        """The process that serves a job, and the end of the connection that the job inherits."""
        if command.get("shares") is None:
            return None
        kind, variables = SharedProcess(**command["shares"]), command["variables"]
        alike = (p for p in self.processes.values() if (p.kind, p.variables) == (kind, variables))
        free = (process for process in alike if process.jobs < kind.jobs)
        process = next(free, None) or self._start(kind, variables, Path(command["log"]))
        process.jobs += 1
        ours, theirs = socket.socketpair()
        # A process that has just died is noticed by the job.
        with ours, suppress(OSError):
            socket.send_fds(process.control, [b"."], [ours.fileno()])
        return process, theirs

    def bury(self, guard: int) -> bool:
        """Take note that a process has ended; returns whether it was one of these."""
        process = self.processes.pop(guard, None)
        if process is None:
            return False
        process.is_gone = True
        process.control.close()
        return True

    def close_in_fork(self) -> None:
        """Close what a fork of the server inherits: it would keep the processes alive."""
        for process in self.processes.values():
            process.control.close()

    def _start(self, kind: SharedProcess, variables: dict[str, str], log: Path) -> ServingProcess:
        ours, theirs = socket.socketpair()

        def serve() -> int:
            ours.close()
            os.environ.update(variables)
            # It serves jobs that a request to end interrupts, until the server closes its end.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            module, _, function = kind.entry.partition(":")
            getattr(importlib.import_module(module), function)(theirs)
            return 0

        guard = self.fork(log, serve)
        theirs.close()
        self.processes[guard] = ServingProcess(kind, variables, log, ours)
        return self.processes[guard]


def inherit(command: Command, connection: socket.socket) -> None:
    """Tell a job the descriptor of its connection."""
    os.environ[command["shares"]["variable"]] = str(connection.detach())
