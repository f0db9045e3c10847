"""Overwrites the values of secret variables in the output of runs."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from rlexp.store.secrets import secret_values

BLOCK = 1 << 20
"""Bytes that are looked at at once."""


def secrets_of_process() -> tuple[bytes, ...]:
    """What no output may keep: the values of secret variables, the longest first."""
    values = {os.fsencode(value) for value in secret_values(os.environ)}
    return tuple(sorted(values, key=lambda value: (-len(value), value)))


def overwrite(log: Path, start: int, secrets: Sequence[bytes]) -> int:
    """Overwrite secrets in a file that may still be appended to, each by as many asterisks.

    Args:
        log: The file.
        start: Where to begin: what an earlier call returned.
        secrets: The longest first.

    Returns:
        Where the next call is to begin.

    Raises:
        OSError: The file cannot be read or written.
    """
    size = log.stat().st_size
    if not secrets or size == start:
        return size
    # What was cut off by the last look may end now; a file that became shorter is another one.
    overlap = len(secrets[0]) - 1
    begin = max(start - overlap, 0) if start <= size else 0
    with log.open("r+b") as file:
        for position in range(begin, size, BLOCK):
            file.seek(position)
            block = file.read(BLOCK + overlap)
            for at, length in _found(block, secrets):
                file.seek(position + at)
                file.write(b"*" * length)
            file.flush()
    return size


def _found(block: bytes, secrets: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    for secret in secrets:
        at = block.find(secret)
        while at >= 0:
            yield at, len(secret)
            at = block.find(secret, at + 1)
