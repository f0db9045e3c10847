"""A group has started when the first of its runs has."""

from pathlib import Path

import pytest
from quick_parts import quick_parts
from samples import spec

from rlexp.app.tracking.run_labels import GroupStarts
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import RunStarted
from rlexp.store.journal import JournalWriter
from rlexp.store.layout import ExperimentPaths, RunPaths
from rlexp.store.runs import new_attempt, write_run

quick = pytest.fixture(autouse=True)(quick_parts)


def start(folder: Path, seed: int, *times: float) -> None:
    """Write a run of a seed with an attempt at each of these times."""
    run = RunPaths(folder / spec(seed=seed).name)
    write_run(run, spec(seed=seed))
    for number, time in enumerate(times, 1):
        journal = JournalWriter(new_attempt(run, {}, {}, "").journal)
        journal.append(RunStarted(time=time, attempt=number, pid=1, host="host"))
        journal.close()


def of_parity(run: RunSpec) -> str:
    """The group of a run in these tests."""
    return ("even", "odd")[run.seed % 2]


def test_the_first_start_of_any_run_counts(tmp_path: Path) -> None:
    """A later attempt, another group, and a run that has not started change nothing."""
    start(tmp_path, 0, 30.0, 5.0)
    start(tmp_path, 2, 20.0, 40.0)
    start(tmp_path, 1, 10.0)
    start(tmp_path, 4)
    starts = GroupStarts(ExperimentPaths(tmp_path), of_parity)
    assert (20.0, 10.0) == (starts.of("even", 30.0), starts.of("odd", 10.0))


def test_an_unknown_group_starts_with_its_run(tmp_path: Path) -> None:
    """A group whose records cannot be read starts with the run that is pushed."""
    start(tmp_path, 0, 30.0)
    (run,) = ExperimentPaths(tmp_path).runs()
    run.attempts()[0].journal.write_bytes(b"torn")
    assert 33.0 == GroupStarts(ExperimentPaths(tmp_path), of_parity).of("even", 33.0)
