"""Tells whether a folder lies on a network file system, whose locks may not reach other machines."""

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

VARIABLE = "RLEXP_SHARED"
"""Environment variable; with 1, every folder counts as shared by several machines."""
MOUNTS = Path("/proc/self/mountinfo")
NETWORK = frozenset(
    (
        *("9p", "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.s3fs"),
        *("fuse.sshfs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"),
        *("orangefs", "panfs", "smb3", "smbfs", "wekafs"),
    )
)
"""Names of the file systems that several machines share."""


def network_file_system(path: Path, mounts: Path = MOUNTS) -> str | None:
    """The name of the network file system that holds `path`, which need not exist.

    Args:
        path: A file or folder.
        mounts: The kernel's list of mounts; without it no network file system is recognised.
    """
    resolved = path.resolve()
    depth, file_system = -1, ""
    for fields, kind in _mounts(mounts):
        point = Path(_unescaped(fields[4]))
        # Of two mounts on one point, the later hides the earlier.
        if resolved.is_relative_to(point) and len(point.parts) >= depth:
            depth, file_system = len(point.parts), kind
    return file_system if file_system in NETWORK else None


def is_shared(path: Path) -> bool:
    """Whether several machines may see the folder of `path`.

    One `stat` per call, because it is called for each of thousands of runs.
    """
    if os.environ.get(VARIABLE) == "1":
        return True
    for folder in path.parents:
        try:
            return _is_network_device(os.stat(folder).st_dev)  # noqa: PTH116 (asked very often)
        except FileNotFoundError:
            continue
        except OSError:
            break
    return False


@cache
def _is_network_device(device: int, mounts: Path = MOUNTS) -> bool:
    """Whether a file system, given by its device number (`st_dev`), is a network one."""
    number = f"{os.major(device)}:{os.minor(device)}"
    return any(kind in NETWORK for fields, kind in _mounts(mounts) if fields[2] == number)


def _mounts(mounts: Path) -> Iterator[tuple[list[str], str]]:
    """The fields of every mount, and the name of its file system."""
    try:
        lines = mounts.read_text(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) >= 5 and after:
            yield fields, after.split()[0]


def _unescaped(text: str) -> str:
    """A path of mountinfo, in which spaces and the like are written as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
