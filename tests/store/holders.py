"""Processes that hold leases, for tests of living and dying holders."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CODE = """
import sys
from pathlib import Path
from rlexp.store.locks.lease import hold

with hold(Path(sys.argv[1]), "run", now=1.0):
    for line in iter(lambda: print("held", flush=True) or sys.stdin.readline(), ""):
        pass
"""


class Holder:
    """A process that holds a lease until its input ends or it is killed."""

    def __init__(self, path: Path) -> None:
        """Start the process and wait until it holds the lease."""
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CODE, os.fspath(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()

    @property
    def pid(self) -> int:
        """The process id of the holder."""
        return self._process.pid

    def ask(self) -> None:
        """Assert that the process still lives."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self._answer()

    def wait(self) -> None:
        """Wait until the process has ended."""
        self._process.wait(10)

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.communicate()

    def _answer(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "held\n"


@contextmanager
def holder_of(path: Path) -> Iterator[Holder]:
    """A process that holds the lease at `path` until the end of the block."""
    process = Holder(path)
    try:
        yield process
    finally:
        process.close()
