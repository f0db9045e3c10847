"""Compiled runs that are advanced together end with the bits that each has without company."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands_in_turn import (
    Events,
    events_of,
    new_folder,
    processes,
    run,
    start,
    wait_for,
    weights,
)

from rlexp.executors.lifetime import children, descendants
from rlexp.records.events import Ending, StopRequest
from rlexp.store.layout import RunPaths
from rlexp.store.runs import request_stop

pytestmark = pytest.mark.timeout(600)
BATCH = "compute.batch=3"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for experiments, and for the compiled code of a user."""
    yield from new_folder(tmp_path_factory)


@pytest.fixture(scope="module")
def full(folder: Path) -> Events:
    """Three runs in a batch of three."""
    return run(folder, "full", BATCH, "seeds.test=3")


def test_runs_of_a_batch_train_at_the_same_time(full: Events) -> None:
    """Each of three runs starts before another one ends, though the command has one worker."""
    starts = [rows[0]["time"] for rows in full.values()]
    assert max(starts) < min(rows[-1]["time"] for rows in full.values())
    assert 3 == len(set(weights(full).values()))


def test_a_run_needs_no_company(full: Events, folder: Path) -> None:
    """A seed alone in its batch, and then two seeds beside it, have the weights of the full batch."""
    alone = run(folder, "grown", BATCH, "seeds.test=[2]")
    assert weights(full)[2] == weights(alone)[2]
    assert weights(full) == weights(run(folder, "grown", BATCH, "seeds.test=[2,0,1]"))


def test_more_runs_than_lanes(full: Events, folder: Path) -> None:
    """The fourth and the fifth run take the lanes that others have left."""
    events = run(folder, "five", BATCH, "seeds.test=5")
    assert weights(full) == {seed: weights(events)[seed] for seed in full}
    assert 5 == len(set(weights(events).values()))


def test_another_batch_is_another_configuration(
    full: Events, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Runs by themselves do not count as runs of the batch: the command refuses to mix them."""
    del full
    run(folder, "full", "seeds.test=3", code=2)
    assert "compute.batch: existing 3, requested not set" in capfd.readouterr().err


def test_a_kill_of_a_run_harms_no_other(full: Events, folder: Path) -> None:
    """After kill -9 of one run it is tried again, alone, and all have the bits of the full batch."""
    command, experiment = (
        start(folder, "killed", BATCH, "seeds.test=3"),
        folder / "runs" / "killed",
    )
    wait_for(experiment, "*-test-1-*/checkpoints/*/manifest.json")
    os.kill(processes(events_of(experiment)[1])[0], signal.SIGKILL)
    assert 0 == command.wait(500)
    events = events_of(experiment)
    assert weights(full) == weights(events)
    assert [1, 2, 1] == [len(processes(events[seed])) for seed in range(3)]


def test_a_kill_of_the_program_fails_no_run(full: Events, folder: Path) -> None:
    """After kill -9 of the process with the program, every run goes on by itself, to the same bits."""
    command, experiment = start(folder, "blown", BATCH, "seeds.test=3"), folder / "runs" / "blown"
    wait_for(experiment, "*-test-1-*/checkpoints/*/manifest.json")
    runs = {pid for rows in events_of(experiment).values() for pid in processes(rows)}
    leaves = [pid for pid in descendants(command.pid) if not children(pid)]
    (conductor,) = [pid for pid in leaves if pid not in runs]
    os.kill(conductor, signal.SIGKILL)
    assert 0 == command.wait(500)
    events = events_of(experiment)
    assert weights(full) == weights(events)
    assert [1, 1, 1] == [len(processes(rows)) for rows in events.values()]


def test_a_run_that_diverges_leaves_its_lane(full: Events, folder: Path) -> None:
    """A learning rate that ends in NaN fails one run; the runs beside it have their bits."""
    grid = "algorithm.learning_rate=0.0003,1e30"
    run(folder, "diverging", BATCH, grid, "seeds.test=1", code=1)
    events = all_events(folder / "runs" / "diverging")
    endings = {rows[-1]["ending"]: rows[-1] for rows in events}
    assert "nan" == endings["failed"]["failure"]
    assert weights(full)[0] == endings["completed"]["weights"]


@pytest.mark.parametrize("ending", [Ending.INTERRUPTED, Ending.PRUNED])
def test_a_run_that_is_asked_to_end_leaves_its_lane(
    ending: Ending, full: Events, folder: Path
) -> None:
    """One of three runs ends at its chunk; the others have their bits, and so has its continuation."""
    words = (BATCH, "seeds.test=3", "budget.evaluation_every=1000", "budget.steps=16000")
    name = f"asked-{ending}"
    command, experiment = start(folder, name, *words), folder / "runs" / name
    journal = wait_for(experiment, "*-test-1-*/attempts/1/events.jsonl")
    rung = 1000 if ending is Ending.PRUNED else None
    request_stop(RunPaths(journal.parents[2]), StopRequest(ending, "asked", rung))
    command.wait(500)
    events = events_of(experiment)
    assert str(ending) == events[1][-1]["ending"]
    # Evaluations change no weights.
    assert [weights(full)[s] for s in (0, 2)] == [weights(events)[s] for s in (0, 2)]
    if ending is Ending.INTERRUPTED:
        assert weights(full) == weights(run(folder, name, *words))


def test_a_run_that_lost_its_lease_leaves_its_lane(full: Events, folder: Path) -> None:
    """A newer attempt elsewhere ends one run without a record; the others have their bits."""
    command, experiment = start(folder, "taken", BATCH, "seeds.test=3"), folder / "runs" / "taken"
    journal = wait_for(experiment, "*-test-1-*/attempts/1/events.jsonl")
    # What another machine does first when it takes a run over.
    (journal.parents[1] / "2").mkdir()
    command.wait(500)
    events = events_of(experiment)
    assert "ended" not in [row["event"] for row in events[1]]
    others = {seed: events[seed] for seed in (0, 2)}
    assert {seed: weights(full)[seed] for seed in others} == weights(others)
    assert "nothing more is recorded" in (journal.parent / "log.txt").read_text()


def test_a_worker_advances_runs_together(full: Events, folder: Path) -> None:
    """A worker of the pull executor takes all runs of a batch at a time, to the bits of local runs."""
    words = (BATCH, "seeds.test=3", "executor=pull")
    command, experiment = start(folder, "pulled", *words), folder / "runs" / "pulled"
    wait_for(experiment, "orders/[!.]*.json")
    worker = ("worker", "pulled", "--workers=1", "--idle=5")
    process = subprocess.Popen([sys.executable, "-m", "rlexp", *worker], cwd=folder)
    assert 0 == command.wait(500)
    assert 0 == process.wait(500)
    events = events_of(experiment)
    assert weights(full) == weights(events)
    starts = [rows[0]["time"] for rows in events.values()]
    assert max(starts) < min(rows[-1]["time"] for rows in events.values())


def all_events(experiment: Path) -> list[list[dict[str, Any]]]:
    """The events of every run of an experiment."""
    journals = sorted(experiment.glob("*-test-*/attempts/1/events.jsonl"))
    return [[json.loads(line) for line in file.read_text().splitlines()] for file in journals]
