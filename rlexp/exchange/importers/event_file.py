"""The records of TensorBoard's event files.

The files are read without the tensorboard package: this module parses the records, their checksums
and the protocol buffers.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from rlexp.exchange.importers.imported_study import malformed_error
from rlexp.exchange.importers.sources import LoadedFile

POLYNOMIAL = 0x82F63B78
"""The CRC-32C polynomial (Castagnoli) with reversed bits."""
MASK = 0xA282EAD8
"""Constant that TFRecord files add to every checksum."""
WHOLE = 0xFFFFFFFF
FEW = 32
"""Number of texts of one length from which computing them together is faster."""


@cache
def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return tuple(table)


def checksum(text: bytes) -> int:
    """The masked CRC-32C of one text, as it is stored in event files."""
    table, value = _table(), WHOLE
    for byte in text:
        value = table[(value ^ byte) & 0xFF] ^ value >> 8
    return _mask(value ^ WHOLE)


def checksums(texts: Sequence[bytes]) -> list[int]:
    """The checksums of many texts; texts of one length are computed together with NumPy."""
    by_length: dict[int, list[int]] = {}
    for position, text in enumerate(texts):
        by_length.setdefault(len(text), []).append(position)
    result = [0] * len(texts)
    for length, positions in by_length.items():
        members = [texts[position] for position in positions]
        sums = _together(members, length) if len(members) >= FEW else map(checksum, members)
        for position, value in zip(positions, sums, strict=True):
            result[position] = value
    return result


def _together(texts: Sequence[bytes], length: int) -> list[int]:
    """Checksums of texts of one length, with one vectorised step for each byte position."""
    import numpy as np

    columns = np.frombuffer(b"".join(texts), dtype=np.uint8).reshape(len(texts), length)
    table = np.array(_table(), dtype=np.uint32)
    value = np.full(len(texts), WHOLE, dtype=np.uint32)
    for position in range(length):
        value = table[(value ^ columns[:, position]) & 0xFF] ^ value >> 8
    return [_mask(int(v) ^ WHOLE) for v in value]


def _mask(value: int) -> int:
    # TFRecord masks each sum, because the CRC of data that contain a CRC is weak.
    return ((value >> 15 | value << 17) + MASK) & WHOLE


VERSION = b"brain.Event:2"
"""The content of the first record of every event file."""
HEAD, FOOT = 12, 4
"""Bytes before a record (its length and a checksum) and after it (another checksum)."""
FLOAT, DOUBLE, STRING = 1, 2, 7
"""Data types of tensors that are read."""
_VARINT, _EIGHT, _TEXT, _FOUR = 0, 1, 2, 5

Field = tuple[int, int | bytes]
"""The number of a field and its value: an integer, or bytes that are not parsed yet."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value of one tag."""

    tag: str
    step: int
    time: float
    value: float


@dataclass(frozen=True, slots=True)
class EventRecords:
    """The scalars of an event file in the order of writing, and its texts by tag."""

    scalars: tuple[Scalar, ...]
    texts: Mapping[str, str]


def read_records(loaded: LoadedFile) -> EventRecords:
    """Every scalar and text of a file.

    Raises:
        MalformedError: A record is cut off, has a wrong checksum or is not an event (the message
            names its byte), or the file does not begin like an event file.
    """
    spans = list(_record_spans(loaded))
    records = [loaded.content[start:end] for start, end in spans]
    for (start, end), expected in zip(spans, checksums(records), strict=True):
        if expected != _sum(loaded.content, end):
            raise _broken(loaded, start, "its checksum is wrong")
    if not records or VERSION not in records[0]:
        raise malformed_error(loaded.name, "byte 0", "it is not an event file of TensorBoard")
    scalars, texts = list[Scalar](), dict[str, str]()
    for (start, _), record in zip(spans, records, strict=True):
        try:
            for value in parse_event(record):
                if isinstance(value, Scalar):
                    scalars.append(value)
                else:
                    texts.update([value])
        except (ValueError, IndexError, struct.error) as error:
            raise _broken(loaded, start, f"it is not an event: {error}") from error
    return EventRecords(tuple(scalars), texts)


