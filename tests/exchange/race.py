"""A process that waits for a file and then mirrors a growing sweep of six trials.

Arguments: the folder, the awaited file, and the URL of a database unless a journal file is used.
"""

import sys
from pathlib import Path
from time import sleep

from mirroring import mirror, sample_trial

TRIALS = [sample_trial(number) for number in range(6)]


def main(folder: str, starter: str, *url: str) -> None:
    """Mirror the sweep after each of its six trials."""
    writer = mirror(Path(folder), *url)
    print("ready", flush=True)
    while not Path(starter).exists():
        sleep(0.001)
    for count in range(len(TRIALS)):
        running = sample_trial(count, "running", intermediate={})
        writer.sync([*TRIALS[:count], running])
    writer.sync(TRIALS)
    writer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
