"""Stands in for `rlexp worker` in a Slurm job; files record how each try started and ended.

It is called as `queued_worker.py EXPERIMENT SECONDS … --job FILE`. Each run of FILE takes this many
seconds. USR1 makes the worker leave a checkpoint, with which the next try ends at once. After a
signal, the worker goes on for RLEXP_LINGERS seconds.
"""

import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

CODES = {signal.SIGTERM: 143, signal.SIGUSR1: 75}


def main(experiment: Path, seconds: float, job: Path) -> int:
    """Execute the runs of a job file; returns the exit code of a worker."""
    received: list[int] = []

    def receive(number: int, frame: FrameType | None) -> None:
        del frame
        received.append(number)

    for number in CODES:
        signal.signal(number, receive)
    for run in job.read_text().splitlines():
        folder = experiment / run
        folder.mkdir(parents=True, exist_ok=True)
        note(folder / "starts", os.environ.get("SLURM_RESTART_COUNT", "0"))
        note(folder / "told", os.environ.get("RLEXP_TOLD", ""))
        print(f"at {run}", flush=True)
        end = time.monotonic() + seconds
        while time.monotonic() < end and not (folder / "checkpoints").exists() and not received:
            time.sleep(0.05)
        if received:
            # Signals that arrive in this time are recorded too.
            time.sleep(float(os.environ.get("RLEXP_LINGERS", "0.5")))
            note(folder / "signals", " ".join(map(str, received)))
            if "stuck" not in run:
                (folder / "checkpoints" / "1").mkdir(parents=True, exist_ok=True)
            return CODES[signal.Signals(received[0])]
        (folder / "model.zip").touch()
    return 0


def note(path: Path, line: str) -> None:
    """Append a line to a file."""
    with path.open("a") as file:
        file.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(
        main(Path(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[sys.argv.index("--job") + 1]))
    )
