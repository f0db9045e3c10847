"""Which file system a folder lies on: on network ones, locks do not reach other machines."""

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

VARIABLE = "RLEXP_SHARED"
"""With 1, every folder counts as one that several machines see."""
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
        mounts: What the kernel says of mounts; where it says nothing, none is known.
    """
    place = path.resolve()
    found: tuple[int, str] = (-1, "")
    for fields, kind in _mounts(mounts):
        point = Path(_unescaped(fields[4]))
        # Of two mounts on one point, the later hides the earlier.
        if place.is_relative_to(point) and len(point.parts) >= found[0]:
            found = (len(point.parts), kind)
    return found[1] if found[1] in NETWORK else None


def is_shared(path: Path) -> bool:
    """Whether several machines may see the folder of `path`, as far as this one can tell.

    Cheap enough for every run of thousands.
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
    """Whether a file system, by the number that files say they are on, is a network one."""
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
    """A path as mountinfo writes it, whose spaces and the like are octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
