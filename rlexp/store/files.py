"""Atomic and durable writing of files, and careful reading of files that others may have changed.

A published file is either the old one or the complete new one, whenever the process is killed or
the power fails. Reading never follows a link, waits for a pipe or loads a file of any size.
"""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from errno import EFBIG, EINVAL, ELOOP, ENOSPC
from io import BufferedReader
from pathlib import Path
from stat import S_ISREG
from typing import Any
from uuid import uuid4

from rlexp.errors import RecordError
from rlexp.store.schemas import VERSION, WRITER, FileSchema, schema_of

LARGEST_FILE = 1 << 30
"""Most bytes of a file that is read."""
DEEPEST = 100
"""Most levels of nesting in JSON; files written by rlexp have a tenth of that."""
_NESTED = frozenset({dict, list})


def publish(path: Path, content: bytes) -> None:
    """Write `content` to `path` so that a crash leaves the old file or the whole new one."""
    publish_with(path, lambda temporary: temporary.write_bytes(content))


def publish_with(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then make it durable and rename it.

    The temporary name keeps the ending of `path`, which some libraries insist on.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{uuid4().hex[:8]}.{path.name}")
    try:
        write(temporary)
        # Content before name: after a power cut, a rename may be on disk without the content.
        sync(temporary)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    # The file is published: an error of the folder's sync makes its name less durable only.
    with suppress(OSError):
        sync(path.parent)


def publish_json(path: Path, document: Mapping[str, Any]) -> None:
    """Publish a mapping as JSON with the schema that belongs to the name of the file."""
    publish(path, json_bytes(document, schema_of(path)))


def json_bytes(document: Mapping[str, Any], schema: FileSchema) -> bytes:
    """The content that `publish_json` writes.

    Raises:
        ValueError: The document has a key of the schema, or a value that is not JSON, such as NaN.
    """
    head = schema.head()
    for key in head:
        if key in document:
            raise ValueError(f"{key!r} belongs to the schema of the file")
    # allow_nan=False: other JSON readers refuse NaN and Infinity.
    text = json.dumps({**head, **document}, indent=1, ensure_ascii=False, allow_nan=False)
    # The name of a folder may be no valid Unicode: its surrogates are written as JSON escapes.
    return (text + "\n").encode(errors="backslashreplace")


def append_line(path: Path, line: bytes) -> None:
    """Append a line durably; an incomplete last line of a crash or a full disk is overwritten.

    Raises:
        OSError: The disk is full or gone, or the file is a link; the line is missing or torn.
    """
    append_line_with(path, lambda _: line)


def append_line_with(path: Path, following: Callable[[bytes], bytes]) -> None:
    """Append the line that `following` makes from the last complete line; see `append_line`."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        last, end = last_line(descriptor)
        line = following(last) + b"\n"
        # Cut first: a torn line longer than the new one would leave its tail behind it.
        os.ftruncate(descriptor, end)
        if os.pwrite(descriptor, line, end) < len(line):
            raise OSError(ENOSPC, "the disk took only part of a line", str(path))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def last_line(descriptor: int) -> tuple[bytes, int]:
    """The last complete line of a file, and the number of bytes up to its end."""
    # Read from the end in growing steps: a line can be long, and the file much longer.
    size, step = os.fstat(descriptor).st_size, 1 << 16
    while True:
        start = max(size - step, 0)
        block = os.pread(descriptor, size - start, start)
        end = block.rfind(b"\n")
        before = block.rfind(b"\n", 0, max(end, 0))
        if before >= 0 or start == 0:
            return block[before + 1 : max(end, 0)], start + end + 1
        step *= 4


def refuse_link(path: Path) -> None:
    """Refuse a symbolic link, which may lead anywhere.

    Raises:
        RecordError: The path is a symbolic link.
    """
    if path.is_symlink():
        raise RecordError(
            f"{path} is a link, through which nothing is written or read: remove it, or put a "
            "folder in its place"
        )


def read_file(path: Path) -> bytes:
    """The content of a regular file of at most a gigabyte.

    Raises:
        OSError: The file is larger, or `open_file` refuses it.
    """
    with open_file(path) as file:
        if os.fstat(file.fileno()).st_size > LARGEST_FILE:
            raise OSError(EFBIG, f"it is larger than {LARGEST_FILE:,} bytes")
        return file.read()


def open_file(path: Path) -> BufferedReader:
    """Open a regular file for reading.

    Raises:
        OSError: The path is something else, such as a pipe, which could make the reader wait for
            ever, or a link, which could lead anywhere.
    """
    try:
        # O_NONBLOCK: opening a pipe without a writer must not wait.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno == ELOOP:
            raise OSError(ELOOP, "it is a link, and links to files are not followed") from error
        raise
    if S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise OSError(EINVAL, "it is not a regular file")


def parse_json(text: bytes) -> Any:
    """The values of a JSON text with at most `DEEPEST` levels of nesting.

    Raises:
        ValueError: The text is no JSON, or nested more than `DEEPEST` levels.
        RecursionError: The text is nested so deep that it cannot be parsed.
    """
    value = json.loads(text)
    # Counting brackets is cheap, and enough for nearly every line of a journal.
    if text.count(b"[") + text.count(b"{") > DEEPEST and _is_deeper(value, DEEPEST):
        raise ValueError(f"it is nested more than {DEEPEST} levels deep")
    return value


def _is_deeper(value: Any, levels: int) -> bool:
    layer = [value] if type(value) in _NESTED else []
    for _ in range(levels):
        below: list[Any] = []
        for container in layer:
            inner = container.values() if isinstance(container, dict) else container
            # Most containers hold numbers and texts only, often very many: test that in C.
            if not _NESTED.isdisjoint(map(type, inner)):
                below.extend(item for item in inner if type(item) in _NESTED)
        layer = below
    return bool(layer)


def read_json(path: Path) -> dict[str, Any]:
    """The content of a file that `publish_json` wrote, without the keys of its schema.

    Raises:
        RecordError: The file is missing, damaged or of another schema; names the file.
    """
    return read_document(path)[1]


def read_document(path: Path) -> tuple[int, dict[str, Any]]:
    """The schema version and the content of a file that `publish_json` wrote.

    Raises:
        RecordError: The file is missing, damaged or of another schema; names the file.
    """
    try:
        content = read_file(path)
    except FileNotFoundError as error:
        raise RecordError(f"{path} is missing") from error
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error}") from error
    return document_in(content, path)


def document_in(content: bytes, path: Path) -> tuple[int, dict[str, Any]]:
    """The schema version and the values in the content of a file; see `read_document`.

    Raises:
        RecordError: The content is damaged or of another schema; names the file.
    """
    try:
        document = parse_json(content)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} cannot be read: {error}") from error
    schema = schema_of(path).check(document, path)
    return schema, {k: value for k, value in document.items() if k not in {VERSION, WRITER}}


def probe_writable(folder: Path) -> None:
    """Create `folder` and write a probe file, to learn of errors before any run is started.

    Raises:
        RecordError: The folder cannot be created or written; gives the reason.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe-{uuid4().hex[:8]}"
        publish(probe, b"")
        probe.unlink()
    except OSError as error:
        reason = error.strerror or str(error)
        raise RecordError(
            f"cannot write to {folder}: {reason}; free it or choose another with RLEXP_RUNS",
        ) from error


def sync(path: Path) -> None:
    """Force the content of a file, or the names in a folder, to the disk (fsync)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
