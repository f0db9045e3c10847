"""Files that are either the old ones or the new ones, never half of each."""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from errno import EINVAL
from pathlib import Path
from stat import S_ISREG
from typing import Any
from uuid import uuid4

from rlexp.errors import RecordError

SCHEMA = 1
"""Version of every JSON file under `runs/`."""


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
        _sync(temporary)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    _sync(path.parent)


def publish_json(path: Path, plain: Mapping[str, Any]) -> None:
    """Publish a mapping as JSON with its schema version."""
    text = json.dumps({"schema": SCHEMA, **plain}, indent=1, ensure_ascii=False, allow_nan=False)
    # What is no Unicode, of a folder's name say, is written as JSON escapes it.
    publish(path, (text + "\n").encode(errors="backslashreplace"))


def read_file(path: Path) -> bytes:
    """The content of a regular file; a pipe, which could make us wait for ever, is an `OSError`."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(EINVAL, "it is not a regular file")
        return file.read()


def read_json(path: Path) -> dict[str, Any]:
    """Read a file that `publish_json` wrote, without its version.

    Raises:
        RecordError: The file is missing, damaged or of another version; names the file.
    """
    try:
        plain = json.loads(read_file(path))
    except FileNotFoundError as error:
        raise RecordError(f"{path} is missing") from error
    except (OSError, ValueError, RecursionError) as error:
        raise RecordError(f"{path} cannot be read: {error}") from error
    if not isinstance(plain, dict) or plain.pop("schema", None) != SCHEMA:
        raise RecordError(
            f"{path} is not of schema version {SCHEMA}, which this version of rlexp reads",
        )
    return plain


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


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
