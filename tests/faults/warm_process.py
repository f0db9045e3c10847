"""Commands in forks of a process that has imported everything: each starts in milliseconds.

The command line, its processes and its files are the real ones. Only the start of a new
interpreter is left out, for the command and for the server that its runs are forked from.
`/proc/*/cmdline` and `environ` are those of the warm process.

A fork waits until it may begin, so that strace can be attached to it.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, Self

HERE = Path(__file__).parent
USE_CASES = (
    *(
        "train.run",
        "train.resume",
        "train.sweep",
        "train.worker",
        "look.status",
        "train.cancel",
        "exchange.verify",
        "judge.compare_adaptive",
    ),
    *(
        "judge.compare",
        "look.diff",
        "judge.evaluate",
        "look.logs",
        "look.list_runs",
        "order.remove",
        "judge.report",
        "look.show",
        "order.sync",
    ),
)
"""Modules of `rlexp.app.commands` that commands import."""
LIBRARIES = (
    *("jinja2", "pydantic", "scipy.special", "scipy.stats", "gymnasium.envs.classic_control"),
    *("optuna.storages", "optuna.samplers", "rlexp.algorithms.ppo", "rlexp.cli.every_command"),
    *("rlexp.app.execution.launch", "rlexp.app.execution.preparation"),
)
"""Further modules that these import when they need them."""
STORE = ("rlexp.store.registers.ledger", "writings", "checkpoint_samples")
"""Modules of programs that write below `runs/`."""
WAITS = {
    "rlexp.app.commands.train.worker": ("EVERY", 0.2),
    "rlexp.engine.remote_loop": ("LOOK_EVERY", 0.2),
    "rlexp.engine.loop": ("LOOK_EVERY", 0.2),
    "rlexp.app.execution.run_process": ("CLOSE_LIMIT", 1.0),
    "rlexp.executors.server": ("DUMP_TIME", 0.6),
}
"""Seconds between checks for what other processes have done, and two time limits.

