"""A process that dies, or a disk that fails, at any system call leaves the old or the new whole."""

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
"""System calls that the pieces are written by, and how many of each the longest piece makes."""


def written(root: Path, call: str, what: str, when: int) -> dict[str, int]:
    """Write every piece with a fault at the n-th call; returns how each process ended."""
    for name in PIECES:
        prepare(root / name)
    answers, trace = root / "codes", root / "trace"
    answers.mkdir()
    done = execute(injecting(call, what, str(when), trace), PROGRAM, [root, answers])
    codes = dict(path.name.split("=") for path in answers.iterdir())
    assert set(PIECES) == set(codes), done.stdout
    return {piece: int(codes[piece]) for piece in PIECES}


def holds(folder: Path, piece: str) -> bool:
    """Whether the new piece is there; anything but the old or the whole new one is an error."""
    paths, run = ExperimentPaths(folder), run_of(folder)
    definition = read_json(paths.definition)
    assert definition["name"] in {"old", "new"}
    there: dict[str, Callable[[], bool]] = {
        "definition": lambda: definition == {"name": "new", "filling": "y" * 20_000},
        "spec": lambda: run.spec.exists() and read_run(run).record.spec == SPEC,
        "attempt": lambda: any(attempt.patch.exists() for attempt in run.attempts()),
        "journal": lambda: holds_journal(folder),
        "verdict": lambda: read_run(run).record.state is State.COMPLETED,
        "trial": lambda: [t.number for t in read_trials(paths)] == [0, 1],
        "selection": lambda: read_selection(paths) == SELECTION,
    }
    return there[piece]()


def holds_journal(folder: Path) -> bool:
    """Whether every event is there; less than that is the first events, and no other line."""
    journal = read_journal(run_of(folder).attempts()[0].journal)
    assert journal.events == list(EVENTS[: len(journal.events)])
    assert (journal.torn, journal.quarantined) == (0, 0)
    return len(journal.events) == len(EVENTS)


def old_is_whole(folder: Path, piece: str) -> bool:
    """Whether everything that was there before is, where the new piece is not."""
    paths = ExperimentPaths(folder)
    run_is = read_run(run_of(folder)).record.state if piece != "spec" else State.PLANNED
    return (
        read_json(paths.definition)["name"] == "old"
        and [t.number for t in read_trials(paths)] == [0]
        and read_selection(paths) is None
        and run_is in {State.PLANNED, State.LOST}
    )


@traced
@pytest.mark.parametrize(
    ("call", "when"), [(call, n) for call, most in CALLS.items() for n in range(1, most + 1)]
)
def test_kill_9_at_any_system_call_leaves_the_old_or_the_new(
    tmp_path: Path, call: str, when: int
) -> None:
    """Killed at the n-th call, nothing is half there; the same again completes it."""
    codes = written(tmp_path, call, "signal=KILL", when)
    assert -9 in codes.values()
    assert set(codes.values()) <= {0, -9}
    for piece, code in codes.items():
        there = holds(tmp_path / piece, piece)
        assert there or (code == -9 and old_is_whole(tmp_path / piece, piece)), piece
        if piece == "journal" and not there:
            new_attempt(run_of(tmp_path / piece), {}, {}, "")
    missing = [p for p in PIECES if not holds(tmp_path / p, p)]
    assert dict.fromkeys(missing, 0) == write_all(tmp_path, missing)


@traced
@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
@pytest.mark.parametrize("call", ["write", "fsync", "rename", "mkdir", "pwrite64"])
def test_a_failing_disk_is_raised_and_leaves_the_old(
    tmp_path: Path, call: str, error: str
) -> None:
    """The first call that fails is an error of the process, never a success with less.

    What was appended and could not be made durable may be there: it was not acknowledged.
    """
    codes = written(tmp_path, call, f"error={error}", 1)
    assert 1 in codes.values()
    assert set(codes.values()) <= {0, 1}
    for piece, code in codes.items():
        there = holds(tmp_path / piece, piece)
        assert there or code == 1, piece
        assert there or old_is_whole(tmp_path / piece, piece), piece


@traced
def test_a_folder_that_cannot_be_synced_is_no_failure_of_what_is_published(tmp_path: Path) -> None:
    """After the rename the new file is there: nobody is told that it was not written."""
    codes = written(tmp_path, "fsync", "error=EIO", 2)
    for piece in ("definition", "spec", "verdict"):
        assert (0, True) == (codes[piece], holds(tmp_path / piece, piece)), piece
