"""Asks a question in a forked child, so that no answer can harm the command."""

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from rlexp.errors import ConfigError, RlexpError

LIMIT = 120.0
"""Seconds that an answer may take."""
TIDYING = 5.0
"""Seconds that a child may take to end once it has answered."""


def ask_apart(
    what: str, question: Callable[[], Any], tidy: Callable[[], object] = lambda: None
) -> Any:
    """Return the answer, which is JSON values, of a question asked in a child process.

    Args:
        what: What the question is about, for the message.
        question: Asked in the child.
        tidy: Called in the child after the answer, for some seconds; what it does is no matter.

    Raises:
        ConfigError: The child raised an error, died or did not answer; says which.
    """
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _answer(writing, question, tidy)
    os.close(writing)
    content = None
    try:
        content = _read(reading, time.monotonic() + LIMIT)
    finally:
        os.close(reading)
        status = _end(pid, TIDYING if content else 0.0)
    if not content:
        code = os.waitstatus_to_exitcode(status)
        how = f"by signal {-code}" if code < 0 else f"with code {code}"
        how = f"after {LIMIT:g} s without an answer" if content is None else how
        raise ConfigError(f"{what} ended the process that looked at it {how}")
    kind, value = json.loads(content)
    if kind == "error":
        raise ConfigError(value)
    return value


def _end(pid: int, patience: float) -> int:
    """Wait for a child to end, for a while, and kill it then; returns its status."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


def _answer(writing: int, question: Callable[[], Any], tidy: Callable[[], object]) -> None:
    try:
        content = ["answer", question()]
    except RlexpError as error:
        content = ["error", str(error)]
    except Exception as error:  # noqa: BLE001
        content = ["error", " ".join(f"{type(error).__name__}: {error}".split())]
    with os.fdopen(writing, "w") as file:
        json.dump(content, file)
    with suppress(BaseException):
        tidy()
    sys.stderr.flush()
    os._exit(0)


def _read(reading: int, deadline: float) -> bytes | None:
    """Everything until the end of the stream, or nothing when time is up."""
    content = b""
    while select.select([reading], [], [], max(deadline - time.monotonic(), 0))[0]:
        part = os.read(reading, 1 << 16)
        if not part:
            return content
        content += part
    return None
