"""Processes on this machine, forked from a warm server."""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt

from rlexp.errors import ExecutorError
from rlexp.executors import Exit, Job
from rlexp.executors.devices import Devices, found
from rlexp.executors.memory import out_of_memory_kills
from rlexp.store.provenance import usable_cores

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
START_LIMIT = 300.0
"""Seconds that the server may take to import everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """Runs as processes of this machine: as many at a time as its cores hold."""

    workers: Annotated[int, Ge(1)] | Literal["auto"]
    hang_timeout: Annotated[float, Gt(0)]
    grace: Annotated[float, Gt(0)]
    log_limit: Annotated[int, Ge(10_000)]
    devices: list[str | int] | Literal["auto"] | None = None
    runs_per_device: Annotated[int, Ge(1)] = 1

    def workers_for(self, threads: int) -> int:
        """How many runs of so many threads fill the machine, or as many as were asked for.

        Where runs get devices, as many as these hold at most.
        """
        by_cores = max(1, usable_cores() // threads) if self.workers == "auto" else self.workers
        devices = self._devices()
        return min(by_cores, devices.slots) if devices.names else by_cores

    def _devices(self) -> Devices:
        names = found() if self.devices == "auto" else [str(name) for name in self.devices or ()]
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
        """Start the server; when the context ends, so does everything it started."""
        # Imported with one thread, the server holds no thread pool that a fork would break.
        variables = dict.fromkeys(THREAD_VARIABLES, "1")
        command = [
            *(sys.executable, "-P", "-m", "rlexp.executors.server"),
            *(entry, str(self.log_limit), str(folder), *preload),
        ]
        session = LocalSession(
            command, {**os.environ, **variables}, self.workers_for(threads), self._devices()
        )
        try:
            yield session
        finally:
            session.close()


class LocalSession:
    """A server and its jobs."""

    def __init__(
        self, command: list[str], environment: dict[str, str], slots: int, devices: Devices
    ) -> None:
        self.slots = slots
        self._devices = devices
        self._command = command
        self._environment = environment
        self._pids: dict[str, int | None] = {}
        self._pending = b""
        self._lost: list[Exit] = []
        self._killed_for_memory = out_of_memory_kills()
        self._start()

    def _start(self) -> None:
        self._server = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
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

    def submit(self, job: Job) -> None:
        """Start a job; the first waits until the server has imported everything."""
        if self._server.poll() is not None:
            self._lost += self._lose_all()
            self._release()
            self._start()
        self._wait_until_ready()
        self._pids[job.key] = None
        self._tell(
            {
                "submit": job.key,
                "words": list(job.words),
                "log": str(job.log),
                "variables": self._devices.take(job.key),
            }
        )

    def poll(self, seconds: float) -> list[Exit]:
        """Wait up to so many seconds for jobs to end; returns those that did."""
        exits, self._lost = self._lost, []
        for message in self._messages(seconds):
            if "started" in message:
                self._pids[message["started"]] = message["pid"]
            elif "ended" in message:
                self._pids.pop(message["ended"], None)
                self._devices.give_back(message["ended"])
                exits.append(self._exit(message))
        if self._server.poll() is not None and self._pids:
            exits.extend(self._lose_all())
        return exits

    def stop(self) -> None:
        """Ask every job to end itself."""
        self._tell({"signal": int(signal.SIGTERM), "keys": None})

    def kill(self, key: str) -> None:
        """End a job and everything it started, once its log says where they stood."""
        self._tell({"signal": int(signal.SIGKILL), "keys": [key]})

    def close(self) -> None:
        """End the server and with it every job."""
        assert self._server.stdin is not None
        with suppress(OSError):
            self._server.stdin.close()
        try:
            self._server.wait(1.0)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._lose_all()
            self._server.wait()
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
            self._ready = any("ready" in message for message in self._messages(0.2))
            if self._server.poll() is not None:
                raise ExecutorError(
                    f"the server that starts runs ended with code {self._server.returncode} "
                    "before it was ready; see its message above",
                )
            if time.monotonic() > deadline:
                raise ExecutorError(
                    f"the server that starts runs was not ready in {START_LIMIT:g} s"
                )

    def _messages(self, seconds: float) -> list[dict[str, Any]]:
        if not self._selector.select(seconds):
            return []
        content = os.read(self._stdout, 1 << 16)
        if not content:
            # The end of the stream comes before the process can be waited for.
            with suppress(subprocess.TimeoutExpired):
                self._server.wait(1.0)
        *lines, self._pending = (self._pending + content).split(b"\n")
        return [json.loads(line) for line in lines]

    def _exit(self, message: dict[str, Any]) -> Exit:
        kills = out_of_memory_kills()
        by_kernel = message["signal"] == signal.SIGKILL and kills > self._killed_for_memory
        # Of several that were killed at once, each accounts for one.
        self._killed_for_memory = self._killed_for_memory + 1 if by_kernel else kills
        return Exit(message["ended"], message["code"], message["signal"], by_kernel)

    def _lose_all(self) -> list[Exit]:
        """The server is gone: end what it left behind, which its lifeline may not have reached."""
        for pid in self._pids.values():
            if pid is not None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
        exits = [Exit(key, None, int(signal.SIGKILL)) for key in self._pids]
        for key in self._pids:
            self._devices.give_back(key)
        self._pids.clear()
        self._pending = b""
        return exits

    def _tell(self, command: dict[str, Any]) -> None:
        assert self._server.stdin is not None
        with suppress(BrokenPipeError):
            self._server.stdin.write(json.dumps(command).encode() + b"\n")
            self._server.stdin.flush()
