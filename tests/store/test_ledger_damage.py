"""The ledger notices lines that were changed, moved, removed or inserted."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kept_ledgers import ENTRIES, SUM, attempt, read, write_sample_ledger

from rlexp.errors import RecordError
from rlexp.records.ledger import (
    Entry,
    entry_from_plain,
)
from rlexp.store.layout import ExperimentPaths
from rlexp.store.registers.hash_chain import NOTHING
from rlexp.store.registers.ledger import (
    append_entry,
    publish_document,
    read_ledger,
)

HOSTILE_ENTRIES: list[dict[str, Any]] = [
    {"kind": "attempt", "run": "../other"},
    {"kind": "attempt", "run": "/etc"},
    {"kind": "attempt", "run": ".lock"},
    {"kind": "attempt", "run": ""},
    {"kind": "attempt", "attempt": 0},
    {"kind": "attempt", "attempt": "1"},
    {"kind": "attempt", "files": {"../../secret": SUM}},
    {"kind": "attempt", "files": {"/etc/passwd": SUM}},
    {"kind": "attempt", "files": {"attempts/2/events.jsonl": SUM}},
    {"kind": "attempt", "files": {"spec.json": "a"}},
    {"kind": "attempt", "files": {"spec.json": 1}},
    {"kind": "attempt", "files": ["spec.json"]},
    {"kind": "attempt", "files": None},
    {"kind": "document", "name": "../experiment.json"},
    {"kind": "document", "name": "trials.jsonl"},
    {"kind": "document", "trials": {"bytes": "many", "sha256": SUM}},
    {"kind": "document", "trials": [1]},
    {"kind": "removed", "run": "a/b"},
    {"kind": "removed", "run": None},
    {"kind": "unknown"},
    {"kind": ["attempt"]},
    {},
]


@pytest.fixture
def paths(tmp_path: Path) -> ExperimentPaths:
    """An experiment with a ledger of every kind of entry."""
    return write_sample_ledger(tmp_path)


def remove_line(lines: list[bytes]) -> list[bytes]:
    """Remove the third line."""
    return [*lines[:2], *lines[3:]]


def swap_lines(lines: list[bytes]) -> list[bytes]:
    """Swap the third and the fourth line."""
    return [*lines[:2], lines[3], lines[2], *lines[4:]]


def change_sum(lines: list[bytes]) -> list[bytes]:
    """Change a checksum in the third line."""
    return [*lines[:2], lines[2].replace(b"0001", b"0002"), *lines[3:]]


def repeat_line(lines: list[bytes]) -> list[bytes]:
    """Repeat the third line."""
    return [*lines[:3], lines[2], *lines[3:]]


def remove_first_line(lines: list[bytes]) -> list[bytes]:
    """Remove the first line."""
    return lines[1:]


def insert_empty_line(lines: list[bytes]) -> list[bytes]:
    """Insert an empty line after the third one."""
    return [*lines[:3], b"", *lines[3:]]


def append_garbage(lines: list[bytes]) -> list[bytes]:
    """Append a line that is no entry."""
    return [*lines, b"garbage"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (remove_line, ["line 3 does not follow from line 2"]),
        (
            swap_lines,
            [
                "line 3 does not follow from line 2",
                "line 4 does not follow from line 3",
                "line 5 does not follow from line 4",
            ],
        ),
        (change_sum, ["line 4 does not follow from line 3"]),
        (repeat_line, ["line 4 does not follow from line 3"]),
        (remove_first_line, ["line 1 does not follow from nothing"]),
        (insert_empty_line, ["line 4 cannot be read", "line 5 does not follow from line 4"]),
        (append_garbage, ["line 8 cannot be read"]),
    ],
)
def test_a_broken_chain_says_where(
    paths: ExperimentPaths, change: Callable[[list[bytes]], list[bytes]], expected: list[str]
) -> None:
    """A changed ledger names the broken lines, even after later entries."""
    lines = change(paths.ledger.read_bytes().splitlines())
    paths.ledger.write_bytes(b"".join(line + b"\n" for line in lines))
    for _ in range(2):
        breaks = read(paths).breaks
        assert len(expected) == len(breaks)
        assert all(text.startswith(start) for text, start in zip(breaks, expected, strict=True))
        append_entry(paths, ENTRIES[1])


def test_an_unknown_tail_is_reported(paths: ExperimentPaths) -> None:
    """Bytes after the last line that no power cut leaves are reported as a break."""
    paths.ledger.write_bytes(paths.ledger.read_bytes() + b"garbage")
    assert ("7 bytes behind line 7 are not of this ledger",) == read(paths).breaks
    head = read(paths).head
    other_line = json.dumps({"schema": 1, "before": NOTHING}, separators=(",", ":"))
    paths.ledger.write_bytes(paths.ledger.read_bytes()[:-7] + other_line.encode())
    assert (True, head) == (bool(read(paths).breaks), read(paths).head)


@pytest.mark.parametrize("document", HOSTILE_ENTRIES, ids=str)
def test_invalid_entries_are_refused(document: dict[str, Any]) -> None:
    """An entry with invalid values or a path outside the run's folder is refused."""
    valid_entries = {"attempt": attempt().plain(), "document": ENTRIES[5].plain()}
    kind = document.get("kind")
    plain_entry = (
        {**valid_entries.get(kind, {}), **document} if isinstance(kind, str) else document
    )
    with pytest.raises(RecordError, match="not an entry"):
        entry_from_plain(plain_entry)


