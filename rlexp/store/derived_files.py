"""Files that are derived from others, and may be deleted: written as a whole, and read if intact.

The first line is the sha256 of the rest. It is no protection from an author of such a file; it finds
files that a crash or a failing disk has damaged.
"""

from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

from rlexp.store.files import parse_json, read_file

LARGEST = 1 << 28
"""Most bytes of a derived file that is read."""


def read_derived(location: Path) -> Any:
    """The JSON values of a derived file.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is damaged or too large.
        RecursionError: Its values are nested too deeply.
    """
    return parse_json(read_derived_bytes(location)[1])


def read_derived_bytes(location: Path) -> tuple[bytes, bytes]:
    """The checksum of a derived file in hexadecimal digits, and its content.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is damaged or too large.
    """
    if location.lstat().st_size > LARGEST:
        raise ValueError("it is very large")
    head, _, content = read_file(location).partition(b"\n")
    if head != _sum_of(content):
        raise ValueError("it is damaged")
    return head, content


def write_derived(location: Path, content: bytes) -> None:
    """Write the content of a derived file completely or not at all.

    Raises:
        OSError: The file cannot be written.
    """
    location.parent.mkdir(parents=True, exist_ok=True)
    temporary = location.with_name(f".{uuid4().hex[:8]}{location.name}")
    try:
        # Without fsync: a derived file that a power cut damages fails its checksum and is ignored.
        temporary.write_bytes(_sum_of(content) + b"\n" + content)
        temporary.replace(location)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise


def _sum_of(content: bytes) -> bytes:
    return sha256(content).hexdigest().encode()
