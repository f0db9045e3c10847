"""Which file system a folder lies on: locks and durability of network ones need a warning."""

import re
from pathlib import Path

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
    try:
        lines = mounts.read_text(errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        point = Path(_unescaped(fields[4]))
        # Of two mounts on one point, the later hides the earlier.
        if place.is_relative_to(point) and len(point.parts) >= found[0]:
            found = (len(point.parts), after.split()[0])
    return found[1] if found[1] in NETWORK else None


def _unescaped(text: str) -> str:
    """A path as mountinfo writes it, whose spaces and the like are octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