@pytest.mark.parametrize(
    "line",
    [b"[" * 100_000, b"[]", b"1", b"null", b'{"schema":2,"before":""}', b"\xff", b'{"schema":1}'],
    ids=lambda line: str(line[:12]),
)
def test_a_hostile_line_is_reported(paths: ExperimentPaths, line: bytes) -> None:
    """A line that cannot be read is reported shortly, and the other entries are read."""
    paths.ledger.write_bytes(paths.ledger.read_bytes() + line + b"\n")
    ledger = read(paths)
    assert (*ENTRIES, None) == ledger.entries
    (text,) = ledger.breaks
    assert text.startswith("line 8 cannot be read: ")
    assert len(text) < 200
    assert "\n" not in text


def test_an_unreadable_ledger(tmp_path: Path) -> None:
    """A folder in place of the ledger is an error, and no document is written."""
    paths = ExperimentPaths(tmp_path)
    paths.ledger.mkdir()
    with pytest.raises(RecordError, match=r"ledger\.jsonl cannot be read"):
        read_ledger(paths)
    with pytest.raises(RecordError, match=r"ledger\.jsonl cannot be read"):
        publish_document(paths, paths.definition, {})
    assert not paths.definition.exists()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """A ledger that is a link is refused, and the target of the link stays unchanged."""
    target = tmp_path / "mine.txt"
    target.write_text("mine, without an end of line")
    paths = ExperimentPaths(tmp_path / "foreign")
    paths.folder.mkdir()
    paths.ledger.symlink_to(target)
    with pytest.raises(OSError, match=r"symbolic links|link"):
        append_entry(paths, ENTRIES[0])
    with pytest.raises(RecordError, match=r"ledger\.jsonl cannot be"):
        publish_document(paths, paths.definition, {})
    assert "mine, without an end of line" == target.read_text()


@given(st.lists(st.sampled_from(ENTRIES), max_size=8), st.integers(0, 7), st.binary(min_size=1))
def test_no_change_of_a_line_goes_unnoticed(
    tmp_path_factory: pytest.TempPathFactory, entries: list[Entry], number: int, replacement: bytes
) -> None:
    """Any replacement of a line before the last one breaks the chain."""
    paths = ExperimentPaths(tmp_path_factory.mktemp("chain"))
    for entry in [*entries, *ENTRIES[:2]]:
        append_entry(paths, entry)
    lines = paths.ledger.read_bytes().splitlines()
    index = number % (len(lines) - 1)
    if replacement != lines[index]:
        lines[index] = replacement
        paths.ledger.write_bytes(b"\n".join([*lines, b""]))
        assert read(paths).breaks
