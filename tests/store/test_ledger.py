"""The ledger: a chain of lines that are appended and read."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from in_full import IN_FULL
from kept_ledgers import ENTRIES, attempt, read, write_sample_ledger

from rlexp.records.ledger import (
    DOCUMENTS,
    ExpectedRecords,
    Ledger,
    RemovedRun,
    SealedDocument,
)
from rlexp.store.layout import ExperimentPaths
from rlexp.store.registers.hash_chain import NOTHING
from rlexp.store.registers.ledger import (
    append_entry,
    publish_document,
    read_ledger,
    sum_of_file,
)


@pytest.fixture
def paths(tmp_path: Path) -> ExperimentPaths:
    """An experiment with a ledger of every kind of entry."""
    return write_sample_ledger(tmp_path)


def test_what_was_entered_is_read_back(paths: ExperimentPaths) -> None:
    """All entries are read in order, and the head is the sha256 of the last line."""
    ledger = read(paths)
    assert tuple(ENTRIES) == ledger.entries
    assert ((), False) == (ledger.breaks, ledger.torn)
    last = paths.ledger.read_bytes().splitlines()[-1]
    assert hashlib.sha256(last).hexdigest() == ledger.head


def test_each_line_has_the_sum_of_the_line_before(paths: ExperimentPaths) -> None:
    """Each line has the sha256 of the line before; the first line has a fixed value."""
    lines = paths.ledger.read_bytes().splitlines()
    expected = [NOTHING, *(hashlib.sha256(line).hexdigest() for line in lines[:-1])]
    assert expected == [json.loads(line)["before"] for line in lines]


def test_a_missing_ledger_differs_from_an_empty_one(tmp_path: Path) -> None:
    """A missing ledger is read as None, and an empty one as a ledger without entries."""
    assert None is read_ledger(ExperimentPaths(tmp_path))
    (tmp_path / "ledger.jsonl").touch()
    assert Ledger() == read_ledger(ExperimentPaths(tmp_path))
    assert None is read(ExperimentPaths(tmp_path)).head


def test_a_ledger_cut_at_any_byte_keeps_its_whole_lines(paths: ExperimentPaths) -> None:
    """A cut in the last two lines is a torn line and no break, and the next entry follows."""
    content = paths.ledger.read_bytes()
    line_starts = [position + 1 for position, byte in enumerate(content) if byte == ord("\n")]
    positions_near_starts = {start + shift for start in line_starts for shift in (-2, -1, 0, 1)}
    cuts = sorted(
        {*range(line_starts[-3], len(content), 1 if IN_FULL else 5), *positions_near_starts}
    )
    for cut in (position for position in cuts if line_starts[-3] <= position < len(content)):
        paths.ledger.write_bytes(content[:cut])
        complete_lines = content[:cut].count(b"\n")
        ledger = read(paths)
        assert (tuple(ENTRIES[:complete_lines]), ()) == (ledger.entries, ledger.breaks)
        assert (cut not in line_starts) == ledger.torn
        append_entry(paths, ENTRIES[1])
        extended = read(paths)
        assert (*ENTRIES[:complete_lines], ENTRIES[1]) == extended.entries
        assert ((), False) == (extended.breaks, extended.torn)


def test_zeros_at_the_end_are_a_torn_line(paths: ExperimentPaths) -> None:
    """Zeros at the end are a torn line, because a power cut can leave them."""
    content = paths.ledger.read_bytes()
    for tail in (b"\0\0\0", b'{"schema":1,"bef\0\0'):
        paths.ledger.write_bytes(content + tail)
        assert ((), True) == (read(paths).breaks, read(paths).torn)


APPEND_ON_FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from rlexp.records.ledger import RemovedRun
from rlexp.store.registers.hash_chain import NOTHING
from rlexp.store.layout import ExperimentPaths
from rlexp.store.registers.ledger import append_entry
paths = ExperimentPaths(Path(sys.argv[1]))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
room = paths.ledger.stat().st_size + int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
try:
    append_entry(paths, RemovedRun(run="x"))
except OSError:
    sys.exit(7)
"""


@pytest.mark.parametrize("room", [0, 1, 50])
def test_an_entry_on_a_full_disk(paths: ExperimentPaths, room: int) -> None:
    """An entry without room is an error; earlier entries stay, and the next entry follows."""
    command = [sys.executable, "-c", APPEND_ON_FULL_DISK, str(paths.folder), str(room)]
    assert 7 == subprocess.run(command, check=False).returncode
    assert (tuple(ENTRIES), (), room > 0) == (
        read(paths).entries,
        read(paths).breaks,
        read(paths).torn,
    )
    append_entry(paths, ENTRIES[0])
    assert ((*ENTRIES, ENTRIES[0]), ()) == (read(paths).entries, read(paths).breaks)


