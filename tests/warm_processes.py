"""Python processes that are forked from a warm process, which has imported slow modules already.

`Warm.Popen` replaces `subprocess.Popen` where a command of Python is started. After `warm_up` for a
module of rlexp, the module still starts separate processes, but they import nothing again.
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import IO, Any, NoReturn, Self

import pytest

RUNS = (
    *("torch", "stable_baselines3", "sb3_contrib", "torch._dynamo", "rlexp.algorithms.ppo"),
    *("gymnasium.envs.classic_control", "rlexp.environments.gymnasium_task", "rlexp.agents.mlp"),
    *("hydra", "jinja2", "optuna", "optuna.samplers", "optuna.storages", "pydantic"),
    *("scipy.special", "scipy.stats", "rlexp.config.compose", "rlexp.cli.every_command"),
    *("rlexp.app.execution.run_process", "rlexp.app.execution.launch"),
    *("rlexp.app.execution.preparation", "rlexp.app.reporting.mirror_entry"),
    *("rlexp.app.commands.train.run", "rlexp.app.commands.train.sweep"),
    *("rlexp.app.commands.train.worker", "rlexp.app.commands.look.list_runs"),
    *("rlexp.app.commands.look.status", "rlexp.app.commands.judge.report"),
    *("rlexp.app.commands.judge.compare", "rlexp.app.commands.judge.evaluate"),
    "rlexp.app.commands.exchange.reproduce",
)
"""Modules that runs and most commands import."""
MIRRORS = (
    *("rlexp.app.reporting.mirror_entry", "tensorboard.compat.proto.event_pb2"),
    *("tensorboard.summary.writer.record_writer", "tensorboard.plugins.hparams.summary_v2"),
)
"""Modules that mirrors to TensorBoard import."""
PID = "pid "
TENSORBOARD = "tensorboard"
"""Module that stable-baselines3 must not import, as in rlexp; code that needs it imports it."""


class Forked:
    """A forked process with the part of `subprocess.Popen` that rlexp uses.

    Processes that the modules named by `warm` start in it are forks, too.
    """

    def __init__(
        self,
        parent: "Warm",
        command: Sequence[str],
        *,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        text: bool = False,
        start_new_session: bool = False,
        warm: Sequence[str] = (),
    ) -> None:
        self.args = command
        self._code: int | None = None
        self.stdin: IO[Any] | None = None
        self.stdout: IO[Any] | None = None
        self.stderr: IO[Any] | None = None
        self._status, status = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        to_close: list[int] = [status.fileno()]
        child_descriptors: list[int] = []
        for number, (name, kind) in enumerate(
            (("stdin", stdin), ("stdout", stdout), ("stderr", stderr))
        ):
            if kind == subprocess.PIPE:
                reading, writing = os.pipe()
                child_end, parent_end = (reading, writing) if number == 0 else (writing, reading)
                mode = ("w" if number == 0 else "r") + ("" if text else "b")
                setattr(self, name, os.fdopen(parent_end, mode))
                to_close.append(child_end)
            elif kind == subprocess.STDOUT:
                child_end = child_descriptors[1]
            elif kind == subprocess.DEVNULL:
                child_end = os.open(os.devnull, os.O_RDWR)
                to_close.append(child_end)
            else:
                child_end = number if kind is None else kind
            child_descriptors.append(child_end)
        request = {
            "words": list(map(str, command[1:])),
            "environment": dict(os.environ if env is None else env),
            "folder": str(cwd or Path.cwd()),
            "session": start_new_session,
            "warm": list(warm),
        }
        parent.ask(request, [*child_descriptors, status.fileno()])
        status.detach()
        for descriptor in to_close:
            os.close(descriptor)
        answer = self._status.recv(64).decode()
        assert answer.startswith(PID), f"it did not start: exit code {answer}"
        self.pid = int(answer.removeprefix(PID))

    @property
    def returncode(self) -> int | None:
        """The exit code, or None before the process has ended."""
        return self._code

    def poll(self) -> int | None:
        """The exit code, or None while the process runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the process ends; returns its exit code."""
        if self._code is None:
            self._status.settimeout(None if timeout is None else max(timeout, 1e-6))
            try:
                self._code = int(self._status.recv(64))
            except TimeoutError:
                raise subprocess.TimeoutExpired(list(self.args), timeout or 0.0) from None
            self._status.close()
        return self._code

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Everything that the process prints to its only piped output; it gets no input."""
        assert self.stdout is None or self.stderr is None
        outputs = []
        for stream in (self.stdout, self.stderr):
            outputs.append("" if stream is None else stream.read())
            if stream is not None:
                stream.close()
        self.wait(timeout)
        return outputs[0], outputs[1]

    def send_signal(self, number: int) -> None:
        """Send a signal if the process has not ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process."""
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()


