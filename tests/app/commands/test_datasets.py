"""`dataset=minari` starts a run from recorded data, or says on one line why not."""

import json
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest

pytest.importorskip("minari", reason="needs minari[hdf5]")
pytest.importorskip("h5py", reason="needs minari[hdf5]")

from finished_runs import finish, study
from last_words import last_words
from quick_parts import quick_parts
from recorded_data import record, swing_up

from rlexp.app.commands.exchange.reproduce import ReproductionRequest, reproduce
from rlexp.app.commands.judge.evaluate import EvaluationRequest, evaluate
from rlexp.app.execution.checks.compatibility import check_compatibility
from rlexp.app.execution.request import read_request
from rlexp.app.execution.run_process import assemble
from rlexp.app.observer import SilentObserver
from rlexp.app.sweeps.request import read_sweep
from rlexp.datasets.minari import Minari
from rlexp.datasets.minari_files import find_files
from rlexp.errors import RlexpError
from rlexp.protocol.spec import RunSpec
from rlexp.store.runs import read_run
from rlexp.training.offline_stage import steps_done, transitions_of

quick = pytest.fixture(autouse=True)(quick_parts)

SAC = (
    *("algorithm=sac", "environment=pendulum", "agent.network=[4]"),
    *("algorithm.learning_starts=16", "algorithm.buffer_size=100", "algorithm.batch_size=16"),
)
DATA = ("dataset=minari", "dataset.id=pendulum/random-v0", "dataset.offline_steps=60")
MIXED = ("dataset.use=mix", "replay=prior_data", "replay.source=dataset", "replay.share=0.5")
LEARNERS = ("sac", "td3", "ddpg", "tqc", "crossq")
Q_LEARNERS = ("dqn", "qrdqn")


@pytest.fixture(autouse=True)
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of datasets with one of random actions; returns the folder of its data."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    return record("pendulum/random-v0")


def spec(folder: Path, *words: str) -> RunSpec:
    """The first run of a command."""
    given = last_words("experiment=x", "seeds.test=1", *SAC, *words)
    return read_request(given, study(folder)).specs()[0]


def refusal(folder: Path, *words: str) -> str:
    """The one line with which words are refused before anything trains."""
    try:
        asked = read_request(last_words("experiment=x", *SAC, *words), study(folder))
        check_compatibility(asked.experiment.configurations, study(folder))
    except RlexpError as error:
        text = str(error)
    else:
        text = ""
    assert "\n" not in text
    return text


def test_no_dataset_changes_no_identity(tmp_path: Path) -> None:
    """A run without a dataset has the identity of runs from before there were any."""
    assert "dataset" not in spec(tmp_path).parts
    assert spec(tmp_path).id == spec(tmp_path, "dataset=none").id


def test_the_content_is_the_identity(tmp_path: Path, recorded: Path) -> None:
    """Another place keeps a run, another content makes another run, and a description makes none."""
    first = spec(tmp_path, *DATA)
    assert spec(tmp_path).id != first.id
    moved = copytree(recorded.parent, tmp_path / "elsewhere")
    for place in (moved, moved / "data", moved / "data" / "main_data.hdf5"):
        assert first.id == spec(tmp_path, *DATA, f"dataset.id={place}").id
    metadata = moved / "data" / "metadata.json"
    metadata.write_text(json.dumps({**json.loads(metadata.read_text()), "description": "copied"}))
    assert first.id == spec(tmp_path, *DATA, f"dataset.id={moved}").id
    record("pendulum/other-v0", seed=1)
    assert first.id != spec(tmp_path, *DATA, "dataset.id=pendulum/other-v0").id


def test_declared_scores_change_no_identity(tmp_path: Path, recorded: Path) -> None:
    """Reference scores in the metadata or in the words are recorded, and the run stays the same run."""
    first = spec(tmp_path, *DATA)
    assert first.dataset is not None
    assert (None, None) == (first.dataset["random_score"], first.dataset["expert_score"])
    file = recorded / "metadata.json"
    scores = {"ref_min_score": -1235.0, "ref_max_score": -150.0}
    file.write_text(json.dumps({**json.loads(file.read_text()), **scores}))
    declared = spec(tmp_path, *DATA)
    assert declared.dataset is not None
    assert (-1235.0, -150.0) == (
        declared.dataset["random_score"],
        declared.dataset["expert_score"],
    )
    typed = spec(tmp_path, *DATA, "dataset.expert_score=0.0")
    assert typed.dataset is not None
    assert (-1235.0, 0.0) == (typed.dataset["random_score"], typed.dataset["expert_score"])
    assert 1 == len({first.id, declared.id, typed.id})


@pytest.mark.parametrize("end", [float("inf"), float("nan"), -1235.0, "high", None])
def test_scores_that_are_no_scale_are_ignored_in_metadata(end: Any, recorded: Path) -> None:
    """Reference scores of a foreign dataset that are no two different numbers count as not declared."""
    file = recorded / "metadata.json"
    scores = {"ref_min_score": -1235.0, "ref_max_score": end}
    file.write_text(json.dumps({**json.loads(file.read_text()), **scores}))
    assert {} == find_files("pendulum/random-v0", None).reference
    assert Minari(id="pendulum/random-v0").expert_score is None


