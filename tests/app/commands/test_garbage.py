"""`rlexp gc` tells what finished runs keep, and removes it without touching anything else."""

import json
from pathlib import Path

import pytest
from command_line import give, give_json, rlexp
from finished_runs import Finished, finish
from quick_parts import quick_parts

from rlexp.errors import RlexpError
from rlexp.records.events import Ending
from rlexp.store.checkpoints import is_resumable
from rlexp.store.lease import hold

WORDS = (
    *("algorithm=sac", "environment=pendulum", "environment.max_episode_steps=20"),
    *("algorithm.learning_starts=8", "algorithm.buffer_size=50", "agent.network=[4]"),
)

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def kept(tmp_path: Path) -> Finished:
    """A completed run that keeps its replay buffer."""
    return finish(tmp_path, *WORDS, "budget.keep_last=true")


def sizes(run: Finished) -> tuple[int, int]:
    """Bytes of the replay buffer and of the other state, on disk."""
    replay = sum(p.stat().st_size for p in run.paths.replay.glob("*"))
    return replay, sum(p.stat().st_size for p in run.paths.checkpoints.glob("*/state.npz"))


def test_sizes_are_told_and_buffers_removed(kept: Finished, tmp_path: Path) -> None:
    """Without `--yes` nothing changes; with it the buffer goes, and the rest stays."""
    replay, state = sizes(kept)
    assert min(replay, state) > 0
    assert is_resumable(kept.paths, 63)
    told = give_json(tmp_path, "garbage-collection", "gc")
    (entry,) = told["experiments"]
    assert (replay, state, replay) == (entry["replay_bytes"], entry["state_bytes"], told["bytes"])
    assert (replay, state) == sizes(kept)
    assert "rlexp gc --yes" in give(tmp_path, "gc")
    give(tmp_path, "gc", "tiny", "--yes")
    assert (0, state) == sizes(kept)
    assert not is_resumable(kept.paths, 63)
    assert "removed 0 B" in give(tmp_path, "gc", "--yes")


def test_states_are_removed_and_policies_stay(kept: Finished, tmp_path: Path) -> None:
    """`--states` leaves the policies, which can still be read; the run stays as it is."""
    model = kept.paths.model.read_bytes()
    assert (
        sum(sizes(kept))
        == give_json(tmp_path, "garbage-collection", "gc", "--states", "--yes")["bytes"]
    )
    assert (0, 0) == sizes(kept)
    assert ["model.zip"] == sorted(p.name for p in kept.paths.checkpoints.glob("*/*.zip"))
    assert model == kept.paths.model.read_bytes()
    assert "would remove 0 B" in give(tmp_path, "gc")


def test_what_is_needed_or_in_use_stays(kept: Finished, tmp_path: Path) -> None:
    """The state of an experiment in use stays, and so does that of an unfinished run."""
    before = sizes(kept)
    experiment = kept.study.layout.experiment("tiny")
    with hold(experiment.lock, "experiment tiny", now=0.0):
        assert "in use by" in give(tmp_path, "gc", "--yes")
    assert before == sizes(kept)
    journal = kept.paths.attempt(1).journal
    *lines, last = journal.read_text().splitlines()
    ended = {**json.loads(last), "ending": str(Ending.INTERRUPTED)}
    journal.write_text("\n".join([*lines, json.dumps(ended)]) + "\n")
    give(tmp_path, "gc", "--states", "--yes")
    assert before == sizes(kept)


def test_an_unknown_experiment_is_refused(tmp_path: Path) -> None:
    """A name without an experiment is refused."""
    with pytest.raises(RlexpError, match="there is no experiment 'nothing'"):
        rlexp(tmp_path, "gc", "nothing")
