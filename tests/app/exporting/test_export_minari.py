"""`rlexp export minari` records the policies of completed runs as one dataset, or says why not."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("minari", reason="needs minari[hdf5]")
pytest.importorskip("h5py", reason="needs minari[hdf5]")

from finished_runs import Finished, finish, finish_all, study
from quick_parts import quick_parts

from rlexp.app.commands.exchange.export import export
from rlexp.app.commands.judge.evaluate import EvaluationRequest, evaluate
from rlexp.app.exporting.output import ExportedFiles, ExportRequest
from rlexp.app.observer import SilentObserver
from rlexp.datasets.minari import Minari
from rlexp.datasets.minari_files import find_files
from rlexp.errors import RlexpError
from rlexp.store.layout import RunPaths

quick = pytest.fixture(autouse=True)(quick_parts)

PPO = (
    *("algorithm=ppo", "environment=pendulum", "agent.network=[4]"),
    *("algorithm.n_steps=32", "algorithm.batch_size=32", "budget.checkpoint_every=32"),
)
ID = "pendulum/mine-v0"


@pytest.fixture(autouse=True)
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of datasets."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    return tmp_path / "datasets"


def exported(folder: Path, **options: object) -> ExportedFiles:
    """The dataset of the runs of the experiment `tiny`."""
    request = ExportRequest(
        **{"format": "minari", "targets": ("tiny",), "output": ID, "episodes": 3, **options}  # type: ignore[arg-type]
    )
    return export(request, study(folder))


def refusal(folder: Path, **options: object) -> str:
    """The one line with which an export is refused."""
    with pytest.raises(RlexpError) as error:
        exported(folder, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def totals(name: str) -> list[float]:
    """The returns of the episodes of a dataset."""
    return [float(episode.rewards.sum()) for episode in Minari(id=name).episodes()]


def played(run: Finished, **options: object) -> Sequence[float]:
    """The returns that `rlexp evaluate` gives for the same episodes."""
    asked = EvaluationRequest(**{"episodes": 3, **options})  # type: ignore[arg-type]
    return evaluate(run.name, asked, run.study, SilentObserver()).returns


def test_several_runs_become_one_dataset(tmp_path: Path) -> None:
    """The episodes are those that `rlexp evaluate` plays, run after run, and the metadata names each run."""
    runs = finish_all(tmp_path, *PPO, "seeds.test=2")
    result = exported(tmp_path)
    expected = [value for run in runs for value in played(run)]
    assert np.allclose(expected, totals(ID))
    assert {"episodes": 6, "steps": 1200} == result.rows
    assert result.mean_return == pytest.approx(np.mean(expected))
    policies = find_files(ID, None).metadata["rlexp"]["policies"]
    assert [run.name for run in runs] == [policy["run"] for policy in policies]
    assert [("test", 64, 3)] * 2 == [(p["phase"], p["step"], p["episodes"]) for p in policies]
    assert [0, 1] == [policy["seed"] for policy in policies]
    assert all(path.is_file() for path in result.files)


def test_one_run_gives_the_dataset_of_evaluate(tmp_path: Path) -> None:
    """`rlexp evaluate --record` and `rlexp export minari` write the same data and the same origin."""
    run = finish(tmp_path, *PPO)
    exported(tmp_path)
    played(run, record="pendulum/other-v0")
    first, second = find_files(ID, None), find_files("pendulum/other-v0", None)
    assert first.metadata["rlexp"] == second.metadata["rlexp"]
    assert totals(ID) == totals("pendulum/other-v0")


def test_a_checkpoint_gives_medium_data(tmp_path: Path) -> None:
    """`--checkpoint` records the policies at that step, and a step without a checkpoint is refused."""
    run = finish(tmp_path, *PPO)
    (step, *_) = (int(path.name) for path in RunPaths(run.paths.folder).checkpoints.iterdir())
    exported(tmp_path, checkpoint=step)
    assert np.allclose(played(run, checkpoint=step), totals(ID))
    (policy,) = find_files(ID, None).metadata["rlexp"]["policies"]
    assert step == policy["step"]
    assert f"it has: {step}" in refusal(tmp_path, output="pendulum/other-v0", checkpoint=step + 1)


def test_sampled_actions_are_another_dataset(tmp_path: Path) -> None:
    """With `--stochastic`, the actions are sampled, and the metadata says so."""
    run = finish(tmp_path, *PPO)
    exported(tmp_path, stochastic=True)
    assert np.allclose(played(run, deterministic=False), totals(ID))
    (policy,) = find_files(ID, None).metadata["rlexp"]["policies"]
    assert policy["deterministic"] is False


def test_bad_options_are_refused_before_anything_is_written(
    tmp_path: Path, datasets: Path
) -> None:
    """A wrong id, option, number, phase or task is one line, and no dataset appears."""
    finish(tmp_path, *PPO)
    assert "write --output NAME-v0" in refusal(tmp_path, output=None)
    assert "is no id of a dataset" in refusal(tmp_path, output="./data")
    assert "give 1 or more" in refusal(tmp_path, episodes=0)
    assert "leave it out for minari" in refusal(tmp_path, force=True)
    assert "leave it out for csv" in refusal(tmp_path, format="csv", checkpoint=0)
    assert "no tuning run has a score" in refusal(tmp_path, phase="tuning")
    assert "no test runs on task 'Foo-v1'" in refusal(tmp_path, tasks=("Foo-v1",))
    assert not datasets.exists()
    exported(tmp_path)
    assert "choose another name, such as pendulum/mine-v1" in refusal(tmp_path)


def test_a_dataset_holds_one_task(tmp_path: Path, datasets: Path) -> None:
    """Runs on two tasks are refused, and `--task` chooses one of them."""
    finish_all(tmp_path, *PPO, "environment=pendulum,mountain_car_continuous")
    assert "name one of them (--task MountainCarContinuous-v0)" in refusal(tmp_path)
    assert not datasets.exists()
    assert {"episodes": 3, "steps": 600} == exported(tmp_path, tasks=("Pendulum-v1",)).rows


def test_policies_with_different_spaces_are_refused(tmp_path: Path, datasets: Path) -> None:
    """Two runs on one task whose wrappers change the observations cannot share a dataset."""
    finish_all(tmp_path, *PPO)
    wrapper = "environment.wrappers=[{name: TimeAwareObservation}]"
    finish_all(tmp_path, *PPO, wrapper, "experiment=other")
    assert "different observation or action spaces" in refusal(tmp_path, targets=("tiny", "other"))
    assert not datasets.exists()


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without h5py, one line says how to install it."""
    finish(tmp_path, *PPO)
    monkeypatch.setitem(sys.modules, "h5py", None)
    assert "--output=pendulum/mine-v0 needs minari and h5py" in refusal(tmp_path)


