"""Pastes commands into a shell in which most commands of rlexp are forks of one warm process.

In the shell, bash finds the program `rlexp` on PATH as usual, so quoting, expansion and changes of
folders are as real as for commands that are started in full.
"""

import json
import os
import shlex
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from in_full import IN_FULL
from warm_processes import warm_process

CLIENT = """\
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as channel:
    channel.connect(sys.argv[1])
    request = [os.getcwd(), sys.argv[2:], dict(os.environ)]
    socket.send_fds(channel, [b"."], [1, 2])
    channel.sendall(json.dumps(request).encode())
    channel.shutdown(socket.SHUT_WR)
    sys.exit(int(channel.recv(16)))
"""
"""The program `rlexp` in the shell, which sends its words and outputs to the warm process."""
LONGEST = 300.0
"""Seconds that a command may take on a busy machine."""
Choice = Callable[[Sequence[str]], bool]
"""Whether a command with these words is started in full."""
Words = Callable[[Sequence[str]], Sequence[str]]
"""The words that a command receives in place of those that were pasted."""


def none_of_them(_: Sequence[str]) -> bool:
    """Fork every command, except in `make test-all`."""
    return IN_FULL


def as_pasted(words: Sequence[str]) -> Sequence[str]:
    """The same words."""
    return words


def pasted(
    commands: str, folder: Path, in_full: Choice = none_of_them, received: Words = as_pasted
) -> "subprocess.CompletedProcess[str]":
    """Paste commands into a shell that stops at the first failing one.

    `pip install` only checks that the packages are installed: it downloads and changes nothing.
    """
    programs = Path(sys.executable).parent
    variables = {k: v for k, v in os.environ.items() if not k.startswith("RLEXP")}
    variables |= {"PIP_DRY_RUN": "1", "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    with _rlexp(programs / "rlexp", in_full, received) as program_folder:
        path = os.pathsep.join([str(program_folder), str(programs), os.environ["PATH"]])
        return subprocess.run(
            ["bash", "-euxo", "pipefail", "-c", commands],
            cwd=folder,
            env={**variables, "PATH": path, "RLEXP_HOME": str(folder / "home"), "COLUMNS": "160"},
            capture_output=True,
            text=True,
            timeout=560,
            check=False,
        )


@contextmanager
def _rlexp(program: Path, in_full: Choice, received: Words) -> Iterator[Path]:
    """A folder with a program that forks a command, or starts `program` as users do."""
    with tempfile.TemporaryDirectory() as name:
        folder, address = Path(name), str(Path(name) / "socket")
        (folder / "client.py").write_text(CLIENT)
        words = [sys.executable, "-IS", str(folder / "client.py"), address]
        (folder / "rlexp").write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        (folder / "rlexp").chmod(0o755)

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                _, outputs, *_ = socket.recv_fds(self.request, 1, 2)
                cwd, given, variables = json.loads(self.rfile.read())
                words = received(given)
                code = _code_of(program, in_full(words), words, outputs, cwd, variables)
                self.wfile.write(str(code).encode())
                for output in outputs:
                    os.close(output)

        with socketserver.UnixStreamServer(address, Handler) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.02,))
            thread.start()
            try:
                yield folder
            finally:
                server.shutdown()
                thread.join()


def _code_of(
    program: Path,
    full: bool,
    words: Sequence[str],
    outputs: Sequence[int],
    folder: str,
    variables: dict[str, str],
) -> int:
    """Run a command; returns its exit code."""
    output, error = outputs
    if words[:1] == ["view"]:
        return _interrupted([str(program), *words], folder, variables)
    if full:
        return subprocess.run(
            [program, *words],
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=error,
            timeout=LONGEST,
            check=False,
        ).returncode
    with warm_process().Popen(
        [sys.executable, "-P", "-m", "rlexp", *words],
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=error,
        warm=["rlexp.executors.local"],
    ) as forked:
        return forked.wait(LONGEST)


def _interrupted(command: Sequence[str], folder: str, variables: dict[str, str]) -> int:
    """Start a command that serves until Ctrl-C, and press Ctrl-C when it serves; its exit code."""
    with subprocess.Popen(
        command, cwd=folder, env=variables, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("Serving "), command
        process.send_signal(signal.SIGINT)
        return process.wait(LONGEST)
