"""Stands in for a worker: attempts each run of its list, as its first arguments tell it to."""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from rlexp.records.checkpoint import Checkpoint
from rlexp.store.checkpoints.checkpoint_files import publish_checkpoint
from rlexp.store.layout import RunPaths


def end_with_input() -> None:
    """Send this process SIGTERM when its standard input ends, as a worker does."""
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def attempt(paths: RunPaths, steps: int, seconds: float) -> None:
    """Take `steps` steps, each with a checkpoint and a line in the journal."""
    numbers = [item.number for item in paths.attempts()]
    attempt_paths = paths.attempt(max(numbers, default=0) + 1)
    attempt_paths.folder.mkdir(parents=True)
    attempt_paths.settings.write_text("{}")
    for step in range(1, steps + 1):
        publish_checkpoint(paths, Checkpoint(step=step, files={"state.npz": b"%d" % step}), {})
        with attempt_paths.journal.open("a") as journal:
            journal.write(json.dumps({"event": "evaluated", "step": step}) + "\n")
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not paths.stop.exists():
            time.sleep(0.02)
        if paths.stop.exists():
            break
    paths.model.write_bytes(b"model")
    with attempt_paths.journal.open("a") as journal:
        journal.write('{"event":"ended"}\n')


def main() -> int:
    """Read the arguments: steps, seconds of a step and exit code, then those of every worker."""
    steps, seconds, code = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if "--while-input" in sys.argv:
        threading.Thread(target=end_with_input, daemon=True).start()
    names = Path(sys.argv[sys.argv.index("--job") + 1]).read_text().split()
    experiment = Path(os.environ["RLEXP_RUNS"]) / os.environ["EXPERIMENT"]
    for name in names:
        attempt(RunPaths(experiment / name), steps, seconds)
    print("the worker's last words")
    return code


if __name__ == "__main__":
    sys.exit(main())
