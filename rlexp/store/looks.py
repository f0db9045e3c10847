"""The register of looks on disk: a hash chain of lines in `runs/looks.jsonl`.

A look is entered once. `rlexp rm` leaves the register, so that a removed configuration still counts.
"""

import hashlib
import json
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from rlexp.errors import RecordError
from rlexp.records.look import Look, LookRegister
from rlexp.store.files import append_line_with, parse_json, read_file
from rlexp.store.hash_chain import NOTHING, chained, head_bytes, is_torn, sum_of_line
from rlexp.store.layout import Layout
from rlexp.store.lease import hold
from rlexp.store.schemas import LOOKS

PATIENCE = 10.0
"""Seconds to wait for another command that enters looks; that takes milliseconds."""
ID = b',"look":"'
"""Stands between the sum of the line before and the identity of the look."""


def read_looks(layout: Layout, tasks: Collection[str] | None = None) -> LookRegister:
    """Read the register and check its chain; empty where there is none.

    Args:
        layout: The folder `runs/`.
        tasks: The tasks whose looks are returned; None returns all, and then every line is parsed.

    Raises:
        RecordError: The file cannot be read.
    """
    content = _content(layout.looks)
    if content is None:
        return LookRegister()
    # Only lines with these texts are parsed, because parsing is most of the work.
    marks = None if tasks is None else [f'"task":{json.dumps(t)}'.encode() for t in tasks]
    *lines, tail = content.split(b"\n")
    sums, looks, breaks = [NOTHING], [], []
    for number, line in enumerate(lines, start=1):
        if not line.startswith(head_bytes(sums[-1], LOOKS)):
            place = f"line {number - 1}" if number > 1 else "nothing"
            breaks.append(
                f"line {number} does not follow from {place}: a line was changed, moved or taken out"
            )
        if marks is None or any(mark in line for mark in marks):
            try:
                looks.append(_read(line))
            except RecordError as error:
                breaks.append(f"line {number} cannot be read: {error}")
        sums.append(sum_of_line(line))
    if not is_torn(tail, sums[-1], LOOKS):
        breaks.append(f"{len(tail)} bytes behind line {len(lines)} are not of this register")
    return LookRegister(
        looks=tuple(looks),
        sums=tuple(sums[1:]),
        sha256=hashlib.sha256(content).hexdigest(),
        breaks=tuple(breaks),
        torn=bool(tail),
    )


def enter_looks(layout: Layout, looks: Sequence[Look]) -> None:
    """Enter the looks that the register does not hold yet, durably and by one write.

    After a kill, the register holds whole lines, and perhaps a torn one that the next look replaces.

    Raises:
        HeldError: Another process holds the lock of the register.
        OSError: The folder cannot be written.
        RecordError: The register cannot be read or locked.
    """
    # Look without the lock first: most commands find nothing to enter, and must not wait.
    if not _missing(layout, looks):
        return
    with hold(layout.looks_lock, "the register of looks", now=time.time(), patience=PATIENCE):
        if missing := _missing(layout, looks):
            documents = [look.plain() for look in missing]
            append_line_with(layout.looks, lambda last: chained(last, documents, LOOKS))


def _missing(layout: Layout, looks: Sequence[Look]) -> list[Look]:
    """The looks that the register does not hold, each once."""
    content = _content(layout.looks) or b""
    start = len(head_bytes(NOTHING, LOOKS)) + len(ID)
    # An identity has a fixed place in its line, so that no line needs to be parsed.
    entered = {line[start : start + 64] for line in content.split(b"\n")[:-1]}
    by_id = {look.id: look for look in looks}
    return [look for id_, look in by_id.items() if id_.encode() not in entered]


def _content(path: Path) -> bytes | None:
    try:
        return read_file(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}") from error


def _read(line: bytes) -> Look:
    try:
        document = parse_json(line)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{error!r}"[:120]) from error
    LOOKS.check(document, "it")
    return Look.from_plain(document)
