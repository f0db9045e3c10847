"""The ledger notices what was changed, moved, taken out or put in."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kept_ledgers import ENTRIES, SUM, attempt, kept, read

from rlexp.errors import RecordError
from rlexp.records.ledger import (
    Entry,
    entry_from_plain,
)
from rlexp.store.layout import ExperimentPaths
from rlexp.store.ledger import (
    NOTHING,
    append_entry,
    publish_document,
    read_ledger,
)

HOSTILE: list[dict[str, Any]] = [
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
    return kept(tmp_path)


def without(lines: list[bytes]) -> list[bytes]:
    """A line is cut out."""
    return [*lines[:2], *lines[3:]]


def swapped(lines: list[bytes]) -> list[bytes]:
    """Two lines change places."""
    return [*lines[:2], lines[3], lines[2], *lines[4:]]


def changed(lines: list[bytes]) -> list[bytes]:
    """A sum is another one."""
    return [*lines[:2], lines[2].replace(b"0001", b"0002"), *lines[3:]]


def doubled(lines: list[bytes]) -> list[bytes]:
    """A line is there twice."""
    return [*lines[:3], lines[2], *lines[3:]]


def headless(lines: list[bytes]) -> list[bytes]:
    """The first line is gone."""
    return lines[1:]


def blank(lines: list[bytes]) -> list[bytes]:
    """A line is empty."""
    return [*lines[:3], b"", *lines[3:]]


def garbage(lines: list[bytes]) -> list[bytes]:
    """A line is none of ours."""
    return [*lines, b"garbage"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (without, ["line 3 does not follow from line 2"]),
        (
            swapped,
            [
                "line 3 does not follow from line 2",
                "line 4 does not follow from line 3",
                "line 5 does not follow from line 4",
            ],
        ),
        (changed, ["line 4 does not follow from line 3"]),
        (doubled, ["line 4 does not follow from line 3"]),
        (headless, ["line 1 does not follow from nothing"]),
        (blank, ["line 4 cannot be read", "line 5 does not follow from line 4"]),
        (garbage, ["line 8 cannot be read"]),
    ],
)
def test_a_broken_chain_says_where(
    paths: ExperimentPaths, change: Callable[[list[bytes]], list[bytes]], expected: list[str]
) -> None:
    """What was taken out, moved, changed or put in; what is entered later does not mend it."""
    lines = change(paths.ledger.read_bytes().splitlines())
    paths.ledger.write_bytes(b"".join(line + b"\n" for line in lines))
    for _ in range(2):
        results = read(paths).breaks
        assert len(expected) == len(results)
        assert all(text.startswith(start) for text, start in zip(results, expected, strict=True))
        append_entry(paths, ENTRIES[1])


def test_a_tail_that_is_no_line_of_ours_is_said(paths: ExperimentPaths) -> None:
    """It is not what a power cut leaves."""
    paths.ledger.write_bytes(paths.ledger.read_bytes() + b"garbage")
    assert ("7 bytes behind line 7 are not of this ledger",) == read(paths).breaks
    head = read(paths).head
    other = json.dumps({"schema": 1, "before": NOTHING}, separators=(",", ":"))
    paths.ledger.write_bytes(paths.ledger.read_bytes()[:-7] + other.encode())
    assert (True, head) == (bool(read(paths).breaks), read(paths).head)


@pytest.mark.parametrize("document", HOSTILE, ids=str)
def test_an_entry_that_makes_no_sense_is_none(document: dict[str, Any]) -> None:
    """It names no file outside a run's folder, and raises nothing else."""
    fitting = {"attempt": attempt().plain(), "document": ENTRIES[5].plain()}
    kind = document.get("kind")
    whole = {**fitting.get(kind, {}), **document} if isinstance(kind, str) else document
    with pytest.raises(RecordError, match="not an entry"):
        entry_from_plain(whole)


@pytest.mark.parametrize(
    "line",
    [b"[" * 100_000, b"[]", b"1", b"null", b'{"schema":2,"before":""}', b"\xff", b'{"schema":1}'],
    ids=lambda line: str(line[:12]),
)
def test_a_hostile_line_cannot_be_read(paths: ExperimentPaths, line: bytes) -> None:
    """It is said in one short line, and costs no other entry."""
    paths.ledger.write_bytes(paths.ledger.read_bytes() + line + b"\n")
    ledger = read(paths)
    assert (*ENTRIES, None) == ledger.entries
    (text,) = ledger.breaks
    assert text.startswith("line 8 cannot be read: ")
    assert len(text) < 200
    assert "\n" not in text


def test_a_ledger_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    """A folder in its place, say; nothing is written then."""
    paths = ExperimentPaths(tmp_path)
    paths.ledger.mkdir()
    with pytest.raises(RecordError, match=r"ledger\.jsonl cannot be read"):
        read_ledger(paths)
    with pytest.raises(RecordError, match=r"ledger\.jsonl cannot be read"):
        publish_document(paths, paths.definition, {})
    assert not paths.definition.exists()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """What it leads to is neither cut nor written."""
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
    tmp_path_factory: pytest.TempPathFactory, entries: list[Entry], number: int, other: bytes
) -> None:
    """Whatever a line that others follow is replaced by, unless by itself."""
    paths = ExperimentPaths(tmp_path_factory.mktemp("chain"))
    for entry in [*entries, *ENTRIES[:2]]:
        append_entry(paths, entry)
    lines = paths.ledger.read_bytes().splitlines()
    at = number % (len(lines) - 1)
    if other != lines[at]:
        lines[at] = other
        paths.ledger.write_bytes(b"\n".join([*lines, b""]))
        assert read(paths).breaks