def read_complete_records(content: bytes) -> tuple[list[bytes], int]:
    """The complete records at the beginning of a growing file, and the number of their bytes.

    Raises:
        ValueError: A checksum is wrong.
    """
    records, at = list[bytes](), 0
    while at + HEAD <= len(content):
        head = content[at : at + 8]
        if checksum(head) != _sum(content, at + 8):
            raise ValueError(f"the checksum of the length at byte {at:,} is wrong")
        end = at + HEAD + int.from_bytes(head, "little")
        if end + FOOT > len(content):
            break
        record = content[at + HEAD : end]
        if checksum(record) != _sum(content, end):
            raise ValueError(f"the checksum of the record at byte {at:,} is wrong")
        records.append(record)
        at = end + FOOT
    return records, at


def _record_spans(loaded: LoadedFile) -> Iterator[tuple[int, int]]:
    """The first and the last byte of each record."""
    content, at = loaded.content, 0
    heads, starts = list[bytes](), list[int]()
    while at < len(content):
        if at + HEAD > len(content):
            raise _broken(loaded, at, "it is cut off")
        head = content[at : at + 8]
        length = int.from_bytes(head, "little")
        heads.append(head)
        starts.append(at)
        # A wrong length could lead anywhere. All lengths are checked together below, except one
        # that leads out of the file, which is checked here for a precise message.
        if length > len(content) and checksums([head])[0] != _sum(content, at + 8):
            raise _broken(loaded, at, "the checksum of its length is wrong")
        at += HEAD + length + FOOT
        if at > len(content):
            raise _broken(loaded, starts[-1], "it is cut off")
    for start, head, expected in zip(starts, heads, checksums(heads), strict=True):
        if expected != _sum(content, start + 8):
            raise _broken(loaded, start, "the checksum of its length is wrong")
        yield start + HEAD, start + HEAD + int.from_bytes(head, "little")


def _sum(content: bytes, at: int) -> int:
    return int.from_bytes(content[at : at + 4], "little")


def _broken(loaded: LoadedFile, at: int, what: str) -> Exception:
    return malformed_error(loaded.name, f"the record at byte {at:,}", what)


def parse_event(record: bytes) -> Iterator[Scalar | tuple[str, str]]:
    """The scalars of an event, and its texts with their tags.

    The numbers of the fields are 1 for the wall time, 2 for the step, and 5 for a summary, whose
    field 1 holds the values.
    """
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
                tag, content = _value(value)
                if isinstance(content, str):
                    yield tag, content
                elif content is not None:
                    yield Scalar(tag, step, time, content)


def _value(text: bytes) -> tuple[str, float | str | None]:
    """The tag (field 1) of a value, and its content (field 2, or 8 for a tensor) if it is known."""
    tag, content = "", None
    for number, value in _fields(text):
        match number, value:
            case 1, bytes():
                tag = value.decode()
            case 2, bytes() if len(value) == 4:
                content = struct.unpack("<f", value)[0]
            case 8, bytes():
                content = _tensor(value)
    return tag, content


def _tensor(text: bytes) -> float | str | None:
    """The content of a tensor of one element.

    The numbers of the fields are 1 for the type, 4 for raw content, 5 for floats, 6 for doubles
    and 8 for texts.
    """
    kind, data = 0, b""
    for number, value in _fields(text):
        match number, value:
            case 1, int():
                kind = value
            case ((4 | 5 | 6 | 8), bytes()):
                data = value
    if kind == STRING:
        return data.decode(errors="replace")
    form = {(FLOAT, 4): "<f", (DOUBLE, 8): "<d"}.get((kind, len(data)))
    return None if form is None else float(struct.unpack(form, data)[0])


def _fields(text: bytes) -> Iterator[Field]:
    """The fields of a message in the protocol buffers wire format."""
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
        # A 64-bit number has ten bytes at most. Without a limit a forged one would never end.
        if shift > 63:
            raise ValueError("a number is too long")
