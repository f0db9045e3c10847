"""Files that are either the old ones or the new ones, never half of each."""

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
"""Bytes of a file that is read whole."""
DEEPEST = 100
"""Levels of nesting in JSON; what we write has a tenth of that."""
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
        sync(temporary)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    # It is there: a folder that cannot be synced makes its name less durable, not unwritten.
    with suppress(OSError):
        sync(path.parent)


def publish_json(path: Path, plain: Mapping[str, Any]) -> None:
    """Publish a mapping as JSON with the schema of its kind, which the name of the file tells."""
    publish(path, json_bytes(plain, schema_of(path)))


def json_bytes(plain: Mapping[str, Any], schema: FileSchema) -> bytes:
    """What `publish_json` writes."""
    text = json.dumps({**schema.head(), **plain}, indent=1, ensure_ascii=False, allow_nan=False)
    # What is no Unicode, of a folder's name say, is written as JSON escapes it.
    return (text + "\n").encode(errors="backslashreplace")


def append_line(path: Path, line: bytes) -> None:
    """Append a line durably; what a crash or a full disk left of a line is written over.

    Raises:
        OSError: The disk is full or gone, or the file is a link; the line is not there, or torn.
    """
    append_line_with(path, lambda _: line)


def append_line_with(path: Path, following: Callable[[bytes], bytes]) -> None:
    """Append the line that follows the last whole one; see `append_line`."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        last, end = last_line(descriptor)
        line = following(last) + b"\n"
        os.ftruncate(descriptor, end)
        if os.pwrite(descriptor, line, end) < len(line):
            raise OSError(ENOSPC, "the disk took only part of a line", str(path))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def last_line(descriptor: int) -> tuple[bytes, int]:
    """The last whole line of a file, and the number of bytes up to its end."""
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
    """Refuse to go through a link, which may lead anywhere.

    Raises:
        RecordError: It is one.
    """
    if path.is_symlink():
        raise RecordError(
            f"{path} is a link, through which nothing is written or read: remove it, or put a "
            "folder in its place"
        )


def read_file(path: Path) -> bytes:
    """The content of a regular file of at most a gigabyte.

    Raises:
        OSError: It is larger, or none that `open_file` opens.
    """
    with open_file(path) as file:
        if os.fstat(file.fileno()).st_size > LARGEST_FILE:
            raise OSError(EFBIG, f"it is larger than {LARGEST_FILE:,} bytes")
        return file.read()


def open_file(path: Path) -> BufferedReader:
    """Open a regular file for reading.

    Raises:
        OSError: It is something else: a pipe, which could make us wait for ever, or a link, which
            could lead anywhere.
    """
    try:
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
    """JSON values, nested no deeper than anything of ours is.

    Raises:
        ValueError: It is no JSON, or nested more than `DEEPEST` levels.
        RecursionError: It is nested so deep that it cannot be parsed.
    """
    plain = json.loads(text)
    # Counting is cheap, and enough for nearly every line of a journal.
    if text.count(b"[") + text.count(b"{") > DEEPEST and _is_deeper(plain, DEEPEST):
        raise ValueError(f"it is nested more than {DEEPEST} levels deep")
    return plain


def _is_deeper(plain: Any, levels: int) -> bool:
    layer = [plain] if type(plain) in _NESTED else []
    for _ in range(levels):
        below: list[Any] = []
        for value in layer:
            inner = value.values() if isinstance(value, dict) else value
            # Most hold numbers and words only, often very many.
            if not _NESTED.isdisjoint(map(type, inner)):
                below.extend(item for item in inner if type(item) in _NESTED)
        layer = below
    return bool(layer)


def read_json(path: Path) -> dict[str, Any]:
    """Read a file that `publish_json` wrote, without what it says of its schema.

    Raises:
        RecordError: The file is missing, damaged or of another schema; names the file.
    """
    return read_document(path)[1]


def read_document(path: Path) -> tuple[int, dict[str, Any]]:
    """Read a file that `publish_json` wrote: the version of its schema, and what it holds.

    Raises:
        RecordError: The file is missing, damaged or of another schema; names the file.
    """
    try:
        plain = parse_json(read_file(path))
    except FileNotFoundError as error:
        raise RecordError(f"{path} is missing") from error
    except (OSError, ValueError, RecursionError) as error:
        raise RecordError(f"{path} cannot be read: {error}") from error
    schema = schema_of(path).check(plain, path)
    return schema, {key: value for key, value in plain.items() if key not in {VERSION, WRITER}}


def probe_writable(folder: Path) -> None:
    """Make sure that `folder` can be created and written durably, before anything is started.

    Raises:
        RecordError: It cannot; says why.
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
    """Make the content of a file, or the names in a folder, outlast a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
