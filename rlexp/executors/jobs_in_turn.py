"""One process that executes jobs in turn, so that what the first one compiled serves the next ones.

The server forks such a process under a guard, like the process of any other job, and hands it the next
job when it has reported the end of the last one. Between two jobs the process waits.

The process ends with a job that did not end in order: the next job then gets a fresh process.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from rlexp.executors.lifetime import children

Command: TypeAlias = dict[str, Any]
"""A job as the server receives it: `submit` (its key), `arguments`, `log` and `variables`."""
BEGUN, ENDED = "begun", "ended"
"""What a process reports about a job."""
LONGEST = 1 << 16
"""Bytes that are read at once."""


def execute_in_turn(
    entry: Callable[[list[str]], int], command: Command, commands: int, reports: int
) -> int:
    """Execute a job, then the jobs that arrive, until one does not end in order.

    Args:
        entry: The function that executes a job and returns an exit code.
        command: The first job; output goes to its log already.
        commands: The descriptor from which further jobs are read, one line each.
        reports: The descriptor to which the begin of every job is written, and the end of each job
            after which this process goes on.

    Returns:
        The exit code of the last job, which is not reported otherwise; 0 at the end of `commands`.
    """
    pending = b""
    while True:
        _report(reports, BEGUN, command)
        code = entry(command["arguments"])
        _flush()
        # Processes that a job leaves behind end with this process.
        if code != 0 or children(os.getpid()):
            return code
        # The job has set a handler, which would swallow a request to end that comes from now on.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _report(reports, ENDED, command)
        while b"\n" not in pending:
            content = os.read(commands, LONGEST)
            if not content:
                return 0
            pending += content
        line, pending = pending.split(b"\n", 1)
        command = json.loads(line)
        os.environ.update(command["variables"])
        write_output_to(Path(command["log"]))


def hand_over(command: Command, commands: int) -> bool:
    """Send a job to a process that waits; returns False where the process is gone."""
    try:
        os.write(commands, json.dumps(command).encode() + b"\n")
    except BrokenPipeError:
        return False
    return True


def read_reports(reports: int) -> list[tuple[str, str]]:
    """What has been reported since the last call: `BEGUN` or `ENDED`, and the key of the job."""
    content = b""
    with suppress(BlockingIOError):
        while block := os.read(reports, LONGEST):
            content += block
    # Lines of this length are written whole, and none is written in part.
    return [(what, key) for what, key in map(json.loads, content.splitlines())]


def write_output_to(log: Path) -> None:
    """Let standard output and error of this process go to a log."""
    # O_APPEND: after the server has cut the log, the job writes at its new end.
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)


def _report(reports: int, what: str, command: Command) -> None:
    with suppress(BrokenPipeError):
        os.write(reports, json.dumps([what, command["submit"]]).encode() + b"\n")


def _flush() -> None:
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