class Warm:
    """Replaces the module `subprocess` in a module, whose processes are then forks."""

    PIPE, STDOUT, DEVNULL = subprocess.PIPE, subprocess.STDOUT, subprocess.DEVNULL
    TimeoutExpired = subprocess.TimeoutExpired

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def Popen(self, command: Sequence[str], **settings: Any) -> Forked:  # noqa: N802
        """Start a command of Python as a fork."""
        return Forked(self, command, **settings)

    def ask(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        """Request a fork from the warm process."""
        socket.send_fds(self._channel, [json.dumps(request).encode()], descriptors)


def warm_process(preload: Sequence[str] = RUNS) -> Warm:
    """The process that has imported these modules and ends with the current process."""
    return _start(tuple(preload))


@cache
def _start(preload: Sequence[str]) -> Warm:
    # Not at the top, which the warm process executes without the folder of the tests.
    from probes_left_out import LIMIT, MODULE

    parent_end, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # With one thread, the imports start no thread pool, which a fork would break.
    variables = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    with child_end:
        process = subprocess.Popen(
            [
                *(sys.executable, "-P", __file__, str(child_end.fileno())),
                *(json.dumps({MODULE: LIMIT}), *preload),
            ],
            stdin=subprocess.DEVNULL,
            env={**os.environ, **dict.fromkeys(variables, "1")},
            pass_fds=[child_end.fileno()],
        )

    def close() -> None:
        parent_end.close()
        process.wait()

    atexit.register(close)
    return Warm(parent_end)


def warm_up(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, preload: Sequence[str] = RUNS
) -> None:
    """Let a module fork its processes from a warm process."""
    monkeypatch.setattr(module, "subprocess", warm_process(preload))


def _serve(channel: socket.socket) -> dict[str, Any] | None:
    """Fork on request until the channel is closed; returns in a fork with its request."""
    wake_reader, wake_writer = os.pipe()
    os.set_blocking(wake_writer, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
    status: dict[int, int] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(channel, selectors.EVENT_READ)
        selector.register(wake_reader, selectors.EVENT_READ)
        while True:
            ready_descriptors = {key.fd for key, _ in selector.select()}
            if wake_reader in ready_descriptors:
                os.read(wake_reader, 4096)
            for pid in list(status):
                ended_pid, code = os.waitpid(pid, os.WNOHANG)
                if ended_pid:
                    with suppress(OSError):
                        os.write(status[pid], str(os.waitstatus_to_exitcode(code)).encode())
                    os.close(status.pop(pid))
            if channel.fileno() not in ready_descriptors:
                continue
            content, descriptors, _, _ = socket.recv_fds(channel, 1 << 20, 4)
            if not content:
                return None
            request: dict[str, Any] = json.loads(content)
            if (pid := os.fork()) == 0:
                for unused in (wake_reader, wake_writer, *status.values()):
                    os.close(unused)
                channel.close()
                _become(request, descriptors)
                return request
            status[pid] = descriptors[-1]
            for descriptor in descriptors[:-1]:
                os.close(descriptor)


def _become(request: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    """Turn a fork into a process like one that `subprocess` starts."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if request["session"]:
        os.setsid()
    _draw_anew()
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for number, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, number)
    for descriptor in descriptors[:3]:
        os.close(descriptor)
    os.write(descriptors[3], f"{PID}{os.getpid()}".encode())
    os.close(descriptors[3])


def _warm_inside(names: Sequence[str]) -> dict[str, Any] | None:
    """Fork a warm process for modules of the current process; returns in its forks."""
    parent_end, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        parent_end.close()
        null_device = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null_device, number)
        if (request := _serve(child_end)) is None:
            os._exit(0)
        return request
    child_end.close()
    for name in names:
        vars(importlib.import_module(name))["subprocess"] = Warm(parent_end)
    return None


def _draw_anew() -> None:
    """Seed the generators of libraries from the system, because forks would share their state."""
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    if "torch" in sys.modules:
        sys.modules["torch"].seed()


def _run(words: Sequence[str]) -> None:
    """Execute what `python` would execute with these arguments."""
    remaining = list(words)
    safe = remaining[0] == "-P"
    option, target, *arguments = remaining[1:] if safe else remaining
    search_path = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    sys.path[:0] = (
        search_path if safe else ["" if option == "-c" else str(Path.cwd()), *search_path]
    )
    if option == "-c":
        sys.argv = ["-c", *arguments]
        exec(compile(target, "<string>", "exec"), {"__name__": "__main__"})
    else:
        assert option == "-m"
        sys.argv = [target, *arguments]
        runpy.run_module(target, run_name="__main__", alter_sys=True)


def _outcome(words: Sequence[str]) -> int:
    """Execute these arguments; returns the exit code that the interpreter would give."""
    try:
        _run(words)
    except SystemExit as ending:
        if isinstance(ending.code, str):
            sys.stderr.write(f"{ending.code}\n")
        return ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
        return 1
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
        return 1
    return 0


def _end(code: int) -> NoReturn:
    """Exit as the interpreter does, without destroying imported modules."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    _, number, changed, *preloaded = sys.argv
    if hides_tensorboard := not any(name.startswith(TENSORBOARD) for name in preloaded):
        sys.modules[TENSORBOARD] = None  # type: ignore[assignment]
    for imported in preloaded:
        importlib.import_module(imported)
    if hides_tensorboard:
        del sys.modules[TENSORBOARD]
    for module, values in json.loads(changed).items():
        if module in sys.modules:
            vars(sys.modules[module]).update(values)
    gc.collect()
    gc.freeze()
    request_of_fork = _serve(socket.socket(fileno=int(number)))
    if request_of_fork is not None and request_of_fork["warm"]:
        request_of_fork = _warm_inside(request_of_fork["warm"]) or request_of_fork
    if request_of_fork is not None:
        _end(_outcome(request_of_fork["words"]))