def test_a_space_that_minari_cannot_store_is_refused(tmp_path: Path) -> None:
    """A space without a form in Minari is named, and no file is written."""
    from gymnasium.spaces import Box, OneOf

    from rlexp.datasets.writing import write_dataset

    class Unusual:
        observation_space = OneOf([Box(0, 1), Box(0, 1)])
        action_space = Box(0, 1)
        spec = None

    with pytest.raises(RlexpError, match="have the space OneOf, which Minari cannot store"):
        write_dataset(tmp_path / "x-v0", "x-v0", [], Unusual(), {})
    assert not [*tmp_path.iterdir()]


def test_nothing_is_left_of_a_recording_that_fails(
    tmp_path: Path, datasets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An environment that raises an exception while it plays leaves no part of a dataset."""
    finish(tmp_path, *PPO)

    def fail(*_: object) -> None:
        raise OSError("the motor broke")

    monkeypatch.setattr("gymnasium.envs.classic_control.pendulum.PendulumEnv.step", fail)
    assert "step 1: OSError: the motor broke" == refusal(tmp_path)
    assert not [path for path in datasets.rglob("*") if path.is_file()]


def test_metadata_names_test_seeds(tmp_path: Path) -> None:
    """What policies of test seeds have recorded says so, because it must not serve a choice."""
    finish(tmp_path, *PPO)
    exported(tmp_path)
    assert Minari(id=ID).of_test_seeds
    file = find_files(ID, None).folder / "metadata.json"
    metadata = json.loads(file.read_text())
    metadata["rlexp"]["policies"][0]["phase"] = "tuning"
    file.write_text(json.dumps(metadata))
    assert not Minari(id=ID).of_test_seeds
