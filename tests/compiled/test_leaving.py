"""A run that leaves the process of its command early changes nothing for the runs after it."""

from collections.abc import Iterator
from pathlib import Path

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

from rlexp.records.events import Ending, StopRequest
from rlexp.store.layout import RunPaths
from rlexp.store.runs import request_stop

pytestmark = pytest.mark.timeout(600)
LONGER = ("budget.steps=40000", "seeds.test=3", "budget.evaluation_every=2000")
"""Three runs, long enough to be asked for something while they train."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for experiments, and for the compiled code of a user."""
    yield from new_folder(tmp_path_factory)


@pytest.fixture(scope="module")
def calm(folder: Path) -> Events:
    """The events of the runs of a command that nothing disturbs."""
    return run(folder, "calm", *LONGER)


@pytest.mark.parametrize("ending", [Ending.INTERRUPTED, Ending.PRUNED])
def test_a_run_that_is_asked_to_end_leaves_at_its_chunk(
    ending: Ending, calm: Events, folder: Path
) -> None:
    """The second of three runs ends early; the third goes on in the same process, with its bits."""
    name = f"asked-{ending}"
    command, experiment = start(folder, name, *LONGER), folder / "runs" / name
    journal = wait_for(experiment, "*-test-1-*/attempts/1/events.jsonl")
    rung = 2000 if ending is Ending.PRUNED else None
    request_stop(RunPaths(journal.parents[2]), StopRequest(ending, "asked", rung))
    command.wait(500)
    events = events_of(experiment)
    assert str(ending) == events[1][-1]["ending"]
    assert events[1][-1]["step"] < 40_000
    assert [weights(calm)[seed] for seed in (0, 2)] == [weights(events)[seed] for seed in (0, 2)]
    assert 1 == len({pid for rows in events.values() for pid in processes(rows)})
    if ending is Ending.INTERRUPTED:
        assert weights(calm) == weights(run(folder, name, *LONGER))


def test_a_run_that_lost_its_lease_leaves_at_its_chunk(calm: Events, folder: Path) -> None:
    """A newer attempt elsewhere ends the second run without a record; the third has its bits."""
    command, experiment = start(folder, "taken", *LONGER), folder / "runs" / "taken"
    journal = wait_for(experiment, "*-test-1-*/attempts/1/events.jsonl")
    # What another machine does first when it takes a run over.
    (journal.parents[1] / "2").mkdir()
    command.wait(500)
    events = events_of(experiment)
    assert "ended" not in [row["event"] for row in events[1]]
    others = {seed: events[seed] for seed in (0, 2)}
    assert {seed: weights(calm)[seed] for seed in others} == weights(others)
    assert "nothing more is recorded" in (journal.parent / "log.txt").read_text()
    assert processes(events[1]) != processes(events[2])
