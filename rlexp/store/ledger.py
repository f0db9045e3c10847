"""The ledger on disk: a chain of lines, each with the sha256 of the line before it.

Only the command that drives the experiment, and holds its lock, appends to it.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlexp.errors import NO_SPACE, RecordError
from rlexp.records.ledger import Entry, Ledger, Prefix, SealedDocument, entry_from_plain
from rlexp.store.files import (
    append_line_with,
    json_bytes,
    open_file,
    parse_json,
    publish,
    read_file,
)
from rlexp.store.layout import ExperimentPaths
from rlexp.store.schemas import LEDGER, VERSION, schema_of

NOTHING = "0" * 64
"""What stands in the first line, before which there is none."""
SMALL = 1 << 20
"""Bytes of a file that is read whole."""


def append_entry(paths: ExperimentPaths, entry: Entry) -> None:
    """Enter something durably, by one write.

    A document that was entered last, and then not written, is entered again as it is, before
    that: behind another line its entry would be known no more to be too early.

    Raises:
        OSError: The disk is full or gone; nothing is entered.
        RecordError: The ledger cannot be read.
    """
    append_line_with(paths.ledger, lambda last: _lines(paths, last, entry))


def publish_document(
    paths: ExperimentPaths, path: Path, plain: Mapping[str, Any], trials: Prefix | None = None
) -> None:
    """Enter what a file of the experiment will be, then publish it.

    In this order a crash in between leaves an entry that is known to be too early: the last one.

    Args:
        paths: The experiment.
        path: The file.
        plain: What it will hold.
        trials: What it was made of, where that is more than it says.

    Raises:
        RecordError: The ledger cannot be read or written.
    """
    content = json_bytes(plain, schema_of(path))
    paths.folder.mkdir(parents=True, exist_ok=True)
    try:
        _enter_document(paths, path, hashlib.sha256(content).hexdigest(), trials)
    except OSError as error:
        if error.errno in NO_SPACE:
            raise
        raise RecordError(f"{paths.ledger} cannot be written: {error.strerror}") from error
    publish(path, content)


def _enter_document(
    paths: ExperimentPaths, path: Path, sha256: str, trials: Prefix | None
) -> None:
    known = [e.sha256 for e in _documents(paths, path.name)]
    if known[-1:] == [sha256]:
        return
    there = sum_of_file(path)
    entry = SealedDocument(
        name=path.name,
        sha256=sha256,
        trials=trials,
        instead_of=there if known and there not in {None, *known} else None,
    )
    append_entry(paths, entry)


def _documents(paths: ExperimentPaths, name: str) -> Iterator[SealedDocument]:
    """What was entered of a document, in order."""
    sign = f'"kind":"document","name":"{name}"'.encode()
    for line in (_content(paths) or b"").split(b"\n")[:-1]:
        if sign in line:
            with suppress(RecordError):
                entry = _read(line)[1]
                if isinstance(entry, SealedDocument):
                    yield entry


def _unwritten(paths: ExperimentPaths, last: bytes) -> SealedDocument | None:
    """What is there instead of the document that the last line announces, where that is known.

    That is what was entered before it, or no file where nothing was.
    """
    entry = None
    with suppress(RecordError):
        entry = _read(last)[1]
    if not isinstance(entry, SealedDocument):
        return None
    path = paths.folder / entry.name
    there = sum_of_file(path)
    if there == entry.sha256 or (there is None and os.path.lexists(path)):
        return None
    none = SealedDocument(name=entry.name, sha256=None)
    before = [none, *_documents(paths, entry.name)][-2]
    return replace(before, instead_of=None) if there == before.sha256 else None


def read_ledger(paths: ExperimentPaths) -> Ledger | None:
    """Read the ledger, and check its chain; nothing where there is none.

    A last line that was not finished is dropped and said.

    Raises:
        RecordError: The file cannot be read.
    """
    content = _content(paths)
    if content is None:
        return None
    *lines, tail = content.split(b"\n")
    sums, entries, breaks = [NOTHING], [], []
    for number, line in enumerate(lines, start=1):
        entry = None
        try:
            before, entry = _read(line)
            if before != sums[-1]:
                breaks.append(
                    f"line {number} does not follow from "
                    f"{f'line {number - 1}' if number > 1 else 'nothing'}: "
                    "a line was changed, moved or taken out"
                )
        except RecordError as error:
            breaks.append(f"line {number} cannot be read: {error}")
        entries.append(entry)
        sums.append(_sum_of(line))
    if not _is_torn(tail, sums[-1]):
        breaks.append(f"{len(tail)} bytes behind line {len(lines)} are not of this ledger")
    return Ledger(
        sums=tuple(sums[1:]), entries=tuple(entries), breaks=tuple(breaks), torn=bool(tail)
    )


def sum_of_file(path: Path, most: int | None = None) -> str | None:
    """The sha256 of a regular file, or of its first bytes; nothing where it cannot be read."""
    try:
        with open_file(path) as file:
            # Of a small file, the buffer of `file_digest` takes longer than its sum.
            if most is not None or os.fstat(file.fileno()).st_size <= SMALL:
                return hashlib.sha256(file.read(most)).hexdigest()
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _content(paths: ExperimentPaths) -> bytes | None:
    try:
        return read_file(paths.ledger)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RecordError(f"{paths.ledger} cannot be read: {error.strerror}") from error


def _lines(paths: ExperimentPaths, last: bytes, entry: Entry) -> bytes:
    """The lines that follow the last one, so that `entry` is the last."""
    settled = _unwritten(paths, last)
    if settled is None:
        return _line(_sum_of(last), entry)
    line = _line(_sum_of(last), settled)
    return line + b"\n" + _line(_sum_of(line), entry)


def _line(before: str, entry: Entry) -> bytes:
    plain = {**_head(before), **entry.plain()}
    return json.dumps(plain, separators=(",", ":")).encode()


def _head(before: str) -> dict[str, Any]:
    return {VERSION: LEDGER.version, "before": before}


def _read(line: bytes) -> tuple[str, Entry]:
    """A line's entry, and the sum that it says the line before it has."""
    try:
        plain = parse_json(line)
        LEDGER.check(plain, "it")
        return str(plain["before"]), entry_from_plain(plain)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RecordError(f"{error!r}"[:120]) from error


def _sum_of(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest() if line else NOTHING


def _is_torn(tail: bytes, before: str) -> bool:
    """Whether it is nothing, or the beginning of the next line, as a power cut leaves it."""
    begun = json.dumps(_head(before), separators=(",", ":"))[:-1].encode()
    written = tail.rstrip(b"\0")
    return written[: len(begun)] == begun[: len(written)]
