"""W&B in a process of its own, which is asked with a deadline and can be killed at any time."""

import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Any

from rlexp.errors import TrackerRefused, TrackerUnreachable

FOREIGN = (
    *("WANDB_SERVICE", "WANDB_SWEEP_ID", "WANDB_SWEEP_PARAM_PATH", "WANDB_CONFIG_PATHS"),
    *("WANDB_CONFIG", "WANDB_LAUNCH", "WANDB_LAUNCH_CONFIG_PATH", "WANDB_RUN_ID"),
    *("WANDB_RESUME", "WANDB_NOTES", "WANDB_DOCKER", "WANDB_DEBUG"),
)
"""Variables that mean somebody else's run: that of a W&B agent that started the command."""

END = 2.0
"""Seconds that the process gets to end by itself; it takes W&B's core with it."""


class Client:
    """Starts the process, asks it, kills it. One thread calls it.

    Attributes:
        life: How many processes there have been.
    """

    def __init__(self, folder: Path, timeout: float) -> None:
        """Ask nothing yet.

        Args:
            folder: For W&B's files.
            timeout: Seconds of one request of W&B's.
        """
        self.life = 0
        self._folder = folder
        self._timeout = timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._pending = b""

    @property
    def alive(self) -> bool:
        """Whether there is a process that answered so far."""
        return self._process is not None and self._process.poll() is None

    def start(self, settings: Mapping[str, Any], seconds: float) -> None:
        """Start a process, instead of the one there is.

        Raises:
            TrackerUnreachable: W&B does not answer.
            TrackerRefused: It takes nothing as it is asked.
        """
        self.kill()
        # A process that was killed with its command left its own.
        shutil.rmtree(self._passing, ignore_errors=True)
        self._passing.mkdir(parents=True, exist_ok=True)
        self.life += 1
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "rlexp.trackers.wandb_process", str(self._passing)],
            env=self._environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.call({"do": "open", **settings}, seconds)

    def call(self, request: Mapping[str, Any], seconds: float) -> Any:
        """Ask, and wait for the answer.

        Raises:
            TrackerUnreachable: There is none in time, or W&B cannot be reached.
            TrackerRefused: W&B takes nothing as it is asked.
        """
        process = self._process
        if process is None or process.stdin is None:
            raise TrackerUnreachable("W&B's process is gone")
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except OSError as error:
            raise TrackerUnreachable("W&B's process is gone") from error
        answer = json.loads(self._line(process, time.monotonic() + seconds))
        if "unreachable" in answer:
            raise TrackerUnreachable(answer["unreachable"])
        if "refused" in answer:
            raise TrackerRefused(answer["refused"])
        return answer["result"]

    def kill(self) -> None:
        """End the process, if there is one, and W&B's core with it."""
        if self._process is None:
            return
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                # What was not written yet is written on closing.
                with suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
        self._pending = b""
        shutil.rmtree(self._passing, ignore_errors=True)

    @property
    def _passing(self) -> Path:
        """For files that nobody needs when the process is gone."""
        return self._folder / "passing"

    def _line(self, process: subprocess.Popen[bytes], deadline: float) -> bytes:
        assert process.stdout is not None
        output = process.stdout.fileno()
        while b"\n" not in self._pending:
            ready, _, _ = select.select([output], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TrackerUnreachable("W&B does not answer")
            read = os.read(output, 1 << 16)
            if not read:
                raise TrackerUnreachable("W&B's process ended without a word")
            self._pending += read
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in FOREIGN}
        kept.setdefault("WANDB_DATA_DIR", str(self._folder / "data"))
        kept.setdefault("WANDB_CACHE_DIR", str(self._passing / "cache"))
        # Its own error reports tell paths, versions and imported packages.
        kept["WANDB_ERROR_REPORTING"] = "false"
        kept["WANDB_HTTP_TIMEOUT"] = str(ceil(self._timeout))
        return kept
