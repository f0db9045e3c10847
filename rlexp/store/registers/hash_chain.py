"""Lines of a file that form a hash chain: each holds the sha256 of the line before it."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rlexp.errors import RecordError
from rlexp.store.files import read_file
from rlexp.store.schemas import VERSION, FileSchema

Entry = TypeVar("Entry")

NOTHING = "0" * 64
"""The hash in the first line, which has no line before it."""


@dataclass(frozen=True, slots=True)
class ChainedLines:
    """The lines of a file, and whether their chain is whole.

    Attributes:
        lines: The complete lines, without their line breaks.
        sums: The sha256 of each line.
        sha256: The sha256 of the whole file; None where there is none.
        breaks: Messages about the places where the chain is broken.
        torn: Whether the last line is incomplete.
    """

    lines: tuple[bytes, ...] = ()
    sums: tuple[str, ...] = ()
    sha256: str | None = None
    breaks: tuple[str, ...] = ()
    torn: bool = False


def read_entries(
    chain: ChainedLines, read: Callable[[bytes], Entry | None]
) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    """The entries of a register, and all that is wrong with its lines.

    Args:
        chain: The lines of the register.
        read: Returns the entry of a line, or None to leave it out; raises a RecordError where the line
            cannot be read.
    """
    entries, unreadable = list[Entry](), list[str]()
    for number, line in enumerate(chain.lines, start=1):
        try:
            entry = read(line)
        except RecordError as error:
            unreadable.append(f"line {number} cannot be read: {error}")
            continue
        if entry is not None:
            entries.append(entry)
    return tuple(entries), (*chain.breaks, *unreadable)


def read_chain(path: Path, schema: FileSchema) -> ChainedLines:
    """Read the lines of a file and check their chain; empty where there is no file.

    Raises:
        RecordError: The file cannot be read.
    """
    content = content_of(path)
    if content is None:
        return ChainedLines()
    *lines, tail = content.split(b"\n")
    sums, breaks = [NOTHING], []
    for number, line in enumerate(lines, start=1):
        if not line.startswith(head_bytes(sums[-1], schema)):
            previous = f"line {number - 1}" if number > 1 else "nothing"
            breaks.append(
                f"line {number} does not follow from {previous}: a line was changed, moved or taken out"
            )
        sums.append(sum_of_line(line))
    if not is_torn(tail, sums[-1], schema):
        breaks.append(f"{len(tail)} bytes behind line {len(lines)} are not of this register")
    return ChainedLines(
        lines=tuple(lines),
        sums=tuple(sums[1:]),
        sha256=hashlib.sha256(content).hexdigest(),
        breaks=tuple(breaks),
        torn=bool(tail),
    )


def content_of(path: Path) -> bytes | None:
    """The content of the file of a chain; None where there is none.

    Raises:
        RecordError: The file cannot be read.
    """
    try:
        return read_file(path)
    except (FileNotFoundError, NotADirectoryError):
        # A folder of runs that is a file has no register; who writes there says what is wrong.
        return None
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}") from error


def sum_of_line(line: bytes) -> str:
    """The sha256 of a line without its line break; `NOTHING` for an empty line."""
    return hashlib.sha256(line).hexdigest() if line else NOTHING


def chained(last: bytes, documents: Iterable[Mapping[str, Any]], schema: FileSchema) -> bytes:
    """The lines of some documents, to append after the line `last`; without a last line break."""
    lines = []
    for document in documents:
        last = _json({**_head(sum_of_line(last), schema), **document})
        lines.append(last)
    return b"\n".join(lines)


def head_bytes(before: str, schema: FileSchema) -> bytes:
    """The beginning of every line that follows the line with the sum `before`."""
    return _json(_head(before, schema))[:-1]


def is_torn(tail: bytes, before: str, schema: FileSchema) -> bool:
    """Whether the tail is empty, or the beginning of the next line, as a power cut leaves it."""
    begun = head_bytes(before, schema)
    # After a power cut, a file can have its new size while its last blocks are zeros.
    written = tail.rstrip(b"\0")
    return written[: len(begun)] == begun[: len(written)]


def _head(before: str, schema: FileSchema) -> dict[str, Any]:
    return {VERSION: schema.version, "before": before}


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
