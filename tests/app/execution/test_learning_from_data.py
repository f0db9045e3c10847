"""A policy that has learned from recorded episodes alone acts better than a random policy."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("minari", reason="needs minari[hdf5]")
pytest.importorskip("h5py", reason="needs minari[hdf5]")

from finished_runs import finish
from in_full import long
from recorded_data import half_random, record, swing_up

from rlexp.datasets.minari import Minari
from rlexp.store.runs import read_run


@pytest.fixture(autouse=True)
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of datasets."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    return tmp_path / "datasets"


def returns(name: str) -> list[float]:
    """The returns of the episodes of a dataset."""
    return [float(episode.rewards.sum()) for episode in Minari(id=name).episodes()]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@long
def test_learning_from_medium_data_beats_a_random_policy(tmp_path: Path) -> None:
    """After gradient steps on medium data alone, the mean return is above that of every random episode."""
    record("pendulum/random-v0", episodes=20)
    record("pendulum/medium-v0", episodes=20, policy=half_random())
    record("pendulum/expert-v0", episodes=20, policy=swing_up)
    random, medium, expert = (returns(f"pendulum/{n}-v0") for n in ("random", "medium", "expert"))
    assert np.mean(random) < np.mean(medium) < np.mean(expert)
    finished = finish(
        tmp_path,
        *("algorithm=sac", "environment=pendulum", "agent.network=[64,64]"),
        *("algorithm.learning_rate=1e-3", "algorithm.gamma=0.98"),
        # All environment steps come before the first update on experience: the data teaches alone.
        *("budget.steps=64", "algorithm.learning_starts=64", "budget.final_episodes=20"),
        *("dataset=minari", "dataset.id=pendulum/medium-v0", "dataset.offline_steps=3000"),
    )
    run = read_run(finished.paths).record
    assert run.final is not None, run.reason
    assert run.final.mean > max(random)


@pytest.mark.slow
@long
def test_hopper_starts_from_data(tmp_path: Path) -> None:
    """A run on a task of MuJoCo takes its offline steps on recorded episodes, and completes."""
    pytest.importorskip("mujoco", reason="needs mujoco")
    record("hopper/random-v0", "Hopper-v5", episodes=20)
    finished = finish(
        tmp_path,
        *(
            "algorithm=td3",
            "environment=hopper",
            "agent.network=[16]",
            "algorithm.learning_starts=32",
        ),
        *("dataset=minari", "dataset.id=hopper/random-v0", "dataset.offline_steps=200"),
    )
    run = read_run(finished.paths).record
    assert "completed" == run.state, run.reason
    assert run.final is not None
    assert min(run.final.returns) > 0.0
