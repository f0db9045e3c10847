"""The ledger on disk: a hash chain of lines, each with the sha256 of the line before it.

Only the command that drives the experiment, and holds its lock, appends to the ledger.
"""

import hashlib
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
from rlexp.store.registers.hash_chain import NOTHING, chained, is_torn, sum_of_line
from rlexp.store.schemas import LEDGER, schema_of

SMALL = 1 << 20
"""Bytes up to which a file is read at once."""


def append_entry(paths: ExperimentPaths, entry: Entry) -> None:
    """Append an entry durably, by one write.

    The last entry may announce a document that a crash kept from being written. Then an entry with
    the document's actual content is appended first, because only the last entry of the ledger may
    differ from the file.

    Raises:
        OSError: The disk is full or gone; the entry is not written.
        RecordError: The ledger cannot be read.
    """
    append_line_with(paths.ledger, lambda last: _lines(paths, last, entry))


def publish_document(
    paths: ExperimentPaths,
    path: Path,
    document: Mapping[str, Any],
    trials: Prefix | None = None,
) -> None:
    """Append the checksum of a document to the ledger, then publish the document.

    In this order, a crash in between leaves a last entry that differs from the file, which is
    recognised. In the other order it would leave a file that looks manipulated.

    Args:
        paths: The experiment.
        path: The file.
        document: Its content.
        trials: The part of `trials.jsonl` that the document was made from, if any.

    Raises:
        RecordError: The ledger cannot be read or written.
    """
    content = json_bytes(document, schema_of(path))
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
    entered = [e.sha256 for e in _documents(paths, path.name)]
    if entered[-1:] == [sha256]:
        return
    on_disk = sum_of_file(path)
    # A file that the ledger has never seen was changed by hand: the new entry says so.
    entry = SealedDocument(
        name=path.name,
        sha256=sha256,
        trials=trials,
        instead_of=on_disk if entered and on_disk not in {None, *entered} else None,
    )
    append_entry(paths, entry)


def _documents(paths: ExperimentPaths, name: str) -> Iterator[SealedDocument]:
    """The entries of a document, in order."""
    marker = f'"kind":"document","name":"{name}"'.encode()
    for line in (_content(paths) or b"").split(b"\n")[:-1]:
        # A search in bytes: parsing a hundred thousand other lines would take seconds.
        if marker in line:
            with suppress(RecordError):
                entry = _read(line)[1]
                if isinstance(entry, SealedDocument):
                    yield entry


def _unwritten(paths: ExperimentPaths, last: bytes) -> SealedDocument | None:
    """The earlier entry that matches the file, if the last line announces a document in vain.

    Where the document had no earlier entry, the result says that there is no file. None where the
    document was written, or the file matches no entry.
    """
    entry = None
    with suppress(RecordError):
        entry = _read(last)[1]
    if not isinstance(entry, SealedDocument):
        return None
    path = paths.folder / entry.name
    on_disk = sum_of_file(path)
    # A file that exists and cannot be read says nothing of its content.
    if on_disk == entry.sha256 or (on_disk is None and os.path.lexists(path)):
        return None
    no_file = SealedDocument(name=entry.name, sha256=None)
    before = [no_file, *_documents(paths, entry.name)][-2]
    return replace(before, instead_of=None) if on_disk == before.sha256 else None


def read_ledger(paths: ExperimentPaths) -> Ledger | None:
    """Read the ledger and check its chain; None where there is no ledger.

    An incomplete last line is dropped and reported as `torn`.

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
        sums.append(sum_of_line(line))
    if not is_torn(tail, sums[-1], LEDGER):
        breaks.append(f"{len(tail)} bytes behind line {len(lines)} are not of this ledger")
    return Ledger(
        sums=tuple(sums[1:]), entries=tuple(entries), breaks=tuple(breaks), torn=bool(tail)
    )


def sum_of_file(path: Path, most: int | None = None) -> str | None:
    """The sha256 of a regular file, or of its first `most` bytes; None where it is unreadable."""
    try:
        with open_file(path) as file:
            # For a small file, allocating the buffer of `file_digest` takes longer than hashing.
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
    """The content to append after the last line: `entry`, and a correction before it if needed."""
    correction = _unwritten(paths, last)
    entries = [entry] if correction is None else [correction, entry]
    return chained(last, (e.plain() for e in entries), LEDGER)


def _read(line: bytes) -> tuple[str, Entry]:
    """The hash of the line before, as a line claims it, and the entry of the line."""
    try:
        document = parse_json(line)
        LEDGER.check(document, "it")
        return str(document["before"]), entry_from_plain(document)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RecordError(f"{error!r}"[:120]) from error
