"""The ledger: a chain of lines, appended and read."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from in_full import IN_FULL
from kept_ledgers import ENTRIES, attempt, kept, read

from rlexp.records.ledger import (
    DOCUMENTS,
    ExpectedRecords,
    Ledger,
    RemovedRun,
    SealedDocument,
)
from rlexp.store.layout import ExperimentPaths
from rlexp.store.ledger import (
    NOTHING,
    append_entry,
    publish_document,
    read_ledger,
    sum_of_file,
)


@pytest.fixture
def paths(tmp_path: Path) -> ExperimentPaths:
    """An experiment with a ledger of every kind of entry."""
    return kept(tmp_path)


def test_what_was_entered_is_read_back(paths: ExperimentPaths) -> None:
    """Every entry, in order; the head is the sha256 of the last line."""
    ledger = read(paths)
    assert tuple(ENTRIES) == ledger.entries
    assert ((), False) == (ledger.breaks, ledger.torn)
    last = paths.ledger.read_bytes().splitlines()[-1]
    assert hashlib.sha256(last).hexdigest() == ledger.head


def test_the_first_line_says_that_nothing_is_before_it(paths: ExperimentPaths) -> None:
    """Each further one holds the sum of the one before."""
    lines = paths.ledger.read_bytes().splitlines()
    expected = [NOTHING, *(hashlib.sha256(line).hexdigest() for line in lines[:-1])]
    assert expected == [json.loads(line)["before"] for line in lines]


def test_no_ledger_is_none(tmp_path: Path) -> None:
    """It is not the same as an empty one."""
    assert None is read_ledger(ExperimentPaths(tmp_path))
    (tmp_path / "ledger.jsonl").touch()
    assert Ledger() == read_ledger(ExperimentPaths(tmp_path))
    assert None is read(ExperimentPaths(tmp_path)).head


def test_a_ledger_cut_at_any_byte_keeps_its_whole_lines(paths: ExperimentPaths) -> None:
    """No cut in the last two lines is taken for tampering; the next entry follows on cleanly."""
    content = paths.ledger.read_bytes()
    starts = [at + 1 for at, byte in enumerate(content) if byte == ord("\n")]
    near = {start + shift for start in starts for shift in (-2, -1, 0, 1)}
    few = sorted({*range(starts[-3], len(content), 1 if IN_FULL else 5), *near})
    for cut in (at for at in few if starts[-3] <= at < len(content)):
        paths.ledger.write_bytes(content[:cut])
        whole = content[:cut].count(b"\n")
        ledger = read(paths)
        assert (tuple(ENTRIES[:whole]), ()) == (ledger.entries, ledger.breaks)
        assert (cut not in starts) == ledger.torn
        append_entry(paths, ENTRIES[1])
        again = read(paths)
        assert (*ENTRIES[:whole], ENTRIES[1]) == again.entries
        assert ((), False) == (again.breaks, again.torn)


def test_zeros_at_the_end_are_a_torn_line(paths: ExperimentPaths) -> None:
    """A power cut can leave them in place of what was being written."""
    content = paths.ledger.read_bytes()
    for tail in (b"\0\0\0", b'{"schema":1,"bef\0\0'):
        paths.ledger.write_bytes(content + tail)
        assert ((), True) == (read(paths).breaks, read(paths).torn)


FULL = """
import resource, signal, sys
from pathlib import Path
from rlexp.records.ledger import RemovedRun
from rlexp.store.layout import ExperimentPaths
from rlexp.store.ledger import append_entry
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
def test_a_line_that_finds_no_room_is_an_error_and_costs_nothing(
    paths: ExperimentPaths, room: int
) -> None:
    """The entries before it stay, and the next one follows on them."""
    command = [sys.executable, "-c", FULL, str(paths.folder), str(room)]
    assert 7 == subprocess.run(command, check=False).returncode
    assert (tuple(ENTRIES), (), room > 0) == (
        read(paths).entries,
        read(paths).breaks,
        read(paths).torn,
    )
    append_entry(paths, ENTRIES[0])
    assert ((*ENTRIES, ENTRIES[0]), ()) == (read(paths).entries, read(paths).breaks)


def test_a_document_is_entered_once(tmp_path: Path) -> None:
    """Writing the same again enters nothing; other content does."""
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
    """So that a crash in between leaves an entry, and no file that nothing tells of."""
    paths = ExperimentPaths(tmp_path)
    (paths.definition / "in the way").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        publish_document(paths, paths.definition, {})
    assert 1 == len(read(paths).entries)


def test_writing_over_an_edited_document_is_entered(tmp_path: Path) -> None:
    """What was there is told by its sum, unless it was entered before, or there was no ledger."""
    paths = ExperimentPaths(tmp_path)
    paths.definition.write_text("from before there was a ledger")
    publish_document(paths, paths.definition, {"seeds": 1})
    publish_document(paths, paths.definition, {"seeds": 2})
    paths.definition.write_text("edited")
    publish_document(paths, paths.definition, {"seeds": 4})
    results = [e.instead_of for e in read(paths).entries if isinstance(e, SealedDocument)]
    assert [None, None, hashlib.sha256(b"edited").hexdigest()] == results


def sums(paths: ExperimentPaths, name: str) -> list[str | None]:
    """What was entered of a document, in order; the chain is whole."""
    ledger = read(paths)
    assert () == ledger.breaks
    return [e.sha256 for e in ledger.entries if isinstance(e, SealedDocument) and e.name == name]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_that_was_not_written_is_entered_as_it_is(tmp_path: Path, name: str) -> None:
    """Before anything else is entered, itself included; where there was none, that is entered."""
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


@pytest.mark.parametrize("there", ["edited", "link", "written"])
def test_a_document_that_is_something_else_is_not_entered(tmp_path: Path, there: str) -> None:
    """What no command wrote stays told apart from what one did."""
    paths = ExperimentPaths(tmp_path)
    publish_document(paths, paths.adaptive, {"looks": 1})
    if there == "edited":
        paths.adaptive.write_text("edited")
    elif there == "link":
        paths.adaptive.rename(tmp_path / "other")
        paths.adaptive.symlink_to("other")
    append_entry(paths, attempt())
    assert 1 == len(sums(paths, "adaptive.json"))


def test_the_account_is_what_should_be_there() -> None:
    """Removed runs are not; those that were found to be gone are remembered."""
    account = ExpectedRecords.of(ENTRIES[:4])
    assert {"one": {1}, "two": {1, 2}} == {n: set(own) for n, own in account.runs.items()}
    account = ExpectedRecords.of(ENTRIES)
    assert {} == account.runs
    assert {"two": {1, 2}} == {n: set(own) for n, own in account.gone.items()}
    assert ENTRIES[-1] is account.last
    account = ExpectedRecords.of([*ENTRIES, attempt("two", 1), RemovedRun(run="two")])
    assert ({}, {}) == (account.runs, account.gone)


def test_an_attempt_that_is_entered_again_stands_for_those_it_follows() -> None:
    """Its number was free again: what had it, and what came after, is gone."""
    account = ExpectedRecords.of(
        [attempt("two", 1), attempt("two", 2), attempt("two", 1, id="other")]
    )
    assert {1: attempt("two", 1, id="other")} == account.runs["two"]
    assert {"two"} == account.anew


def test_attempts_may_be_entered_in_any_order() -> None:
    """A late one may be the earlier one; neither replaces the other."""
    account = ExpectedRecords.of([attempt("two", 2), attempt("two", 1, late=True)])
    assert ({1, 2}, set()) == (set(account.runs["two"]), account.anew)
