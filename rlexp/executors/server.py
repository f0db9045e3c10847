"""The warm server: imports once, then forks a fresh process for each job.

It reads commands as JSON lines from standard input and writes what happens to standard output.
At the end of its input, however that came about, it kills every job's process group and exits:
nothing outlives the command that started it. It stays single-threaded and touches no
accelerator, so that a fork of it is as good as a fresh process.
"""

import faulthandler
import gc
import importlib
import json
import math
import os
import selectors
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlexp.store.secrets import secret_values

BLOCK = 1 << 20
"""Bytes that are looked at at once."""


def secrets_of_process() -> tuple[bytes, ...]:
    """What no output may keep: the values of secret variables, the longest first."""
    values = {os.fsencode(value) for value in secret_values(os.environ)}
    return tuple(sorted(values, key=lambda value: (-len(value), value)))


def overwrite(log: Path, start: int, secrets: Sequence[bytes]) -> int:
    """Overwrite secrets in a file that may still be appended to, each by as many asterisks.

    Args:
        log: The file.
        start: Where to begin: what an earlier call returned.
        secrets: The longest first.

    Returns:
        Where the next call is to begin.

    Raises:
        OSError: The file cannot be read or written.
    """
    size = log.stat().st_size
    if not secrets or size == start:
        return size
    # What was cut off by the last look may end now; a file that became shorter is another one.
    overlap = len(secrets[0]) - 1
    begin = max(start - overlap, 0) if start <= size else 0
    with log.open("r+b") as file:
        for position in range(begin, size, BLOCK):
            file.seek(position)
            block = file.read(BLOCK + overlap)
            for at, length in _found(block, secrets):
                file.seek(position + at)
                file.write(b"*" * length)
            file.flush()
    return size


def _found(block: bytes, secrets: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    for secret in secrets:
        at = block.find(secret)
        while at >= 0:
            yield at, len(secret)
            at = block.find(secret, at + 1)


ASK = signal.SIGUSR2
"""Asks a process for the stacks of all its threads; USR1 is taken by schedulers and NCCL."""
TIME = 0.2
"""Seconds that they take at most."""


def ignore_questions() -> None:
    """Survive being asked, as this process and its forks until they can answer."""
    signal.signal(ASK, signal.SIG_IGN)


def answer_questions() -> None:
    """Write the stacks of all threads to standard error when asked, whatever they are doing."""
    faulthandler.register(ASK, all_threads=True)


def ask(session: int) -> bool:
    """Ask every process of a session that can answer; a stopped one is woken for it.

    Args:
        session: Number of the session, which is that of the process that began it.

    Returns:
        Whether anyone was asked.
    """
    asked = [pid for pid in _members(session) if _answers(pid)]
    for pid in asked:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, ASK)
            os.kill(pid, signal.SIGCONT)
    return bool(asked)


def _members(session: int) -> list[int]:
    found = []
    with suppress(FileNotFoundError):
        for folder in Path("/proc").iterdir():
            with suppress(ValueError, ProcessLookupError, PermissionError):
                if os.getsid(int(folder.name)) == session:
                    found.append(int(folder.name))
    return found


