"""A process that mirrors a sweep of six trials as it grows, once a file exists.

Called with the folder, the file, and a URL where it is no journal file.
"""

import sys
from pathlib import Path
from time import sleep

from mirroring import mirror, mirrored

TRIALS = [mirrored(number) for number in range(6)]


def main(folder: str, starter: str, *url: str) -> None:
    """Mirror the growing sweep."""
    one = mirror(Path(folder), *url)
    print("ready", flush=True)
    while not Path(starter).exists():
        sleep(0.001)
    for count in range(len(TRIALS)):
        running = mirrored(count, "running", intermediate={})
        one.sync([*TRIALS[:count], running])
    one.sync(TRIALS)
    one.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
