"""Plays a worker: makes an attempt at each run it is given, as its first words tell it to."""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from rlexp.records.checkpoint import Checkpoint
from rlexp.store.checkpoints import publish_checkpoint
from rlexp.store.layout import RunPaths


def end_with_input() -> None:
    """Do what a worker does when its standard input ends."""
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def attempt(paths: RunPaths, steps: int, seconds: float) -> None:
    """Take so many steps, with a checkpoint and a line in the journal each."""
    numbers = [item.number for item in paths.attempts()]
    made = paths.attempt(max(numbers, default=0) + 1)
    made.folder.mkdir(parents=True)
    made.settings.write_text("{}")
    for step in range(1, steps + 1):
        publish_checkpoint(paths, Checkpoint(step=step, files={"state.npz": b"%d" % step}), {})
        with made.journal.open("a") as journal:
            journal.write(json.dumps({"event": "evaluated", "step": step}) + "\n")
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not paths.stop.exists():
            time.sleep(0.02)
        if paths.stop.exists():
            break
    paths.model.write_bytes(b"model")
    with made.journal.open("a") as journal:
        journal.write('{"event":"ended"}\n')


def main() -> int:
    """Words: steps, seconds of each, exit code; then what every worker is told."""
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
