"""The command's hold on the process that talks with Ray."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rlexp.errors import ExecutorError
from rlexp.executors.ray.mailbox import Message
from rlexp.executors.ray.wire import pair

START_LIMIT = 120.0
"""Seconds that a cluster may take to answer."""
END_LIMIT = 10.0
"""Seconds that a cluster of our own gets to end."""
SAID = 240
"""Characters of what went wrong that are repeated."""


class Link:
    """Starts the process; when the link is closed, or this process dies, it ends.

    Args:
        cluster: What `rlexp.executors.ray.bridge.cluster` needs to know.
        log: A file for what Ray prints.

    Raises:
        ExecutorError: The cluster does not answer, or cannot be started.
    """

    def __init__(self, cluster: Mapping[str, Any], log: Path) -> None:
        self._log = log
        self._address = cluster["address"]
        self._wire, descriptor = pair()
        words = [sys.executable, "-P", "-m", "rlexp.executors.ray.bridge", str(descriptor)]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [*words, json.dumps(dict(cluster))],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(descriptor,),
            )
        os.close(descriptor)
        try:
            self.nodes = self._await_ready()
        except BaseException:
            self._process.kill()
            self.close()
            raise

    @property
    def is_up(self) -> bool:
        """Whether the process lives."""
        return self._process.poll() is None

    def send(self, message: Message) -> None:
        """Tell it something; that nobody is there is found when it is listened to."""
        with suppress(OSError):
            self._wire.send(message)

    def receive(self, seconds: float) -> Message | None:
        """What it says within so many seconds, if anything.

        Raises:
            EOFError: It is gone.
            OSError: The same, in the middle of a message.
        """
        return self._wire.receive(max(0.0, seconds))

    def close(self) -> None:
        """End it, and with it a cluster of our own."""
        self._wire.close()
        try:
            self._process.wait(END_LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def last_words(self) -> str:
        """The last line that it printed, which is the message of an exception."""
        code = self._process.wait()
        with suppress(OSError):
            text = self._log.read_bytes()[-20_000:].decode(errors="replace")
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            if lines:
                return lines[-1][:SAID].rstrip(". ")
        return f"its process ended with code {code}"

    def _await_ready(self) -> list[dict[str, float]]:
        """The resources of each node, once there is a cluster."""
        deadline = time.monotonic() + START_LIMIT
        while time.monotonic() < deadline:
            try:
                message = self.receive(0.2)
            except (EOFError, OSError) as error:
                raise self._failure(self.last_words()) from error
            if message is not None:
                return list(message["nodes"])
        raise self._failure(f"it did not answer within {START_LIMIT:g} s")

    def _failure(self, reason: str) -> ExecutorError:
        own = self._address is None
        what = "a Ray cluster of its own" if own else f"the Ray cluster at {self._address}"
        return ExecutorError(
            f"{what} cannot be used: {reason}; see {self._log}, and executor.address"
        )
