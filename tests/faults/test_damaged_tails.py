"""Journals with damaged ends: complete lines are read, and damaged lines are counted."""

import json
from pathlib import Path

import pytest
from samples import ended, evaluated, spec, started

from rlexp.records.events import Event, to_plain
from rlexp.records.run import State
from rlexp.store.journal import JournalWriter
from rlexp.store.layout import RunPaths
from rlexp.store.runs import new_attempt, read_run, write_run

SPEC = spec()
EVENTS: tuple[Event, ...] = (
    started(),
    evaluated(50, 1.0),
    evaluated(100, 3.0, final=True),
    ended(),
)
LINES = [json.dumps(to_plain(event), separators=(",", ":")).encode() for event in EVENTS]
JOURNAL = b"".join(line + b"\n" for line in LINES)


def run_with(folder: Path, journal: bytes) -> RunPaths:
    """A run whose only attempt has this journal."""
    paths = RunPaths(folder / SPEC.name)
    write_run(paths, SPEC)
    new_attempt(paths, {}, {}, "").journal.write_bytes(journal)
    return paths


def test_a_journal_cut_at_any_byte_of_its_last_two_lines_is_no_result(tmp_path: Path) -> None:
    """A journal that lacks a byte of its end gives no result, but keeps earlier evaluations."""
    paths = run_with(tmp_path, JOURNAL)
    journal = paths.attempts()[0].journal
    first = len(JOURNAL) - len(LINES[-1]) - len(LINES[-2]) - 2
    for size in range(first, len(JOURNAL)):
        journal.write_bytes(JOURNAL[:size])
        stored_run = read_run(paths)
        assert (State.LOST, None) == (stored_run.record.state, stored_run.record.score)
        assert (50,) == tuple(e.step for e in stored_run.record.evaluations)
        at_an_end = JOURNAL[:size].endswith(b"\n")
        assert (int(not at_an_end), 0) == (stored_run.torn, stored_run.quarantined)
    journal.write_bytes(JOURNAL)
    assert (State.COMPLETED, 3.0) == (
        read_run(paths).record.state,
        read_run(paths).record.score,
    )


@pytest.mark.parametrize(
    ("damaged", "state", "counts"),
    [
        (JOURNAL + b"\0" * 512, State.COMPLETED, (1, 0)),
        (JOURNAL[:-5] + b"\0" * 512, State.LOST, (1, 0)),
        (JOURNAL + b"\n", State.COMPLETED, (0, 1)),
        (JOURNAL.replace(b"\n", b"\n\n", 1), State.COMPLETED, (0, 1)),
        (JOURNAL.replace(b"\n", b"\r\n"), State.COMPLETED, (0, 0)),
        (LINES[0] + b"\n" + LINES[1][:30] + LINES[1] + b"\n", State.LOST, (0, 1)),
        (b"\xff\xfe" + JOURNAL, State.COMPLETED, (0, 1)),
    ],
    ids=["nul", "nul in the end", "blank end", "blank", "crlf", "glued", "bytes"],
)
def test_damage_costs_the_lines_that_it_hit(
    tmp_path: Path, damaged: bytes, state: State, counts: tuple[int, int]
) -> None:
    """Damaged lines are counted as torn or quarantined, and all other lines are read."""
    stored_run = read_run(run_with(tmp_path, damaged))
    assert (state, counts) == (stored_run.record.state, (stored_run.torn, stored_run.quarantined))


def test_another_attempt_goes_on_beside_the_damaged_one(tmp_path: Path) -> None:
    """A new attempt completes a run whose first journal is damaged."""
    paths = run_with(tmp_path, JOURNAL[:-9])
    before = paths.attempts()[0].journal.read_bytes()
    writer = JournalWriter(new_attempt(paths, {}, {}, "").journal)
    for event in (started(2), evaluated(100, 4.0, final=True), ended()):
        writer.append(event)
    writer.close()
    stored_run = read_run(paths)
    assert (State.COMPLETED, 4.0, 1) == (
        stored_run.record.state,
        stored_run.record.score,
        stored_run.torn,
    )
    assert before == paths.attempts()[0].journal.read_bytes()
