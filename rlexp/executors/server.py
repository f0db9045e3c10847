"""The warm server: imports all modules once, then forks a process for each job.

The server reads commands as JSON lines from standard input and writes events to standard output. At
the end of its input, or when the command is gone, it kills every job with all its processes and
exits. If the server is killed, the guards of the jobs end the jobs (`lifetime.py`). The server stays
single-threaded and touches no accelerator, so that a fork of it behaves like a fresh process.

Besides, the server masks secrets in the logs of jobs, limits the size of the logs, and requests a
stack dump from a job before it kills the job.
"""

import faulthandler
import gc
import importlib
import json
import math
import os
import select
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from rlexp.executors.jobs_in_turn import (
    BEGUN,
    Command,
    execute_in_turn,
    hand_over,
    read_reports,
    write_output_to,
)
from rlexp.executors.lifetime import (
    END_LIMIT,
    RETRY_EVERY,
    adopt_orphans,
    children,
    descendants,
    die_with,
    fork_under_guard,
    kill_guarded,
    kill_orphans,
    wake_with_parent,
)
from rlexp.executors.shared_processes import ServingProcess, ServingProcesses, inherit
from rlexp.store.locks.processes import Process
from rlexp.store.secrets import secret_values

BLOCK = 1 << 20
"""Bytes of a log that are searched at once."""


def secrets_of_process() -> tuple[bytes, ...]:
    """The values of secret environment variables, the longest first."""
    values = {os.fsencode(value) for value in secret_values(os.environ)}
    return tuple(sorted(values, key=lambda value: (-len(value), value)))


def overwrite(log: Path, start: int, secrets: Sequence[bytes]) -> int:
    """Overwrite secrets by asterisks in a log that a job may still append to.

    Args:
        log: The file.
        start: Where to begin: the result of the previous call, or 0.
        secrets: The secrets, the longest first.

    Returns:
        The position at which the next call should begin.

    Raises:
        OSError: The file cannot be read or written.
    """
    size = log.stat().st_size
    if not secrets or size == start:
        return size
    # The last call may have seen the first part of a secret only: begin slightly before its end.
    # A file that became shorter was capped, and is searched as a whole.
    overlap = len(secrets[0]) - 1
    begin = max(start - overlap, 0) if start <= size else 0
    with log.open("r+b") as file:
        for position in range(begin, size, BLOCK):
            file.seek(position)
            block = file.read(BLOCK + overlap)
            # In place and of equal length: the job appends to the same file meanwhile.
            for at, length in _occurrences(block, secrets):
                file.seek(position + at)
                file.write(b"*" * length)
            file.flush()
    return size


def _occurrences(block: bytes, secrets: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    for secret in secrets:
        at = block.find(secret)
        while at >= 0:
            yield at, len(secret)
            at = block.find(secret, at + 1)


DUMP = signal.SIGUSR2
"""The signal that requests a stack dump; schedulers and NCCL use SIGUSR1 already."""
DUMP_TIME = 0.2
"""Seconds that a stack dump takes at most."""


def ignore_dump_requests() -> None:
    """Ignore requests for a stack dump, in this process and in new forks of it."""
    signal.signal(DUMP, signal.SIG_IGN)


def dump_stacks_on_request() -> None:
    """Write the stacks of all threads to standard error at every request."""
    # `faulthandler` writes from the signal handler in C: it works while Python code hangs in a
    # library call.
    faulthandler.register(DUMP, all_threads=True)


def request_stack_dumps(guard: int) -> bool:
    """Request a stack dump from every process of a job that handles the signal.

    Args:
        guard: Process id of the job's guard.

    Returns:
        Whether a request was sent.
    """
    handlers = [pid for pid in descendants(guard) if _handles_dump_request(pid)]
    for pid in handlers:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, DUMP)
            # A stopped process (SIGSTOP) handles the signal only once it continues.
            os.kill(pid, signal.SIGCONT)
    return bool(handlers)


