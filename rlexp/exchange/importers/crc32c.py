"""The checksum of records in event files: CRC-32C, and the mask that is put on it."""

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

POLYNOMIAL = 0x82F63B78
"""Castagnoli's, its bits reversed."""
MASK = 0xA282EAD8
WHOLE = 0xFFFFFFFF
FEW = 32
"""Texts of one length from which on it pays to do them all at once."""


@cache
def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return tuple(table)


def masked(text: bytes) -> int:
    """The checksum of one text as it stands in a file."""
    table, value = _table(), WHOLE
    for byte in text:
        value = table[(value ^ byte) & 0xFF] ^ value >> 8
    return _mask(value ^ WHOLE)


def masked_all(texts: Sequence[bytes]) -> list[int]:
    """The checksums of many texts, those of one length done side by side."""
    by_length: dict[int, list[int]] = {}
    for position, text in enumerate(texts):
        by_length.setdefault(len(text), []).append(position)
    found = [0] * len(texts)
    for length, positions in by_length.items():
        own = [texts[position] for position in positions]
        sums = _together(own, length) if len(own) >= FEW else map(masked, own)
        for position, value in zip(positions, sums, strict=True):
            found[position] = value
    return found


def _together(texts: Sequence[bytes], length: int) -> list[int]:
    """Checksums of texts of one length: a step a byte, whatever their number."""
    columns: NDArray[np.uint8] = np.frombuffer(b"".join(texts), dtype=np.uint8)
    columns = columns.reshape(len(texts), length)
    table = np.array(_table(), dtype=np.uint32)
    value = np.full(len(texts), WHOLE, dtype=np.uint32)
    for position in range(length):
        value = table[(value ^ columns[:, position]) & 0xFF] ^ value >> 8
    return [_mask(int(v) ^ WHOLE) for v in value]


def _mask(value: int) -> int:
    return ((value >> 15 | value << 17) + MASK) & WHOLE
