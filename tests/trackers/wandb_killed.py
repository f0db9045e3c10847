"""Push rows of a run, report it, and wait for a kill: `python wandb_killed.py URL MODE FOLDER`."""

import sys
import time
from pathlib import Path

from backends import rows_of
from wandb_samples import experiment_in, tracked_run

from rlexp.trackers import SyncPosition
from rlexp.trackers.wandb import WandB


def main() -> None:
    """Push the first five rows, then wait."""
    url, mode, folder = sys.argv[1:]
    tracker = WandB(base_url=url, mode="offline" if mode == "offline" else "online", timeout=4.0)
    sink = tracker.open(experiment_in(Path(folder)))
    run = tracked_run()
    sink.begin(run, SyncPosition())
    sink.push(run, rows_of(range(0, 50, 10), loss=1.0))
    print("pushed", flush=True)
    time.sleep(60)


if __name__ == "__main__":
    main()