def _handles_dump_request(pid: int) -> bool:
    """Whether a process has a handler for the signal; without one, the signal would kill it."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        caught = next(line.split()[1] for line in lines if line.startswith("SigCgt:"))
    except (OSError, StopIteration, IndexError):
        return False
    # A bit mask in hexadecimal digits; signal numbers begin with 1.
    return bool(int(caught, 16) >> (DUMP - 1) & 1)


TICK = 0.25
"""Seconds between two looks at the logs."""
CAPPED = b"\n... the log was capped here ...\n"


@dataclass(slots=True)
class Child:
    """A running job, or a process that waits for its next job.

    Attributes:
        command: The job; the last one of a process that waits.
        commands: The descriptor that hands further jobs over; None for a process of one job.
        has_begun: Whether the job has begun.
        waits: Whether the process waits for its next job.
        asked_to_end: Whether the process was asked to end.
        kill_at: When to kill the job, on the monotonic clock.
        serving: The process that serves the job, if any.
        masked: Bytes of the log that were searched for secrets.
    """

    command: Command
    commands: int | None = None
    has_begun: bool = True
    waits: bool = False
    asked_to_end: bool = False
    kill_at: float = math.inf
    serving: ServingProcess | None = None
    masked: int = 0

    @property
    def key(self) -> str | None:
        """Key of the job; None while the process waits for one."""
        return None if self.waits else self.command["submit"]

    @property
    def serving_is_gone(self) -> bool:
        """Whether the process that served the job has ended."""
        return self.serving is not None and self.serving.is_gone

    @property
    def log(self) -> Path:
        """File for the output of the job."""
        return Path(self.command["log"])


class Server:
    """Forks jobs, reports their end, and masks and caps their logs."""

    def __init__(
        self,
        entry: Callable[[list[str]], int],
        log_limit: int,
        answers: int,
        waiting: Sequence[str] = (),
    ) -> None:
        """Serve with an entry, bytes kept of a log, a descriptor for answers, and late imports."""
        self._parent = os.getppid()
        self._entry = entry
        self._log_limit = log_limit
        self._answers = answers
        # What is imported before the first job in turn.
        self._waiting = list(waiting)
        # By the process id of the job's guard.
        self._children: dict[int, Child] = {}
        self._serving = ServingProcesses(self._fork_process)
        # Libraries may have started processes while they were imported.
        self._imported = children(os.getpid())
        self._pending = b""
        self._secrets = secrets_of_process()
        # The death of a child writes a byte here and so ends the wait in `serve` at once.
        self._wake, self._woken = os.pipe()
        os.set_blocking(self._woken, False)
        # Processes that execute jobs in turn report here.
        self._reported, self._reports = os.pipe()
        os.set_blocking(self._reported, False)

    def serve(self) -> None:
        """Execute commands until the input ends, then kill all jobs."""
        # A handler must be set: with the default action, SIGCHLD writes no byte to the pipe.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        # A fork can be asked for a dump before it has its handler: it must not die of it.
        ignore_dump_requests()
        with selectors.DefaultSelector() as selector:
            selector.register(0, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            selector.register(self._reported, selectors.EVENT_READ)
            self._answer({"ready": os.getpid()})
            while True:
                ready = {key.fd for key, _ in selector.select(self._seconds_to_next_task())}
                if self._wake in ready:
                    os.read(self._wake, 4096)
                # Before the dead are reported: a process may have ended its job, and died later.
                self._hear()
                self._reap()
                # A process that the command has forked may keep the input open.
                if os.getppid() != self._parent or (0 in ready and not self._read()):
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
            if not (command["in_turn"] and self._hand_over(command)):
                self._fork(command)
        else:
            for pid, child in self._children.items():
                if command["keys"] is not None and child.key not in command["keys"]:
                    continue
                if command["signal"] == signal.SIGKILL:
                    self._schedule_kill(pid, child)
                else:
                    # The guard passes the signal on to the job alone: to end in order, the job
                    # needs its subprocesses.
                    child.asked_to_end = True
                    with suppress(ProcessLookupError):
                        os.kill(pid, command["signal"])

    def _hand_over(self, command: Command) -> bool:
        """Give a job to a process that waits for one; returns whether there is one."""
        for pid, child in self._children.items():
            free = child.waits and not child.asked_to_end
            # A process stays with the one that serves it.
            if child.serving_is_gone or _serving(child.command) != _serving(command):
                continue
            if free and child.commands is not None and hand_over(command, child.commands):
                self._children[pid] = Child(
                    command, child.commands, has_begun=False, serving=child.serving
                )
                return True
        return False

    def _hear(self) -> None:
        """Take note of the jobs that began or ended in processes which execute jobs in turn."""
        by_key = {child.key: child for child in self._children.values()}
        for what, key in read_reports(self._reported):
            child = by_key[key]
            if what == BEGUN:
                child.has_begun = True
            else:
                self._tend(child)
                child.waits, child.kill_at = True, math.inf
                self._answer({"ended": key, "code": 0, "signal": None})

    def _fork(self, command: Command) -> None:
        if (command["in_turn"] or command["shares"]) and self._waiting:
            for name in self._waiting:
                _import_one(name)
            self._waiting = []
            _freeze()
        further, commands = os.pipe() if command["in_turn"] else (None, None)
        seat = self._serving.seat(command)
        child = Child(command, commands, serving=None if seat is None else seat[0])

        def execute() -> int:
            os.environ.update(command["variables"])
            if seat is not None:
                inherit(command, seat[1])
            if further is None:
                return self._entry(command["arguments"])
            return execute_in_turn(self._entry, command, further, self._reports)

        guard = self._fork_process(child.log, execute, tidy=lambda: self._tend(child))
        if further is not None:
            os.close(further)
        if seat is not None:
            seat[1].close()
        self._children[guard] = child

    def _fork_process(
        self, log: Path, execute: Callable[[], int], tidy: Callable[[], object] = lambda: None
    ) -> int:
        """Execute a function in a process whose output goes to a log; returns the id of its guard."""
        server = os.getpid()
        # The server ignores SIGTERM, and a fork inherits that. A SIGTERM that reaches the fork
        # before it has reset the action would be lost and the job would run on: block it until
        # then.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        pid = os.fork()
        if pid == 0:
            # `os._exit` and not `sys.exit`: the fork must not run the server's own clean-up.
            code = 70
            try:
                self._become_guard()
                fork_under_guard(server, tidy=tidy)
                self._become(log)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
                code = execute()
            except BaseException:  # noqa: BLE001
                traceback.print_exc()
            finally:
                with suppress(OSError, ValueError):
                    sys.stdout.flush()
                    sys.stderr.flush()
                os._exit(code)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        return pid

    def _become_guard(self) -> None:
        """Turn a fork of the server into the guard of a job, without the server's pipes.

        The guard keeps the answers open: the command can wait for the end of all guards.
        """
        # A signal to the group of the server must not reach the guards, which outlive the server.
        os.setsid()
        signal.set_wakeup_fd(-1)
        os.close(self._wake)
        os.close(self._woken)
        os.close(self._reported)
        for child in self._children.values():
            if child.commands is not None:
                os.close(child.commands)
        self._serving.close_in_fork()
        null_device = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null_device, 0)
        os.close(null_device)

    def _become(self, log: Path) -> None:
        """Turn a fork of a guard into a job with a separate session and output."""
        # A session is also a process group: `killpg` reaches the job and its subprocesses.
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.close(self._answers)
        write_output_to(log)
        faulthandler.enable()
        dump_stacks_on_request()

    def _reap(self) -> None:
        ended = 0
        with suppress(ChildProcessError):
            while (reaped := os.waitpid(-1, os.WNOHANG))[0]:
                ended += 1
                if reaped[0] in self._children:
                    # It may have reported the begin of its job since `serve` listened.
                    self._hear()
                    self._bury(self._children.pop(reaped[0]), reaped[1])
                elif self._serving.bury(reaped[0]):
                    self._end_waiting()
        # The processes of a job whose guard was killed are children of the server now.
        if ended:
            kill_orphans({*self._children, *self._serving.processes, *self._imported})

    def _end_waiting(self) -> None:
        """End the processes that wait for a job, and whose serving process is gone."""
        for child in self._children.values():
            if child.waits and child.serving_is_gone and child.commands is not None:
                # The end of its commands ends such a process.
                os.close(child.commands)
                child.commands = None

    def _bury(self, child: Child, status: int) -> None:
        """Report the job of a process that has ended."""
        if child.commands is not None:
            os.close(child.commands)
        if child.serving is not None:
            child.serving.jobs -= 1
        if child.waits:
            return
        # The process died between two jobs: the next one is innocent, and has not begun.
        if not (child.has_begun or child.asked_to_end) and child.kill_at == math.inf:
            self._fork(child.command)
            return
        self._report(child, status)

    def _report(self, child: Child, status: int) -> None:
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
        """Mask the secrets in a log, and limit its size."""
        with suppress(OSError):
            child.masked = overwrite(child.log, child.masked, self._secrets)
            if child.log.stat().st_size > self._log_limit:
                self._cap(child.log)
                child.masked = overwrite(child.log, 0, self._secrets)

    def _cap(self, log: Path) -> None:
        """Cut the middle of a log: keep its first half and its last quarter of the limit."""
        with log.open("r+b") as file:
            file.seek(-self._log_limit // 4, os.SEEK_END)
            end = file.read()
            file.truncate(self._log_limit // 2)
        with log.open("ab") as file:
            file.write(CAPPED + end)

    def _schedule_kill(self, pid: int, child: Child) -> None:
        """Request a stack dump from the job, and kill the job shortly after."""
        if child.kill_at == math.inf:
            delay = DUMP_TIME if request_stack_dumps(pid) else 0.0
            child.kill_at = time.monotonic() + delay

    def _seconds_to_next_task(self) -> float:
        """Seconds until the next scheduled kill, or the next look at the logs."""
        due = min((child.kill_at for child in self._children.values()), default=math.inf)
        return min(max(due - time.monotonic(), 0.0), TICK)

    def _kill_due(self) -> None:
        for pid, child in self._children.items():
            if child.kill_at <= time.monotonic():
                kill_guarded(pid)
                # Again until it is reaped: the first kill may come before the guard has forked.
                child.kill_at = time.monotonic() + TICK

    def _kill_all(self) -> None:
        deadline = time.monotonic() + END_LIMIT
        while children(os.getpid()) - self._imported and time.monotonic() < deadline:
            for pid in (*self._children, *self._serving.processes):
                kill_guarded(pid)
            time.sleep(RETRY_EVERY)
            self._reap()

    def _answer(self, message: dict[str, Any]) -> None:
        with suppress(BrokenPipeError):
            os.write(self._answers, json.dumps(message).encode() + b"\n")


def _serving(command: Command) -> tuple[Any, ...]:
    """What the process that serves a job depends on; empty for a job that none serves."""
    shares = command["shares"]
    return () if shares is None else (shares, command["variables"])


def _import(preload: Sequence[str]) -> list[str]:
    """Import modules, and return the names that wait for the first job in turn."""
    hidden = [name.removeprefix("!") for name in preload if name.startswith("!")]
    # None in `sys.modules` makes an import fail: libraries then go without the optional module.
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]
    for name in preload:
        if not name.startswith(("!", "@")):
            _import_one(name)
    # A job may import the hidden modules itself.
    for name in hidden:
        del sys.modules[name]
    return [name.removeprefix("@") for name in preload if name.startswith("@")]


def _import_one(name: str) -> None:
    """Import a module; of `MODULE:FUNCTION`, call the function."""
    module, _, function = name.partition(":")
    imported = importlib.import_module(module)
    if function:
        getattr(imported, function)()


def _freeze() -> None:
    """Let the garbage collector of a fork leave all present objects alone.

    It would touch, and so copy, all memory that the fork shares with the server.
    """
    gc.collect()
    gc.freeze()


def _die_with_command(command: Process) -> None:
    """Let the kernel kill this process with the command, which may be dead already."""
    die_with(os.getppid())
    # The parent is no sign: the Python interpreter may be a program that starts another one.
    if command.is_gone():
        os._exit(0)
    # Where the system does not show processes: a dead command has closed its end of the input,
    # unless a process that it has forked keeps that end open.
    poll = select.poll()
    poll.register(0, 0)
    if any(event & select.POLLHUP for _, event in poll.poll(0)):
        os._exit(0)


def main(entry: str, log_limit: str, folder: str, command: str, *preload: str) -> None:
    """Import all modules, then serve.

    Args:
        entry: The function that executes a job, as `module:function`.
        log_limit: Bytes that are kept of each job's output.
        folder: The user's folder; importable, after all installed packages.
        command: The process that started the server, as JSON.
        preload: Modules to import before the first fork; of `MODULE:FUNCTION`, the function is
            called, too. A name after a `!` is hidden from them while they are imported. A name after
            an `@` is imported before the first job that is executed in turn.
    """
    # Before the imports, which take seconds: until they are done, nothing reads the input.
    _die_with_command(Process.from_plain(json.loads(command)))
    adopt_orphans()
    # Libraries print while they are imported: their output must not mix with the JSON events.
    answers = os.dup(1)
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A scheduler sends SIGTERM to every process; the server must live until its jobs have ended.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.path.append(folder)
    # Imports allocate several hundred thousand objects, of which some thousand become garbage. Searching
    # for it takes a quarter of the time of all imports, and would free a megabyte.
    gc.disable()
    waiting = _import(preload)
    module, _, function = entry.partition(":")
    execute = getattr(importlib.import_module(module), function)
    server = Server(execute, int(log_limit), answers, waiting)
    # The garbage collector of a job would touch, and so copy, all memory that it shares with the
    # server: frozen objects are left alone.
    gc.freeze()
    gc.enable()
    # From now on the server notices the end of the command itself, and ends the jobs in order.
    wake_with_parent()
    server.serve()


def end_at_once() -> NoReturn:
    """End this process without the clean-up of the interpreter and of libraries.

    Frozen objects are never freed. At a clean-up, a library that counts its objects would report
    them on the user's terminal: `torch._dynamo` imports Triton, whose bindings do. The command waits
    for this process, and taking down all imported modules takes longer than the rest of its end.
    """
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
    end_at_once()
