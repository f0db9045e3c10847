"""Executes jobs as processes of this machine, forked from a warm server (`server.py`)."""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt

from rlexp.errors import ExecutorError
from rlexp.executors import Exit, Job
from rlexp.executors.devices import Devices, visible_devices
from rlexp.executors.lifetime import END_LIMIT
from rlexp.executors.memory import out_of_memory_kills
from rlexp.store.locks.processes import this_process
from rlexp.store.provenance import usable_cores

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
START_LIMIT = 300.0
"""Seconds that the server may take to import all modules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """Executes runs as processes of this machine, as many at a time as its cores hold."""

    workers: Annotated[int, Ge(1)] | Literal["auto"]
    hang_timeout: Annotated[float, Gt(0)]
    grace: Annotated[float, Gt(0)]
    log_limit: Annotated[int, Ge(10_000)]
    devices: list[str | int] | Literal["auto"] | None = None
    runs_per_device: Annotated[int, Ge(1)] = 1

    def workers_for(self, threads: int) -> int:
        """The number of runs with so many threads that fill the machine, or `workers` if set.

        Where runs get devices, at most the number of runs that the devices hold.
        """
        by_cores = max(1, usable_cores() // threads) if self.workers == "auto" else self.workers
        devices = self._devices()
        return min(by_cores, devices.slots) if devices.names else by_cores

    def device_variables(self) -> dict[str, str]:
        """The environment variables with the first device that runs get; {} where they get none."""
        return self._devices().take("")

    def _devices(self) -> Devices:
        listed = [str(name) for name in self.devices or ()]
        names = visible_devices() if self.devices == "auto" else listed
        return Devices(names, self.runs_per_device)

    @contextmanager
    def open(
        self,
        entry: str,
        preload: tuple[str, ...],
        *,
        threads: int,
        folder: Path,
    ) -> Iterator["LocalSession"]:
        """Start the server; the end of the context ends the server and all its jobs."""
        # With one thread, the server's libraries start no thread pool: a fork copies only the
        # calling thread, and a job would wait for ever for the others. A job sets its own number.
        variables = dict.fromkeys(THREAD_VARIABLES, "1")
        command = [
            *(sys.executable, "-P", "-m", "rlexp.executors.server"),
            *(entry, str(self.log_limit), str(folder)),
            *(json.dumps(this_process().plain()), *preload),
        ]
        session = LocalSession(
            command, {**os.environ, **variables}, self.workers_for(threads), self._devices()
        )
        try:
            yield session
        finally:
            session.close()


class LocalSession:
    """A session of the local executor: a server process and its jobs."""

    def __init__(
        self, command: list[str], environment: dict[str, str], slots: int, devices: Devices
    ) -> None:
        self.slots = slots
        self._devices = devices
        self._command = command
        self._environment = environment
        self._jobs: set[str] = set()
        self._pending = b""
        self._lost: list[Exit] = []
        self._killed_for_memory = out_of_memory_kills()
        self._start()

    def _start(self) -> None:
        self._server = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Ctrl-C reaches every process of the terminal's group: the command alone handles it.
            start_new_session=True,
            env=self._environment,
        )
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._stdout, selectors.EVENT_READ)
        self._ready = False

    @property
    def _stdout(self) -> int:
        assert self._server.stdout is not None
        return self._server.stdout.fileno()

    @property
    def is_starting(self) -> bool:
        """Whether the server still imports modules."""
        return not self._ready and self._server.poll() is None

    def submit(self, job: Job) -> None:
        """Start a job; the first call waits until the server has imported all modules."""
        # The server itself may have been killed, for example for memory: start another. A server
        # that ended while it imported modules would end again.
        if self._ready and self._server.poll() is not None:
            self._lost += self._lose_all()
            self._release()
            self._start()
        self._wait_until_ready()
        self._jobs.add(job.key)
        self._tell(
            {
                "submit": job.key,
                "arguments": list(job.arguments),
                "log": str(job.log),
                "in_turn": job.in_turn,
                "shares": None if job.shares is None else asdict(job.shares),
                "variables": self._devices.take(job.key),
            }
        )

    def poll(self, seconds: float) -> list[Exit]:
        """Wait up to `seconds` for a job to end; returns the jobs that have ended."""
        exits, self._lost = self._lost, []
        for message in self._messages(seconds):
            if "ended" in message:
                self._jobs.discard(message["ended"])
                self._devices.give_back(message["ended"])
                exits.append(self._exit(message))
        if self._server.poll() is not None and self._jobs:
            exits.extend(self._lose_all())
        return exits

    def stop(self) -> None:
        """Ask every job to end itself."""
        self._tell({"signal": int(signal.SIGTERM), "keys": None})

    def kill(self, key: str) -> None:
        """End a job and all its processes, after a stack dump in its log."""
        self._tell({"signal": int(signal.SIGKILL), "keys": [key]})

    def close(self) -> None:
        """End the server and all its jobs."""
        assert self._server.stdin is not None
        # The end of its input makes the server kill every job and exit, also after kill -9 of
        # this process.
        with suppress(OSError):
            self._server.stdin.close()
        if not self._ready:
            # It has no job yet, and while it imports modules it does not see the end of its input.
            self._server.kill()
        try:
            self._server.wait(1.0)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
            self._lose_all()
        self._release()

    def _release(self) -> None:
        self._selector.close()
        for pipe in (self._server.stdin, self._server.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_LIMIT
        while not self._ready:
            self._messages(0.2)
            if (code := self._server.poll()) is not None:
                raise ExecutorError(f"the server that starts runs {_early_end(code)}")
            if time.monotonic() > deadline:
                raise ExecutorError(
                    f"the server that starts runs was not ready in {START_LIMIT:g} s"
                )

    def _messages(self, seconds: float) -> list[dict[str, Any]]:
        if not self._selector.select(seconds):
            return []
        content = os.read(self._stdout, 1 << 16)
        if not content:
            # The pipe closes slightly before the process has an exit code.
            with suppress(subprocess.TimeoutExpired):
                self._server.wait(1.0)
        *lines, self._pending = (self._pending + content).split(b"\n")
        messages = [json.loads(line) for line in lines]
        # `poll` may be the caller that receives this message.
        self._ready = self._ready or any("ready" in message for message in messages)
        return messages

    def _exit(self, message: dict[str, Any]) -> Exit:
        kills = out_of_memory_kills()
        by_kernel = message["signal"] == signal.SIGKILL and kills > self._killed_for_memory
        # The kernel's counter rises by one for each killed process: every kill explains one exit.
        self._killed_for_memory = self._killed_for_memory + 1 if by_kernel else kills
        return Exit(message["ended"], message["code"], message["signal"], by_kernel)

    def _lose_all(self) -> list[Exit]:
        """Wait until the guards of a dead server have ended its jobs."""
        self._wait_for_guards()
        exits = [Exit(key, None, int(signal.SIGKILL)) for key in self._jobs]
        for key in self._jobs:
            self._devices.give_back(key)
        self._jobs.clear()
        self._pending = b""
        return exits

    def _wait_for_guards(self) -> None:
        # The server and the guards hold the other end of this pipe: it closes with the last one.
        deadline = time.monotonic() + END_LIMIT
        while self._selector.select(max(deadline - time.monotonic(), 0.0)):
            if not os.read(self._stdout, 1 << 16):
                return

    def _tell(self, message: dict[str, Any]) -> None:
        assert self._server.stdin is not None
        with suppress(BrokenPipeError):
            self._server.stdin.write(json.dumps(message).encode() + b"\n")
            self._server.stdin.flush()


def _early_end(code: int) -> str:
    """How a server ended that was still importing, and what to do, as text for a message."""
    if code >= 0:
        return f"ended with code {code} before it was ready; see its message above"
    return (
        f"was killed by signal {-code} ({signal.strsignal(-code)}) before it was ready; "
        "give the same command again, with more memory if that was short"
    )
