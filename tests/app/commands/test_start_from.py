"""`algorithm.start_from` begins with the policy of a finished run, or says on one line why not."""

import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from command_line import rlexp
from finished_runs import finish, study
from last_words import last_words
from quick_parts import quick_parts
from stable_baselines3.common.vec_env import unwrap_vec_normalize

from rlexp.app.commands.order.move import move
from rlexp.app.execution.checks import compatibility
from rlexp.app.execution.request import RunRequest, read_request
from rlexp.app.execution.run_process import assemble, execute
from rlexp.app.execution.starting_policy import (
    check_policies,
    keep_policies,
)
from rlexp.errors import ConfigError, RecordError, RlexpError
from rlexp.records.run import RunRecord, State
from rlexp.store.checkpoints.policies import read_policy
from rlexp.store.layout import RunPaths
from rlexp.store.runs import new_attempt, read_run, write_experiment, write_run
from rlexp.training.starting_policy import begin_with, check_fit
from rlexp.training.vectorise import running_statistics

NORMALISED = "environment.vector.normalise_observations=true"
SMALL = ("algorithm.n_steps=16", "algorithm.batch_size=16", "agent.network=[4]", NORMALISED)
NEXT = (
    *("experiment=next", "budget.steps=64", "budget.evaluation_every=null"),
    *("budget.final_episodes=5", "seeds.test=1"),
)

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a completed run of the test phase, which must not be changed."""
    folder = tmp_path_factory.mktemp("trained")
    finish(folder, *SMALL)
    return folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    """A folder with a completed run of the test phase."""
    return Path(shutil.copytree(trained, tmp_path / "study"))


def request(folder: Path, *words: str, start: str = "tiny/ppo") -> RunRequest:
    """The request of a run that begins with a policy."""
    return read_request(
        last_words(*SMALL, *NEXT, f"algorithm.start_from={start}", *words), study(folder)
    )


def test_a_policy_is_known_by_its_digest(folder: Path) -> None:
    """The identity holds the digest: renaming the experiment of the policy changes no run."""
    (first,) = request(folder).specs()
    move("tiny", "other", study(folder))
    (second,) = request(folder, start="other/ppo").specs()
    (renamed,) = request(folder).specs()
    assert first.id == renamed.id
    (without,) = read_request([*SMALL, *NEXT], study(folder)).specs()
    assert first.id == second.id != without.id
    assert len(first.algorithm["start_from"]) == 64
    assert without.fingerprint != first.fingerprint


def test_null_is_no_part_of_an_identity(folder: Path) -> None:
    """A run without a policy has the identity that it had before the setting existed."""
    (spec,) = read_request([*SMALL, *NEXT], study(folder)).specs()
    algorithm = {k: v for k, v in spec.algorithm.items() if k != "start_from"}
    older = type(spec).from_plain({**spec.plain(), "algorithm": algorithm})
    assert spec.id == older.id


def test_a_learner_begins_with_networks_and_statistics(folder: Path, tmp_path: Path) -> None:
    """Networks and statistics are those of the policy; the optimiser is new."""
    asked = request(folder)
    (trained,) = asked.policies
    training = assemble(asked.specs()[0])
    learner = training.build(tmp_path)
    before = learner.policy.state_dict()["action_net.weight"].clone()
    begin_with(learner, trained.policy)
    assert not learner.policy.state_dict()["action_net.weight"].equal(before)
    assert {} == dict(learner.policy.optimizer.state)
    assert learner.env is not None
    vector = unwrap_vec_normalize(learner.env)
    assert vector is not None
    with np.load(folder / "runs" / "tiny" / trained.spec.name / "normalisation.npz") as arrays:
        assert (
            arrays["observation/mean"].tolist()
            == running_statistics(vector)["observation"].mean.tolist()
        )
    vector.close()
    check_fit(training, trained.policy)


def test_a_run_begins_with_a_stored_policy(folder: Path) -> None:
    """A run completes although the run of its policy is gone, and ends elsewhere than without it."""
    started = executed(folder, request(folder))
    assert State.COMPLETED is started.state
    control = executed(
        folder, read_request([*SMALL, *NEXT[1:], "experiment=plain"], study(folder))
    )
    assert State.COMPLETED is control.state
    assert started.weights != control.weights


def executed(folder: Path, asked: RunRequest) -> RunRecord:
    """The record of the only run of a request, whose policy is stored first."""
    paths = study(folder).layout.experiment(asked.experiment.name)
    keep_policies(paths, asked.policies)
    shutil.rmtree(folder / "runs" / "tiny", ignore_errors=True)
    write_experiment(paths, asked.experiment)
    (spec,) = asked.specs()
    run: RunPaths = paths.run(spec.name)
    write_run(run, spec)
    new_attempt(run, {**asked.budget.operational(), "allowed": []}, {}, "")
    handler = signal.getsignal(signal.SIGTERM)
    try:
        execute([str(run.folder), "1"])
    finally:
        signal.signal(signal.SIGTERM, handler)
    return read_run(run).record


def test_a_changed_policy_is_refused(folder: Path) -> None:
    """A stored policy that was changed is not used, and a digest is never a path."""
    asked = request(folder)
    paths = study(folder).layout.experiment("next")
    keep_policies(paths, asked.policies)
    (digest,) = (trained.policy.digest for trained in asked.policies)
    assert read_policy(paths, digest) == asked.policies[0].policy
    (paths.policies / digest / "model.zip").write_bytes(b"other")
    with pytest.raises(RecordError, match="does not hold the policy"):
        read_policy(paths, digest)
    with pytest.raises(RecordError, match="is no digest"):
        read_policy(paths, "../tiny")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("agent.network=[8]",), r"agent.network\[0\]: 4 there, 8 here"),
        ((NORMALISED.replace("true", "false"),), "normalise_observations: True there, False here"),
        (("phase=tuning",), "test seed, which must not influence runs of phase tuning"),
        (("algorithm.start_from=nothing/x",), "there is no experiment 'nothing'"),
    ],
)
def test_misfits_are_refused(folder: Path, words: tuple[str, ...], message: str) -> None:
    """A policy of another kind, or of test seeds for tuning, is refused on one line."""
    with pytest.raises(ConfigError, match=message) as error:
        request(folder, *words)
    assert "\n" not in str(error.value)
    assert not (folder / "runs" / "next").exists()


GROWING = "agent.network={shape: steps, steps: [0, 16, 48], values: [[4], [8], [8, 6]]}"
"""A network whose last size begins at a step that a training of 64 steps reaches."""
GROWING_LATE = GROWING.replace("48", "1000000")


@pytest.mark.parametrize(
    ("words", "last", "others"),
    [(GROWING, "[8,6]", ("[4]", "[8]")), (GROWING_LATE, "[8]", ("[4]", "[8,6]"))],
)
def test_a_training_begins_with_the_last_network_of_one_that_grew(
    tmp_path: Path, words: str, last: str, others: tuple[str, ...]
) -> None:
    """The network that the policy had at the end fits, or a schedule that begins with it; no other."""
    finish(tmp_path, *last_words(*SMALL, words), "budget.steps=64")
    schedule = f"{{shape: steps, steps: [0, 32], values: [{last}, [16, 16]]}}"
    for network in (last, schedule):
        asked = request(tmp_path, f"agent.network={network}")
        check_fit(assemble(asked.specs()[0]), asked.policies[0].policy)
    for network in (*others, words.removeprefix("agent.network=")):
        with pytest.raises(ConfigError, match=r"agent\.network.* there, .* here") as error:
            request(tmp_path, f"agent.network={network}")
        assert "\n" not in str(error.value)


def test_another_algorithm_is_refused(folder: Path) -> None:
    """A policy of PPO does not start A2C."""
    words = ("algorithm=a2c", "algorithm.start_from=tiny/ppo", "agent.network=[4]", NORMALISED)
    with pytest.raises(ConfigError, match="trained by ppo, and a2c cannot begin with its policy"):
        read_request([*NEXT, *words], study(folder))


def test_other_spaces_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy for other observations is refused with both shapes before anything starts."""
    monkeypatch.setattr(compatibility, "call_in_subprocess", lambda _, function: function())
    asked = request(folder, "environment=acrobot")
    with pytest.raises(ConfigError, match=r"does not fit ppo on Acrobot-v1: .*size"):
        check_policies(asked.experiment.configurations, asked.policies, study(folder))


@pytest.mark.parametrize(
    "word", ["algorithm.start_from=tiny/ppo", "algorithm.start_from=choice(tiny/ppo,tiny/a2c)"]
)
def test_a_sweep_takes_no_policy(folder: Path, word: str) -> None:
    """A sweep refuses a policy, fixed or searched, because it could bring test seeds into the choice."""
    words = ("algorithm.learning_rate=interval(1e-5,1e-3)", "tuner=random", "sweep.trials=2", word)
    with pytest.raises(RlexpError, match="does not fit a sweep"):
        rlexp(folder, "sweep", *words, "--dry-run")
