"""The time that is left comes from the steps that were trained here, and from the runs that wait."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from stored_runs import STARTED, configuration, stored

from rlexp.console.formatting import ending
from rlexp.console.progress import RunsDone, run_cells
from rlexp.engine.run_in_flight import RunInFlight, read_new_events
from rlexp.records.events import Continued
from rlexp.records.run import State
from rlexp.store.layout import Layout
from rlexp.store.runs import read_run

STEPS = 100
"""Steps of each run of these tests."""


@dataclass(slots=True)
class Clock:
    """A clock that tests set."""

    now: float = 0.0

    def __call__(self) -> float:
        """The time in seconds."""
        return self.now


def running(tmp_path: Path, since: float, step: int, first_step: int = 0) -> RunInFlight:
    """A run of 100 steps in progress."""
    alpha = stored(Layout(tmp_path / "runs"), "alpha", configuration(steps=STEPS))
    attempt = alpha.attempt(0).attempts()[-1]
    return RunInFlight(alpha.spec(0), attempt, since, step=step, first_step=first_step)


def left(line: str) -> str | None:
    """The time that a line of progress says is left."""
    found = re.search("about (.+) left", line)
    return found and found[1]


def test_the_start_of_the_command_does_not_count(tmp_path: Path) -> None:
    """After 20 s of imports and 5 s for half of a run, half of it and 3 waiting runs take 35 s."""
    clock = Clock()
    done = RunsDone(4, clock)
    clock.now = 25.0
    line = done.line([running(tmp_path, since=20.0, step=50)], 3)
    assert line.startswith("0/4 done, 3 waiting, 25 s")
    assert "35 s" == left(line)


def test_steps_before_the_checkpoint_do_not_count(tmp_path: Path) -> None:
    """A run that continues at step 80 and trains 10 steps in 5 s needs 5 s for the last 10."""
    clock = Clock(5.0)
    run = running(tmp_path, since=0.0, step=90, first_step=80)
    assert "5 s" == left(RunsDone(1, clock).line([run], 0))
    assert ("2", "5 s") == run_cells(run, 5.0)[-2:]


def test_two_runs_side_by_side_share_the_waiting_ones(tmp_path: Path) -> None:
    """Two runs at half after 5 s, with 2 waiting: 5 s for these, then 10 s for the waiting pair."""
    clock = Clock(5.0)
    pair = [running(tmp_path / name, since=0.0, step=50) for name in ("a", "b")]
    assert "15 s" == left(RunsDone(4, clock).line(pair, 2))


def test_a_run_that_has_only_begun_gives_no_estimate(tmp_path: Path) -> None:
    """Within the first seconds no time is printed, because building a run takes as long as them."""
    run = running(tmp_path, since=0.0, step=1)
    assert left(RunsDone(1, Clock(1.0)).line([run], 5)) is None
    assert left(RunsDone(1, Clock(3.0)).line([run], 5)) is not None


def test_the_final_evaluation_of_ended_runs_counts(tmp_path: Path) -> None:
    """A run that took 20 s with its evaluation lets the 2 waiting runs expect 20 s each."""
    clock = Clock()
    done = RunsDone(3, clock)
    clock.now = 10.0
    run = running(tmp_path, since=0.0, step=STEPS)
    done.line([run], 2)
    clock.now = 20.0
    record = read_run(
        Layout(tmp_path / "runs").experiment("alpha").run(run.spec.name), run.spec
    ).record
    done.add(replace(record, step=STEPS), again=False)
    following = running(tmp_path, since=20.0, step=0)
    assert "40 s" == left(done.line([following], 1))


def test_a_run_that_has_ended_is_not_called_running(tmp_path: Path) -> None:
    """Where a full disk has no room for the end of a run, its line says so instead of its last state."""
    run = running(tmp_path, since=0.0, step=50)
    record = read_run(
        Layout(tmp_path / "runs").experiment("alpha").run(run.spec.name), run.spec
    ).record
    text = ending(replace(record, state=State.RUNNING), again=False)
    assert f"{run.spec.name} ended, which could not be recorded" == text


def test_an_attempt_knows_where_it_continued(tmp_path: Path) -> None:
    """The event of a continuation in the journal gives the first step of the attempt."""
    alpha = stored(Layout(tmp_path / "runs"), "alpha", configuration(steps=STEPS))
    alpha.attempt(0, [Continued(time=STARTED, step=80, attempt=0)])
    run = RunInFlight(alpha.spec(0), alpha.run(0).attempts()[-1], since=0.0)
    read_new_events(alpha.paths, run)
    assert 80 == run.first_step
