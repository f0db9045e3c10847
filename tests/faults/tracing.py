"""Faults of system calls: strace kills a process, or fails its n-th system call."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

STRACE = shutil.which("strace") or ""


def may_trace() -> bool:
    """Whether strace is installed and may trace."""
    command = [STRACE, "-o", os.devnull, "true"]
    return bool(STRACE) and subprocess.run(command, check=False).returncode == 0


traced = pytest.mark.skipif(not may_trace(), reason="strace is missing or may not trace")


def injecting(
    call: str, what: str, when: str, trace: Path, paths: Sequence[Path] = ()
) -> list[str]:
    """The strace command line that injects a fault into the system calls of a command.

    Args:
        call: The system call.
        what: `signal=KILL`, or `error=` and the name of an error.
        when: Which calls of each process, as strace counts: `3`, or `3+` for all from the third.
        trace: Where strace writes the calls that it touched.
        paths: Only calls on these files count; they must exist. Without any, all calls do.
    """
    only = [word for path in paths for word in ("-P", str(path))]
    inject = f"inject={call}:{what}:when={when}"
    return [STRACE, "-f", "-qq", "-o", str(trace), *only, "-e", f"trace={call}", "-e", inject]
