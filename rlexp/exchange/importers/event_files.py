"""Event files of TensorBoard: scalars by tag, read without TensorBoard."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from rlexp.exchange.importers.crc32c import masked_all
from rlexp.exchange.importers.sources import Loaded
from rlexp.exchange.importers.study import malformed

VERSION = b"brain.Event:2"
"""What the first record of every such file says."""
HEAD, FOOT = 12, 4
"""Bytes before a record (its length and a checksum) and behind it (another checksum)."""
FLOAT, DOUBLE = 1, 2
"""Kinds of numbers in a tensor."""
_VARINT, _EIGHT, _TEXT, _FOUR = 0, 1, 2, 5

Field = tuple[int, int | bytes]
"""A field's number, and its value: a whole number, or bytes that are still to be read."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value of one tag."""

    tag: str
    step: int
    time: float
    value: float


def read_scalars(loaded: Loaded) -> Iterator[Scalar]:
    """Every scalar of a file, in the order in which they were written.

    Raises:
        MalformedError: A record is cut off, its checksum is wrong, or it is no event; says at
            which byte. Or the first record is not that of such a file.
    """
    places = list(_places(loaded))
    records = [loaded.content[start:end] for start, end in places]
    for (start, end), found in zip(places, masked_all(records), strict=True):
        if found != _sum(loaded.content, end):
            raise _broken(loaded, start, "its checksum is wrong")
    if not records or VERSION not in records[0]:
        raise malformed(loaded.name, "byte 0", "it is no event file of TensorBoard")
    for (start, _), record in zip(places, records, strict=True):
        try:
            yield from _scalars(record)
        except (ValueError, IndexError, struct.error) as error:
            raise _broken(loaded, start, f"it is no event: {error}") from error


def _places(loaded: Loaded) -> Iterator[tuple[int, int]]:
    """Where the records begin and end."""
    content, at = loaded.content, 0
    heads, starts = list[bytes](), list[int]()
    while at < len(content):
        if at + HEAD > len(content):
            raise _broken(loaded, at, "it is cut off")
        head = content[at : at + 8]
        length = int.from_bytes(head, "little")
        heads.append(head)
        starts.append(at)
        # A length that is wrong may lead anywhere: its own checksum is looked at first.
        if length > len(content) and masked_all([head])[0] != _sum(content, at + 8):
            raise _broken(loaded, at, "the checksum of its length is wrong")
        at += HEAD + length + FOOT
        if at > len(content):
            raise _broken(loaded, starts[-1], "it is cut off")
    for start, head, found in zip(starts, heads, masked_all(heads), strict=True):
        if found != _sum(content, start + 8):
            raise _broken(loaded, start, "the checksum of its length is wrong")
        yield start + HEAD, start + HEAD + int.from_bytes(head, "little")


def _sum(content: bytes, at: int) -> int:
    return int.from_bytes(content[at : at + 4], "little")


def _broken(loaded: Loaded, at: int, what: str) -> Exception:
    return malformed(loaded.name, f"the record at byte {at:,}", what)


def _scalars(record: bytes) -> Iterator[Scalar]:
    """The scalars of an event: wall time (1), step (2), summary (5) of values (1)."""
    time, step, summaries = 0.0, 0, list[bytes]()
    for number, value in _fields(record):
        match number, value:
            case 1, bytes() if len(value) == 8:
                time = struct.unpack("<d", value)[0]
            case 2, int():
                step = value
            case 5, bytes():
                summaries.append(value)
    for summary in summaries:
        for number, value in _fields(summary):
            if number == 1 and isinstance(value, bytes):
                tag, scalar = _value(value)
                if scalar is not None:
                    yield Scalar(tag, step, time, scalar)


def _value(text: bytes) -> tuple[str, float | None]:
    """The tag (1) of a value, and its number (2, or a tensor: 8) if it is one."""
    tag, scalar = "", None
    for number, value in _fields(text):
        match number, value:
            case 1, bytes():
                tag = value.decode()
            case 2, bytes() if len(value) == 4:
                scalar = struct.unpack("<f", value)[0]
            case 8, bytes():
                scalar = _tensor(value)
    return tag, scalar


def _tensor(text: bytes) -> float | None:
    """The number in a tensor that holds one: kind (1), content (4), floats (5), doubles (6)."""
    kind, data = 0, b""
    for number, value in _fields(text):
        match number, value:
            case 1, int():
                kind = value
            case ((4 | 5 | 6), bytes()):
                data = value
    form = {(FLOAT, 4): "<f", (DOUBLE, 8): "<d"}.get((kind, len(data)))
    return None if form is None else float(struct.unpack(form, data)[0])


def _fields(text: bytes) -> Iterator[Field]:
    """The fields of a message in the wire format of protocol buffers."""
    at = 0
    while at < len(text):
        key, at = _varint(text, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(text, at)
            yield number, value
            continue
        if kind == _TEXT:
            length, at = _varint(text, at)
        elif kind in {_EIGHT, _FOUR}:
            length = 8 if kind == _EIGHT else 4
        else:
            raise ValueError(f"a field of kind {kind}")
        if at + length > len(text):
            raise ValueError("a field is cut off")
        yield number, text[at : at + length]
        at += length


def _varint(text: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = text[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")
