"""A process that dies or a disk that fails at any system call leaves the old or the new content."""

from collections.abc import Callable
from pathlib import Path

import pytest
from injection import execute
from tracing import injecting, traced
from writings import EVENTS, PIECES, SELECTION, SPEC, prepare, run_of, write_all

from rlexp.records.run import State
from rlexp.store.files import read_json
from rlexp.store.journal import read_journal
from rlexp.store.layout import ExperimentPaths
from rlexp.store.runs import new_attempt, read_run
from rlexp.store.sweeps import read_selection, read_trials

PROGRAM = """
import sys
from writings import report_all

report_all(*sys.argv[1:])
"""
CALLS = {"write": 3, "fsync": 6, "rename": 3, "mkdir": 2, "pwrite64": 1, "ftruncate": 1}
"""System calls that write the pieces, and how many of each the longest piece makes."""


def write_with_fault(root: Path, call: str, what: str, when: int) -> dict[str, int]:
    """Write every piece with a fault at the n-th call; returns the exit codes."""
    for name in PIECES:
        prepare(root / name)
    answers, trace = root / "codes", root / "trace"
    answers.mkdir()
    result = execute(injecting(call, what, str(when), trace), PROGRAM, [root, answers])
    codes = dict(path.name.split("=") for path in answers.iterdir())
    assert set(PIECES) == set(codes), result.stdout
    return {piece: int(codes[piece]) for piece in PIECES}


def holds(folder: Path, piece: str) -> bool:
    """Whether the new piece is there; a part of the new piece is an error."""
    paths, run = ExperimentPaths(folder), run_of(folder)
    definition = read_json(paths.definition)
    assert definition["name"] in {"old", "new"}
    checks: dict[str, Callable[[], bool]] = {
        "definition": lambda: definition == {"name": "new", "filling": "y" * 20_000},
        "spec": lambda: run.spec.exists() and read_run(run).record.spec == SPEC,
        "attempt": lambda: any(attempt.patch.exists() for attempt in run.attempts()),
        "journal": lambda: holds_journal(folder),
        "verdict": lambda: read_run(run).record.state is State.COMPLETED,
        "trial": lambda: [t.number for t in read_trials(paths)] == [0, 1],
        "selection": lambda: read_selection(paths) == SELECTION,
    }
    return checks[piece]()


def holds_journal(folder: Path) -> bool:
    """Whether every event is in the journal; fewer events must be the first ones."""
    journal = read_journal(run_of(folder).attempts()[0].journal)
    assert journal.events == list(EVENTS[: len(journal.events)])
    assert (journal.torn, journal.quarantined) == (0, 0)
    return len(journal.events) == len(EVENTS)


def old_is_intact(folder: Path, piece: str) -> bool:
    """Whether the old content is complete and the new piece is not there."""
    paths = ExperimentPaths(folder)
    state = read_run(run_of(folder)).record.state if piece != "spec" else State.PLANNED
    return (
        read_json(paths.definition)["name"] == "old"
        and [t.number for t in read_trials(paths)] == [0]
        and read_selection(paths) is None
        and state in {State.PLANNED, State.LOST}
    )


@traced
@pytest.mark.parametrize(
    ("call", "when"), [(call, n) for call, most in CALLS.items() for n in range(1, most + 1)]
)
def test_kill_9_at_any_system_call_leaves_the_old_or_the_new(
    tmp_path: Path, call: str, when: int
) -> None:
    """A piece killed at the n-th call is the old or the new one, and a repeat completes it."""
    codes = write_with_fault(tmp_path, call, "signal=KILL", when)
    assert -9 in codes.values()
    assert set(codes.values()) <= {0, -9}
    for piece, code in codes.items():
        is_new = holds(tmp_path / piece, piece)
        assert is_new or (code == -9 and old_is_intact(tmp_path / piece, piece)), piece
        if piece == "journal" and not is_new:
            new_attempt(run_of(tmp_path / piece), {}, {}, "")
    missing = [p for p in PIECES if not holds(tmp_path / p, p)]
    assert dict.fromkeys(missing, 0) == write_all(tmp_path, missing)


@traced
@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
@pytest.mark.parametrize("call", ["write", "fsync", "rename", "mkdir", "pwrite64"])
def test_a_failing_disk_is_raised_and_leaves_the_old(
    tmp_path: Path, call: str, error: str
) -> None:
    """A call that fails is an error of the process and leaves the old content.

    Appended bytes that could not be made durable may be there: they were not acknowledged.
    """
    codes = write_with_fault(tmp_path, call, f"error={error}", 1)
    assert 1 in codes.values()
    assert set(codes.values()) <= {0, 1}
    for piece, code in codes.items():
        is_new = holds(tmp_path / piece, piece)
        assert is_new or code == 1, piece
        assert is_new or old_is_intact(tmp_path / piece, piece), piece


@traced
def test_a_folder_that_cannot_be_synced_is_no_failure_of_what_is_published(tmp_path: Path) -> None:
    """A failed fsync of the folder after the rename is not reported, as the new file is there."""
    codes = write_with_fault(tmp_path, "fsync", "error=EIO", 2)
    for piece in ("definition", "spec", "verdict"):
        assert (0, True) == (codes[piece], holds(tmp_path / piece, piece)), piece
