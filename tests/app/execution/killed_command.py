"""Starts a command that trains a script, and ends it by SIGKILL in the middle of the training."""

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

LONGEST_WAIT = 1200.0
"""Seconds after which a script counts as one that trains nothing; a busy machine needs minutes to import a library."""


def kill_after(sign: str, words: Sequence[str], folder: Path) -> None:
    """Start `rlexp run` with experiment `killed`, and kill it when its script has written a file.

    Args:
        sign: The pattern of the file, below the folder of the first attempt.
        words: The words of the command.
        folder: The workspace.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "rlexp", "run", *words, "experiment=killed"],
        stdout=subprocess.DEVNULL, cwd=folder,
    )  # fmt: skip
    try:
        _await(sign, process, folder)
    finally:
        process.kill()
        process.wait()


def _await(sign: str, process: subprocess.Popen[bytes], folder: Path) -> None:
    until = time.monotonic() + LONGEST_WAIT
    while not any(f.stat().st_size for f in folder.glob(f"runs/killed/*/attempts/1/{sign}")):
        assert process.poll() is None, "it ended before it was killed"
        assert time.monotonic() < until, f"no {sign} in {LONGEST_WAIT:g} seconds"
        time.sleep(0.02)
