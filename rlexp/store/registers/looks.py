"""The register of looks on disk: a hash chain of lines in `runs/looks.jsonl`.

A look is entered once. `rlexp rm` leaves the register, so that a removed configuration still counts.
"""

import json
import time
from collections.abc import Collection, Sequence

from rlexp.errors import RecordError
from rlexp.records.look import Look, LookRegister
from rlexp.store.files import append_line_with, parse_json
from rlexp.store.layout import Layout
from rlexp.store.locks.lease import hold
from rlexp.store.registers.hash_chain import (
    NOTHING,
    chained,
    content_of,
    head_bytes,
    read_chain,
    read_entries,
)
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
    chain = read_chain(layout.looks, LOOKS)
    # Only lines with these texts are parsed, because parsing is most of the work.
    marks = None if tasks is None else [f'"task":{json.dumps(t)}'.encode() for t in tasks]

    def read(line: bytes) -> Look | None:
        return _read(line) if marks is None or any(mark in line for mark in marks) else None

    looks, breaks = read_entries(chain, read)
    return LookRegister(
        looks=looks, sums=chain.sums, sha256=chain.sha256, breaks=breaks, torn=chain.torn
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
    content = content_of(layout.looks) or b""
    start = len(head_bytes(NOTHING, LOOKS)) + len(ID)
    # An identity has a fixed place in its line, so that no line needs to be parsed.
    entered = {line[start : start + 64] for line in content.split(b"\n")[:-1]}
    by_id = {look.id: look for look in looks}
    return [look for id_, look in by_id.items() if id_.encode() not in entered]


def _read(line: bytes) -> Look:
    try:
        document = parse_json(line)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{error!r}"[:120]) from error
    LOOKS.check(document, "it")
    return Look.from_plain(document)