def test_a_document_is_entered_once(tmp_path: Path) -> None:
    """Writing the same document again adds no entry; other content adds one."""
    paths = ExperimentPaths(tmp_path / "new")
    for seeds in (1, 1, 2):
        publish_document(paths, paths.definition, {"seeds": seeds})
    first, second = read(paths).entries
    assert isinstance(first, SealedDocument)
    assert isinstance(second, SealedDocument)
    assert first.sha256 != second.sha256
    assert second.sha256 == sum_of_file(paths.definition)
    assert None is second.instead_of


def test_a_document_is_entered_before_it_is_written(tmp_path: Path) -> None:
    """A document that cannot be written is in the ledger, so that no file lacks an entry."""
    paths = ExperimentPaths(tmp_path)
    (paths.definition / "in the way").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        publish_document(paths, paths.definition, {})
    assert 1 == len(read(paths).entries)


def test_writing_over_an_edited_document_is_entered(tmp_path: Path) -> None:
    """An entry has the checksum of a document that was edited by hand and is replaced."""
    paths = ExperimentPaths(tmp_path)
    paths.definition.write_text("from before there was a ledger")
    publish_document(paths, paths.definition, {"seeds": 1})
    publish_document(paths, paths.definition, {"seeds": 2})
    paths.definition.write_text("edited")
    publish_document(paths, paths.definition, {"seeds": 4})
    replaced_sums = [e.instead_of for e in read(paths).entries if isinstance(e, SealedDocument)]
    assert [None, None, hashlib.sha256(b"edited").hexdigest()] == replaced_sums


def sums(paths: ExperimentPaths, name: str) -> list[str | None]:
    """The checksums that were entered for a document, in order."""
    ledger = read(paths)
    assert () == ledger.breaks
    return [e.sha256 for e in ledger.entries if isinstance(e, SealedDocument) and e.name == name]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_removed_or_restored_document_is_entered(tmp_path: Path, name: str) -> None:
    """A document that was removed or restored is entered before the next entry."""
    paths = ExperimentPaths(tmp_path)
    path = paths.folder / name
    publish_document(paths, path, {"seeds": 1})
    written = path.read_bytes()
    path.unlink()
    append_entry(paths, attempt())
    first = hashlib.sha256(written).hexdigest()
    assert [first, None] == sums(paths, name)
    publish_document(paths, path, {"seeds": 1})
    publish_document(paths, path, {"seeds": 2})
    second = sum_of_file(path)
    path.write_bytes(written)
    publish_document(paths, path, {"seeds": 3})
    assert [first, None, first, second, first, sum_of_file(path)] == sums(paths, name)
    for _ in range(2):
        append_entry(paths, attempt())
    assert 6 == len(sums(paths, name))


@pytest.mark.parametrize("state", ["edited", "link", "written"])
def test_an_edited_document_is_not_entered(tmp_path: Path, state: str) -> None:
    """A document that no command wrote, or that is a link, is not entered."""
    paths = ExperimentPaths(tmp_path)
    publish_document(paths, paths.adaptive, {"looks": 1})
    if state == "edited":
        paths.adaptive.write_text("edited")
    elif state == "link":
        paths.adaptive.rename(tmp_path / "other")
        paths.adaptive.symlink_to("other")
    append_entry(paths, attempt())
    assert 1 == len(sums(paths, "adaptive.json"))


def test_expected_records_of_a_ledger() -> None:
    """Removed runs are not expected; runs that were found missing are remembered."""
    expected = ExpectedRecords.of(ENTRIES[:4])
    assert {"one": {1}, "two": {1, 2}} == {
        n: set(attempts) for n, attempts in expected.runs.items()
    }
    expected = ExpectedRecords.of(ENTRIES)
    assert {} == expected.runs
    assert {"two": {1, 2}} == {n: set(attempts) for n, attempts in expected.gone.items()}
    assert ENTRIES[-1] is expected.last
    expected = ExpectedRecords.of([*ENTRIES, attempt("two", 1), RemovedRun(run="two")])
    assert ({}, {}) == (expected.runs, expected.gone)


def test_an_attempt_that_is_entered_again_replaces_later_ones() -> None:
    """A second entry of an attempt replaces the first one and all later attempts."""
    expected = ExpectedRecords.of(
        [attempt("two", 1), attempt("two", 2), attempt("two", 1, id="other")]
    )
    assert {1: attempt("two", 1, id="other")} == expected.runs["two"]
    assert {"two"} == expected.anew


def test_attempts_may_be_entered_in_any_order() -> None:
    """A late entry of an earlier attempt replaces no other attempt."""
    expected = ExpectedRecords.of([attempt("two", 2), attempt("two", 1, late=True)])
    assert ({1, 2}, set()) == (set(expected.runs["two"]), expected.anew)