No promise depends on them. The last limit is longer than usual, because of busy machines.
"""
Kind = Literal["full", "quick", "script"]
PR_SET_PTRACER = 0x59616D61
"""Lets any process trace this one, where the system allows only ancestors to do so."""
LARGEST = 1 << 17
"""Maximum bytes of a request: arguments and environment."""


class ForkedCommand(subprocess.Popen[str]):
    """A command that a warm process forked; used like a started process."""

    def __init__(self, args: Sequence[str], begin: int, output: int, status: int) -> None:
        self.args, self.returncode = list(args), None
        self.stdin = self.stderr = None
        self._begin = begin
        self._tracer: subprocess.Popen[bytes] | None = None
        self.stdout = os.fdopen(output, errors="replace")
        self._status, self._status_text = status, b""
        self._listen(None, lines=1)
        self.pid = int(self._status_text.split(b"\n")[0])

    def begin(self, tracer: Sequence[str] = ()) -> Self:
        """Let the command begin.

        Args:
            tracer: The arguments of strace, which is attached first.
        """
        if tracer:
            self._tracer = subprocess.Popen([*tracer, "-p", str(self.pid)])
            while "TracerPid:\t0" in Path(f"/proc/{self.pid}/status").read_text():
                assert self._tracer.poll() is None, "strace may not trace"
                time.sleep(0.002)
        os.write(self._begin, b"\n")
        os.close(self._begin)
        return self

    def _listen(self, timeout: float | None, *, lines: int = 2) -> bool:
        """Read the process id and then the exit code; returns whether they came in time."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._status_text.count(b"\n") < lines:
            remaining = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            if not select.select([self._status], [], [], remaining)[0]:
                return False
            content = os.read(self._status, 100)
            assert content, "the warm process has gone"
            self._status_text += content
        return True

    def poll(self) -> int | None:
        """The exit code of the command, if it has ended."""
        if self.returncode is None and self._listen(0.0):
            self._end()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the command to end; returns its exit code."""
        if self.returncode is None:
            if not self._listen(timeout):
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            self._end()
        return self.returncode

    def _end(self) -> None:
        self.returncode = int(self._status_text.split(b"\n")[1])
        os.close(self._status)
        if self._tracer is not None:
            self._tracer.wait()

    def communicate(  # type: ignore[override]
        self,
        input: None = None,  # noqa: A002
        timeout: float | None = None,
    ) -> tuple[str, None]:
        """Read until the command and all that it started have closed the output."""
        assert self.stdout is not None
        deadline = None if timeout is None else time.monotonic() + timeout
        number, content = self.stdout.fileno(), b""
        while True:
            remaining = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            if not select.select([number], [], [], remaining)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0, content)
            part = os.read(number, 1 << 16)
            if not part:
                break
            content += part
        self.stdout.close()
        self.wait(None if deadline is None else max(deadline - time.monotonic(), 0.0))
        return content.decode(errors="replace"), None

    def send_signal(self, sig: int) -> None:
        """Send a signal to a command that has not ended."""
        if self.poll() is None:
            os.kill(self.pid, sig)


class WarmProcess:
    """A process that waits to be forked.

    Args:
        kind: What its forks are: `full` commands, `quick` ones that train nothing, or programs in
            Python (`script`), whose text is the first argument.
    """

    def __init__(self, kind: Kind) -> None:
        # Not at the top, because warm processes need no pytest, which it imports.
        from probes_left_out import LIMIT, MODULE

        self._socket, end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        changes = json.dumps({MODULE: LIMIT})
        program = f"import warm_process; warm_process.serve({kind!r}, {changes!r})"
        places = [str(HERE), str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
        variables = {"PYTHONPATH": os.pathsep.join(places), "OMP_NUM_THREADS": "1"}
        with end:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-B", "-c", program],
                stdin=end.fileno(),
                env={**os.environ, **variables},
            )

    def fork(
        self, folder: Path, arguments: Sequence[str], variables: Mapping[str, str]
    ) -> ForkedCommand:
        """A fork that has not begun yet, in a folder, with these variables and no others."""
        start_reader, start_writer = os.pipe()
        output_reader, output_writer = os.pipe()
        status_reader, status_writer = os.pipe()
        request = json.dumps([str(folder), list(arguments), dict(variables)]).encode()
        assert len(request) <= LARGEST
        socket.send_fds(self._socket, [request], [start_reader, output_writer, status_writer])
        for descriptor in (start_reader, output_writer, status_writer):
            os.close(descriptor)
        return ForkedCommand(arguments, start_writer, output_reader, status_reader)

    def close(self) -> None:
        """End the warm process; its forks go on."""
        self._socket.close()
        self._process.wait()


@cache
def warm_process(kind: Kind) -> WarmProcess:
    """The warm process of these tests, started at the first call."""
    warm = WarmProcess(kind)
    atexit.register(warm.close)
    return warm


def serve(kind: Kind, changes: str) -> None:
    """Import everything, then fork at each request until the requests end.

    Args:
        kind: What the forks are.
        changes: Constants of modules and their values in all forks that are commands, as JSON.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    if kind == "script":
        for name in STORE:
            importlib.import_module(name)
    else:
        _import_everything(json.loads(changes), quick=kind == "quick")
    requested = socket.socket(fileno=os.dup(0))
    while True:
        request, descriptors, *_ = socket.recv_fds(requested, LARGEST, 3)
        if not request:
            return
        if os.fork() == 0:
            requested.close()
            _supervise(kind, json.loads(request), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _import_everything(changes: Mapping[str, Mapping[str, Any]], *, quick: bool) -> None:
    from rlexp.app.execution import launch_settings
    from rlexp.executors import local, server
    from rlexp.store import provenance

    for name in (*LIBRARIES, *(f"rlexp.app.commands.{name}" for name in USE_CASES)):
        importlib.import_module(name)
    _compose()
    for module, (name, seconds) in WAITS.items():
        assert hasattr(importlib.import_module(module), name)
        setattr(sys.modules[module], name, seconds)
    for module, values in changes.items():
        vars(importlib.import_module(module)).update(values)
    packages = provenance.packages()
    provenance.packages = lambda: packages
    if quick:
        import quick_command

        quick_command.become_quick()
    server._import(launch_settings.PRELOAD)
    forking = SimpleNamespace(**{**vars(subprocess), "Popen": _ForkedServer})
    vars(local).update(subprocess=forking)
    # A fork copies what it writes to, and collecting garbage writes to everything.
    gc.collect()
    gc.freeze()


def _compose() -> None:
    """Compose a configuration, so that Hydra has imported and cached what it needs."""
    from rlexp.config.compose import compose

    with tempfile.TemporaryDirectory() as folder:
        compose(["algorithm=ppo", "environment=cartpole", "seeds.test=1"], Path(folder))


def _supervise(
    kind: Kind,
    request: tuple[str, list[str], dict[str, str]],
    start_reader: int,
    output: int,
    status: int,
) -> None:
    """Fork a command and report how it ended, so that the warm process need not wait."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    folder, arguments, variables = request
    pid = os.fork()
    if pid == 0:
        os.close(status)
        act = _execute if kind == "script" else _give
        _set_up(folder, variables, start_reader, output)
        _call_and_exit(lambda: act(arguments))
    os.close(start_reader)
    os.close(output)
    os.write(status, b"%d\n" % pid)
    _, wait_status = os.waitpid(pid, 0)
    os.write(status, b"%d\n" % os.waitstatus_to_exitcode(wait_status))
    os._exit(0)


def _call_and_exit(act: Callable[[], object]) -> None:
    """Call a function and end this process, as an interpreter does."""
    code = 0
    try:
        act()
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
        code = 1
    finally:
        for file in (sys.stdout, sys.stderr):
            file.flush()
        os._exit(code)


def _set_up(folder: str, variables: Mapping[str, str], start_reader: int, output: int) -> None:
    """Set up this fork like a process of its own, and wait until it may begin."""
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, -1, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.read(start_reader, 1)
    null_device = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null_device, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.closerange(3, max(null_device, start_reader, output) + 1)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)


def _execute(arguments: list[str]) -> None:
    """Execute the program that is the first argument."""
    sys.argv = ["-c", *arguments[1:]]
    exec(compile(arguments[0], "<string>", "exec"), {"__name__": "__main__"})


def _give(arguments: list[str]) -> None:
    """Give a command; the first argument is the program."""
    from rlexp.cli import main

    # As Python does: the folder of the script, or the current folder with `-m`.
    sys.path.insert(0, str(Path(arguments[0]).parent if os.sep in arguments[0] else Path.cwd()))
    sys.argv = arguments
    main()


class _ForkedServer:
    """The server that runs are forked from, as a fork of its command."""

    def __init__(
        self,
        args: list[str],
        *,
        stdin: int,
        stdout: int,
        start_new_session: bool,
        env: Mapping[str, str],
    ) -> None:
        assert (subprocess.PIPE, subprocess.PIPE, True) == (stdin, stdout, start_new_session)
        command_reader, command_writer = os.pipe()
        answer_reader, answer_writer = os.pipe()
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            _call_and_exit(lambda: _become_server(args, env, command_reader, answer_writer))
        os.close(command_reader)
        os.close(answer_writer)
        self.stdin = os.fdopen(command_writer, "wb")
        self.stdout = os.fdopen(answer_reader, "rb", 0)

    def poll(self) -> int | None:
        """The exit code of the server, if it has ended."""
        if self.returncode is None:
            pid, wait_status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(wait_status) if pid else None
        return self.returncode

    def wait(self, timeout: float = 1e9) -> int:
        """Wait for the end of the server."""
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("the server", timeout)
            time.sleep(0.002)
        return code

    def kill(self) -> None:
        """Kill the server at once."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def _become_server(
    args: list[str], env: Mapping[str, str], command_reader: int, answer_writer: int
) -> None:
    """Serve in this fork, like a new process that inherits only its output."""
    from rlexp.executors import server

    os.setsid()
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    os.dup2(command_reader, 0)
    os.dup2(answer_writer, 1)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    os.environ.update(env)
    del sys.path[0]
    sys.argv = args[3:]
    server.main(*args[4:])
