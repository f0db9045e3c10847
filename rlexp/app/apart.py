"""Asks a question in a forked child, so that no answer can harm the command."""

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from rlexp.errors import ConfigError, RlexpError

LIMIT = 120.0
"""Seconds that an answer may take."""


def ask_apart(what: str, question: Callable[[], Any]) -> Any:
    """Return the answer, which is JSON values, of a question asked in a child process.

    Args:
        what: What the question is about, for the message.
        question: Asked in the child.

    Raises:
        ConfigError: The child raised an error, died or did not answer; says which.
    """
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _answer(writing, question)
    os.close(writing)
    try:
        content = _read(reading, time.monotonic() + LIMIT)
    finally:
        os.close(reading)
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    if not content:
        code = os.waitstatus_to_exitcode(status)
        how = f"by signal {-code}" if code < 0 else f"with code {code}"
        how = f"after {LIMIT:g} s without an answer" if content is None else how
        raise ConfigError(f"{what} ended the process that looked at it {how}")
    kind, value = json.loads(content)
    if kind == "error":
        raise ConfigError(value)
    return value


def _answer(writing: int, question: Callable[[], Any]) -> None:
    try:
        content = ["answer", question()]
    except RlexpError as error:
        content = ["error", str(error)]
    except Exception as error:  # noqa: BLE001
        content = ["error", " ".join(f"{type(error).__name__}: {error}".split())]
    with os.fdopen(writing, "w") as file:
        json.dump(content, file)
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