def _answers(pid: int) -> bool:
    """Whether a process handles the question: others would die of it."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        caught = next(line.split()[1] for line in lines if line.startswith("SigCgt:"))
    except (OSError, StopIteration, IndexError):
        return False
    return bool(int(caught, 16) >> (ASK - 1) & 1)


TICK = 0.25
"""Seconds between looks at the logs."""
CAPPED = b"\n... the log was capped here ...\n"


@dataclass(slots=True)
class Child:
    """A running job."""

    key: str
    log: Path
    kill_at: float = math.inf
    masked: int = 0
    """Bytes of the log that were looked through for secrets."""


class Server:
    """Forks jobs, reaps them, and keeps their logs within bounds."""

    def __init__(self, entry: Callable[[list[str]], int], log_limit: int, answers: int) -> None:
        self._entry = entry
        self._log_limit = log_limit
        self._answers = answers
        self._children: dict[int, Child] = {}
        self._pending = b""
        self._secrets = secrets_of_process()
        self._lifeline, self._held_end = os.pipe()
        self._wake, self._woken = os.pipe()
        os.set_blocking(self._woken, False)

    def serve(self) -> None:
        """Serve until the input ends."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        ignore_questions()
        with selectors.DefaultSelector() as selector:
            selector.register(0, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            self._answer({"ready": os.getpid()})
            while True:
                ready = {key.fd for key, _ in selector.select(self._patience())}
                if self._wake in ready:
                    os.read(self._wake, 4096)
                self._reap()
                if 0 in ready and not self._read():
                    break
                self._kill_due()
                self._tend_logs()
        self._kill_all()

    def _read(self) -> bool:
        content = os.read(0, 1 << 16)
        *lines, self._pending = (self._pending + content).split(b"\n")
        for line in lines:
            self._obey(json.loads(line))
        return bool(content)

    def _obey(self, command: dict[str, Any]) -> None:
        if "submit" in command:
            self._fork(command)
        else:
            for pid, child in self._children.items():
                if command["keys"] is not None and child.key not in command["keys"]:
                    continue
                if command["signal"] == signal.SIGKILL:
                    self._condemn(pid, child)
                else:
                    # Only the job itself is asked: it still needs the processes it started.
                    with suppress(ProcessLookupError):
                        os.kill(pid, command["signal"])

    def _fork(self, command: dict[str, Any]) -> None:
        key, log = command["submit"], Path(command["log"])
        # The server ignores SIGTERM. One that reaches the fork before it has become a job has to
        # wait until then: a request to end would be lost, and the job would run on.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                os.environ.update(command["variables"])
                self._become(log)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
                code = self._entry(command["words"])
            except BaseException:  # noqa: BLE001
                traceback.print_exc()
            finally:
                with suppress(OSError, ValueError):
                    sys.stdout.flush()
                    sys.stderr.flush()
                os._exit(code)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        self._children[pid] = Child(key, log)
        self._answer({"started": key, "pid": pid})

    def _become(self, log: Path) -> None:
        """Turn a fork of the server into a job: a session, an output and a lifeline of its own."""
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for descriptor in (self._held_end, self._wake, self._woken, self._answers):
            os.close(descriptor)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        os.close(nothing)
        faulthandler.enable()
        answer_questions()
        threading.Thread(target=self._die_with_server, daemon=True).start()

    def _die_with_server(self) -> None:
        os.read(self._lifeline, 1)
        os.killpg(0, signal.SIGKILL)

    def _reap(self) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            child = self._children.pop(pid, None)
            if child is None:
                continue
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
            self._tend(child)
            code = os.waitstatus_to_exitcode(status)
            self._answer(
                {
                    "ended": child.key,
                    "code": code if code >= 0 else None,
                    "signal": -code if code < 0 else None,
                },
            )

    def _tend_logs(self) -> None:
        for child in self._children.values():
            self._tend(child)

    def _tend(self, child: Child) -> None:
        """Keep a log free of secrets, and within bounds."""
        with suppress(OSError):
            child.masked = overwrite(child.log, child.masked, self._secrets)
            if child.log.stat().st_size > self._log_limit:
                self._cap(child.log)
                child.masked = overwrite(child.log, 0, self._secrets)

    def _cap(self, log: Path) -> None:
        with log.open("r+b") as file:
            file.seek(-self._log_limit // 4, os.SEEK_END)
            end = file.read()
            file.truncate(self._log_limit // 2)
        with log.open("ab") as file:
            file.write(CAPPED + end)

    def _condemn(self, pid: int, child: Child) -> None:
        """Let a job say where it stands, and kill it then."""
        if child.kill_at == math.inf:
            patience = TIME if ask(pid) else 0.0
            child.kill_at = time.monotonic() + patience

    def _patience(self) -> float:
        """Seconds until something is to be done that nobody asks for."""
        due = min((child.kill_at for child in self._children.values()), default=math.inf)
        return min(max(due - time.monotonic(), 0.0), TICK)

    def _kill_due(self) -> None:
        for pid, child in self._children.items():
            if child.kill_at <= time.monotonic():
                self._kill(pid)
                child.kill_at = time.monotonic() + TICK

    def _kill_all(self) -> None:
        for pid in self._children:
            self._kill(pid)
        for pid in self._children:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        self._tend_logs()

    @staticmethod
    def _kill(pid: int) -> None:
        """Kill a job that has not been reaped: its group, or itself before it has made one."""
        with suppress(ProcessLookupError, PermissionError):
            try:
                os.killpg(pid, signal.SIGKILL)
            except ProcessLookupError:
                os.kill(pid, signal.SIGKILL)

    def _answer(self, message: dict[str, Any]) -> None:
        with suppress(BrokenPipeError):
            os.write(self._answers, json.dumps(message).encode() + b"\n")


def _import(preload: Sequence[str]) -> None:
    hidden = [name.removeprefix("!") for name in preload if name.startswith("!")]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]
    for name in preload:
        if not name.startswith("!"):
            importlib.import_module(name)
    # A job that wants it can have it.
    for name in hidden:
        del sys.modules[name]


def main(entry: str, log_limit: str, folder: str, *preload: str) -> None:
    """Import everything, then serve.

    Args:
        entry: The function that executes a job, as `module:function`.
        log_limit: Bytes of output kept of each job.
        folder: The study's folder; importable, after everything that is installed.
        preload: Modules to import before the first fork; one after a `!` is kept from being
            imported by them.
    """
    answers = os.dup(1)
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A scheduler tells every process of a job; this one goes on until its runs have ended.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.path.append(folder)
    _import(preload)
    module, _, function = entry.partition(":")
    server = Server(getattr(importlib.import_module(module), function), int(log_limit), answers)
    gc.collect()
    gc.freeze()
    server.serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