def test_a_recorded_run_finds_its_dataset_in_the_usual_folder(tmp_path: Path) -> None:
    """The folder that was named on another machine need not exist where the run is repeated."""
    here = Minari(id="pendulum/random-v0")
    elsewhere = Minari(id=here.id, root="/nowhere", digest=here.digest)
    elsewhere.check_content()
    with pytest.raises(RlexpError, match="is no dataset in /nowhere"):
        Minari(id=here.id, root="/nowhere")
    gone = Minari(id="pendulum/gone-v0", digest=here.digest)
    with pytest.raises(
        RlexpError, match=f"{str(here.digest)[:12]}.*is not on this machine: put it into"
    ):
        gone.check_content()


def test_a_run_without_its_dataset_is_not_reproduced(tmp_path: Path, recorded: Path) -> None:
    """`rlexp reproduce` names the missing dataset and its digest before it trains."""
    finished = finish(tmp_path, *SAC, *DATA)
    recorded.parent.rename(recorded.parent.with_name("moved-v0"))
    with pytest.raises(RlexpError, match="is not on this machine"):
        reproduce(finished.name, ReproductionRequest(), finished.study, SilentObserver())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((*DATA, "dataset.id=pendulum/randm-v0"), "did you mean 'pendulum/random-v0'?"),
        ((*DATA, "dataset.id=./nowhere"), "there is no metadata.json"),
        (
            (*DATA, "algorithm=ppo"),
            "PPO has none: choose algorithm=sac, td3 or dqn, or dataset=none",
        ),
        ((*DATA, "dataset.offline_steps=0"), "use nothing of the data"),
        ((*DATA, "dataset.use=mix"), "add replay=prior_data replay.source=dataset"),
        (("replay=prior_data", "replay.source=dataset"), "add dataset=minari"),
        ((*DATA, "environment.vector.normalise_rewards=true"), "normalise_rewards=false"),
        ((*DATA, "environment=mountain_car_continuous"), "does not fit MountainCarContinuous-v0"),
        ((*DATA, "environment=mountain_car_continuous"), "or another dataset.id"),
        (
            (*DATA, "dataset.random_score=2.0", "dataset.expert_score=1.0"),
            "random_score must be below expert_score",
        ),
        ((*DATA, *MIXED), ""),
        (DATA, ""),
    ],
)
def test_what_does_not_fit_is_refused(
    words: tuple[str, ...], expected: str, tmp_path: Path
) -> None:
    """Bad input is refused in one line that says what to type."""
    words = tuple(
        word for word in words if "algorithm=ppo" not in words or not word.startswith("algorithm.")
    )
    if "algorithm=ppo" in words:
        asked = read_request(
            last_words("experiment=x", "environment=pendulum", *words), study(tmp_path)
        )
        with pytest.raises(RlexpError, match=expected):
            check_compatibility(asked.experiment.configurations, study(tmp_path))
        return
    text = refusal(tmp_path, *words)
    assert expected in text
    assert bool(expected) is bool(text)


def test_a_damaged_file_is_refused(tmp_path: Path, recorded: Path) -> None:
    """A file that was cut is refused before anything trains."""
    file = recorded / "main_data.hdf5"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    assert "is damaged" in refusal(tmp_path, *DATA)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("observations", "has a number that is not finite"),
        ("actions", "has a number that is not finite"),
        ("rewards", "has a number that is not finite"),
        ("terminations", "another number of actions or ends"),
    ],
)
def test_an_episode_that_cannot_be_learned_from_is_refused(
    part: str, expected: str, tmp_path: Path, recorded: Path
) -> None:
    """NaN in an episode, or an array of another length, is refused before anything trains."""
    import h5py

    with h5py.File(recorded / "main_data.hdf5", "r+") as file:
        episode = file["episode_3"]
        if part == "terminations":
            shorter = episode[part][:-1]
            del episode[part]
            episode[part] = shorter
        else:
            episode[part][7] = np.nan
    text = refusal(tmp_path, *DATA)
    assert "episode 3 has" in text
    assert expected in text


def test_the_rest_of_a_killed_recording_is_not_offered(tmp_path: Path, recorded: Path) -> None:
    """A hidden folder beside the datasets is no dataset that a message names."""
    copytree(recorded.parent, recorded.parent.with_name(".0a1b2c3d.random-v0"))
    text = refusal(tmp_path, *DATA, "dataset.id=other/thing-v0")
    assert "there are: pendulum/random-v0)" in text


def test_a_changed_dataset_is_refused_for_a_recorded_run(tmp_path: Path, recorded: Path) -> None:
    """A run whose dataset was exchanged after it was asked for does not train on the other data."""
    training = assemble(spec(tmp_path, *DATA))
    assert training.dataset is not None
    training.dataset.check_content()
    other = record("pendulum/other-v0", seed=1)
    (recorded / "main_data.hdf5").write_bytes((other / "main_data.hdf5").read_bytes())
    with pytest.raises(RlexpError, match="changed since the run was asked for"):
        training.dataset.check_content()


