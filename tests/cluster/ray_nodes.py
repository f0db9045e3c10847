"""A Ray cluster of two nodes on this machine, controlled by words on its standard input."""

import ctypes
import json
import subprocess
import sys
from typing import Any

from ray.cluster_utils import Cluster

CLONE_NEWNS = 0x00020000


def hide(folder: str) -> None:
    """Mount an empty folder over `folder`, for this process and those that it starts later."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "no mounts of its own")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=True)


def main() -> None:
    """Read words: `start`, with folders to hide from nodes, or `replace`, which kills a node."""
    cluster: Any = None
    worker: Any = None
    for line in sys.stdin:
        word, *folders = line.split()
        if word == "start":
            cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
            for folder in folders:
                hide(folder)
            worker = cluster.add_node(num_cpus=1, resources={"here": 1})
        elif word == "replace":
            cluster.remove_node(worker, allow_graceful=False)
            worker = cluster.add_node(num_cpus=1, resources={"here": 1})
        print(json.dumps(cluster.address), flush=True)
    if cluster is not None:
        cluster.shutdown()


if __name__ == "__main__":
    main()
