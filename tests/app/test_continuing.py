"""Which runs of a plan go on from a checkpoint, and what that saves and needs."""

from pathlib import Path

import gymnasium
import pytest
from samples import ENVIRONMENT, algorithm, spec
from stored_runs import study

from rlexp.app.continuing import continuing, largest_replay
from rlexp.app.estimate import START_UP, estimate, remember
from rlexp.app.fit import Spaces
from rlexp.environments import Vector
from rlexp.protocol.spec import RunSpec, canonical
from rlexp.records.checkpoint import Checkpoint
from rlexp.records.events import Continued, Ending, Event, RunEnded, RunStarted
from rlexp.records.run import RunRecord
from rlexp.store.checkpoints import publish_checkpoint
from rlexp.store.layout import ExperimentPaths

VECTOR = Vector(
    count=1,
    kind="dummy",
    frame_stack=1,
    normalise_observations=False,
    normalise_rewards=False,
    clip_observations=10.0,
    clip_rewards=10.0,
)
OBSERVATION = 4 * 4
"""Bytes of an observation of CartPole."""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "cache"))


def saved(paths: ExperimentPaths, name: str, *steps: int) -> None:
    """Publish checkpoints of a run."""
    for step in steps:
        publish_checkpoint(paths.run(name), Checkpoint(step=step, files={"a.npz": b"a"}), {})


def test_the_newest_checkpoint_of_each_run_counts(tmp_path: Path) -> None:
    """Runs without one, or whose folder is damaged, begin anew."""
    paths = study(tmp_path).layout.experiment("alpha")
    saved(paths, "first", 40, 60)
    paths.run("damaged").folder.mkdir()
    paths.run("damaged").checkpoints.symlink_to(tmp_path)
    assert {"first": 60} == continuing(paths, ["first", "damaged", "nowhere"])


def test_only_what_is_left_takes_time() -> None:
    """An estimate leaves out what was trained before."""
    whole, half = spec(0, steps=10_000), spec(1, steps=10_000)
    both = estimate([whole, half], 1).seconds - START_UP
    left = estimate([whole, half], 1, continued={half.name: 5000}).seconds - START_UP
    assert both * 3 / 4 == pytest.approx(left)


def test_speed_is_that_of_the_last_attempt() -> None:
    """Its steps and its seconds; one that went on from shortly before its end says nothing."""
    own = spec(steps=100_000, evaluation_every=1000)
    remember([(continued(own, step=90_000, seconds=1.0), 1000)])
    assert not estimate([own], 1).measured
    remember([(continued(own, step=20_000, seconds=80.0), 1000)])
    assert 100 + START_UP == pytest.approx(estimate([own], 1).seconds)


def continued(own: RunSpec, *, step: int, seconds: float) -> RunRecord:
    """A completed run whose second attempt went on from a step, and took so long."""
    first: list[Event] = [
        RunStarted(time=0, attempt=1, pid=1, host="here"),
        RunEnded(time=9, step=step, ending=Ending.INTERRUPTED, seconds=9.0),
    ]
    second: list[Event] = [
        RunStarted(time=10, attempt=2, pid=1, host="here"),
        Continued(time=10, step=step),
        RunEnded(time=90, step=100_000, ending=Ending.COMPLETED, seconds=seconds),
    ]
    return RunRecord.fold(own, [first, second])


def test_replay_buffers_are_part_of_the_disk() -> None:
    """As many at a time as there are workers, in the size that the run's steps fill."""
    assert 3 * 500 == estimate([spec()] * 5, 3, replay=500).bytes - estimate([spec()] * 5, 3).bytes
    found = Spaces.of(gymnasium.make("CartPole-v1"), VECTOR)
    assert 2 * OBSERVATION + 8 + 12 == found.transition
    spaces = {canonical(ENVIRONMENT): found}
    buffered = [
        spec(learner=algorithm("dqn", buffer_size=size), steps=1000) for size in (10, 10**6)
    ]
    assert 10 * found.transition == largest_replay(buffered[:1], spaces)
    assert 1000 * found.transition == largest_replay(buffered, spaces)
    assert 0 == largest_replay([spec()], spaces) == largest_replay(buffered, {})