def test_without_minari_the_command_to_install_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where Minari is not installed, one line says how to install it."""
    monkeypatch.setattr("rlexp.datasets.minari.find_spec", lambda _: None)
    assert "rlexp[datasets]" in refusal(tmp_path, *DATA)


@pytest.mark.parametrize("name", [*LEARNERS, *Q_LEARNERS])
def test_learners_start_from_data(name: str, tmp_path: Path) -> None:
    """Every off-policy learner takes the offline steps, and its buffer then holds experience only."""
    words = [f"algorithm={name}", *SAC[1:], *DATA]
    if name in Q_LEARNERS:
        record("cart/random-v0", "CartPole-v1", episodes=20)
        words = [*words, "environment=cartpole", "dataset.id=cart/random-v0"]
    finished = finish(tmp_path, *words)
    record_of_run = read_run(finished.paths).record
    assert "completed" == record_of_run.state, record_of_run.reason
    journals = [path.read_text() for path in finished.paths.folder.glob("attempts/1/*.jsonl")]
    assert any('"offline/gradient_steps":60.0' in text for text in journals)


def test_actions_and_ends_are_those_of_the_data(tmp_path: Path, recorded: Path) -> None:
    """Actions are scaled to [-1, 1], and an episode that the time limit cut counts as cut."""
    training = assemble(spec(tmp_path, *DATA))
    model = training.build(tmp_path)
    assert training.dataset is not None
    transitions = transitions_of(training.dataset.episodes(), model)
    assert 1000 == transitions.count
    (first, *_) = training.dataset.episodes()
    expected = np.asarray(first.actions) / 2.0
    assert np.allclose(expected, transitions.arrays["actions"][:200])
    ends = np.flatnonzero(transitions.arrays["timeouts"])
    assert [199, 399, 599, 799, 999] == ends.tolist()
    assert model.env is not None
    model.env.close()


def test_mixed_data_stays(tmp_path: Path) -> None:
    """With `dataset.use=mix`, half of each minibatch is the data."""
    training = assemble(spec(tmp_path, *DATA, *MIXED))
    model: Any = training.build(tmp_path)
    assert 1000 == model.replay_buffer.prior.buffer_size
    assert 0 == steps_done(model)
    model.env.close()


def test_recorded_episodes_are_a_dataset(tmp_path: Path) -> None:
    """`evaluate --record` writes the episodes that it played, where they come from, and serves no choice."""
    finished = finish(tmp_path, *SAC)
    asked = EvaluationRequest(episodes=4, record="pendulum/mine-v0")
    played = evaluate(finished.name, asked, finished.study, SilentObserver())
    plain = evaluate(
        finished.name, EvaluationRequest(episodes=4), finished.study, SilentObserver()
    )
    assert plain.returns == played.returns
    dataset = Minari(id="pendulum/mine-v0")
    totals = [float(episode.rewards.sum()) for episode in dataset.episodes()]
    assert np.allclose(played.returns, totals)
    (policy,) = find_files("pendulum/mine-v0", None).metadata["rlexp"]["policies"]
    assert (finished.name, "test") == (policy["run"], policy["phase"])
    words = (*DATA, "dataset.id=pendulum/mine-v0")
    assert "" == refusal(tmp_path, *words)
    assert "policies of test seeds" in refusal(tmp_path, *words, "phase=tuning")
    with pytest.raises(RlexpError, match="policies of test seeds"):
        read_sweep(
            None,
            last_words(*SAC, *words, "tuner=random", "sweep.space={algorithm.gamma: [0.9, 0.99]}"),
            study(tmp_path),
        )
    with pytest.raises(RlexpError, match="choose another name, such as pendulum/mine-v1"):
        evaluate(finished.name, asked, finished.study, SilentObserver())


def test_a_script_is_told_the_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A training script gets the folder, the id, the digest and the reference scores."""
    record("pendulum/expert-v0", policy=swing_up, ref_min_score=-1300.0, ref_max_score=-150.0)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(
        "from rlexp.trainer import Trainer\n"
        "import minari\n"
        "run = Trainer.of_run()\n"
        "data = minari.MinariDataset(run.dataset['path'])\n"
        "low, high = run.dataset['reference']['minimum'], run.dataset['reference']['maximum']\n"
        "run.evaluated(run.steps, [low, high, float(data.total_steps)], final=True)\n"
    )
    words = last_words(
        *("algorithm=external", "algorithm.command={python} train.py {dataset}"),
        *("environment=pendulum", "dataset=minari", "dataset.id=pendulum/expert-v0"),
        "budget.final_episodes=3",
    )
    finished = finish(tmp_path, *words)
    record_of_run = read_run(finished.paths).record
    assert record_of_run.final is not None, record_of_run.reason
    assert (-1300.0, -150.0, 1000.0) == record_of_run.final.returns
