"""Programs that strace kills at their n-th system call, or whose n-th system call it fails."""

import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from textwrap import dedent

from tracing import STRACE, injecting, traced
from warm_process import warm_process

__all__ = ["Outcome", "count_calls", "execute", "fail_at", "kill_at", "trace_calls", "traced"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a program ended, its output, and whether it reached the call in question (`hit`)."""

    code: int
    output: str
    hit: bool


def trace_calls(calls: Iterable[str], script: str, *arguments: object) -> list[str]:
    """The system calls of an undisturbed program as strace writes them, with file names."""
    options = ["-f", "-y", "-qq", "-e", f"trace={','.join(calls)}"]
    with NamedTemporaryFile(mode="r") as file:
        result = execute([STRACE, *options, "-o", file.name], script, arguments)
        assert result.returncode == 0, result.stdout
        return re.findall(r"^\d+ +(\w+\(.*)$", file.read(), re.MULTILINE)


def count_calls(calls: Iterable[str], script: str, *arguments: object) -> Counter[str]:
    """How often an undisturbed program makes each of these system calls."""
    return Counter(line.partition("(")[0] for line in trace_calls(calls, script, *arguments))


def kill_at(
    call: str, n: int, script: str, *arguments: object, path: Path | None = None
) -> Outcome:
    """Execute a program that is killed when it makes its n-th system call of this name.

    Args:
        call: The system call, which is not carried out.
        n: From 1.
        script: The program, in Python.
        arguments: The program's `sys.argv[1:]`.
        path: Only calls on this file are counted; it must exist.
    """
    return _inject(call, "signal=KILL", n, script, arguments, path)


def fail_at(
    call: str, n: int, error: str, script: str, *arguments: object, path: Path | None = None
) -> Outcome:
    """Execute a program whose n-th system call fails, with `ENOSPC` or `EIO` for example."""
    return _inject(call, f"error={error}", n, script, arguments, path)


def _inject(
    call: str, what: str, n: int, script: str, arguments: Iterable[object], path: Path | None
) -> Outcome:
    with NamedTemporaryFile(mode="r") as file:
        paths = [] if path is None else [path]
        result = execute(injecting(call, what, str(n), Path(file.name), paths), script, arguments)
        hit = re.search(r"\(INJECTED\)|killed by SIGKILL", file.read()) is not None
        return Outcome(result.returncode, result.stdout, hit)


def execute(
    tracer: list[str], script: str, arguments: Iterable[object]
) -> subprocess.CompletedProcess[str]:
    """Execute a program in a fork that strace is attached to.

    Only the program itself makes system calls there: no interpreter starts.
    """
    forked = warm_process("script").fork(
        Path.cwd(), [dedent(script), *map(str, arguments)], {**os.environ, "OMP_NUM_THREADS": "1"}
    )
    output, _ = forked.begin(tracer).communicate(timeout=120)
    return subprocess.CompletedProcess([], forked.returncode, output)
