"""Lines of a file that form a hash chain: each holds the sha256 of the line before it."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from rlexp.store.schemas import VERSION, FileSchema

NOTHING = "0" * 64
"""The hash in the first line, which has no line before it."""


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
