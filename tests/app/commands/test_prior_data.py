"""`replay=prior_data` mixes the transitions of a finished run in, or says on one line why not."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from finished_runs import finish, study
from last_words import last_words
from quick_parts import quick_parts

from rlexp.app.commands.judge.ablate import AblateRequest, ablate
from rlexp.app.commands.judge.gate_training import words_of_experiment
from rlexp.app.commands.order.move import move
from rlexp.app.diagnostics.determinism import read_target
from rlexp.app.execution.checks import compatibility
from rlexp.app.execution.prior_data import (
    SourcedTransitions,
    check_prior_data,
    keep_sourced,
    with_prior_data,
)
from rlexp.app.execution.request import RunRequest, read_request
from rlexp.app.execution.run_process import assemble
from rlexp.app.observer import SilentObserver
from rlexp.app.sweeps.request import read_sweep
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.seeds import Phase
from rlexp.records.prior_transitions import PriorTransitions
from rlexp.store.checkpoints.prior_data import read_prior_data
from rlexp.store.layout import Layout
from rlexp.store.runs import write_experiment
from rlexp.training import learner_state

SMALL = (
    *("algorithm=dqn", "agent.network=[4]", "algorithm.learning_starts=16"),
    *("algorithm.buffer_size=100", "algorithm.batch_size=16"),
)
NEXT = ("experiment=next", "budget.steps=40", "budget.evaluation_every=null", "seeds.test=1")
PRIOR = ("replay=prior_data", "replay.source=tiny/dqn")

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a completed run that keeps its replay buffer, which must not be changed."""
    folder = tmp_path_factory.mktemp("trained")
    finish(folder, *SMALL, "budget.keep_last=true")
    return folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    """A folder with a completed run that keeps its replay buffer."""
    return Path(shutil.copytree(trained, tmp_path / "study"))


def request(folder: Path, *words: str) -> RunRequest:
    """The request of a run with prior data."""
    return read_request(last_words(*SMALL, *NEXT, *PRIOR, *words), study(folder))


def refusal(folder: Path, *words: str) -> str:
    """The one-line message with which prior data is refused."""
    try:
        asked = request(folder, *words)
        check_prior_data(asked.experiment.configurations, asked.sourced, study(folder))
    except ConfigError as error:
        return str(error)
    return "\n"


def test_transitions_are_known_by_their_digest(folder: Path) -> None:
    """The identity holds the digest: renaming the experiment of the source changes no run."""
    (first,) = request(folder).specs()
    move("tiny", "other", study(folder))
    (second,) = request(folder, "replay.source=other/dqn").specs()
    (renamed,) = request(folder).specs()
    assert first.id == second.id == renamed.id
    assert first.replay is not None
    assert len(first.replay["source"]) == 64


def test_the_digest_depends_on_no_checkpoint(tmp_path: Path) -> None:
    """A ring that dropped transitions gives its newest ones, wherever checkpoints were cut."""
    small = (*SMALL, "algorithm.buffer_size=24", "budget.keep_last=true")
    digests = set()
    for every in (10, 17):
        finish(tmp_path / str(every), *small, f"budget.checkpoint_every={every}")
        (sourced,) = request(tmp_path / str(every)).sourced
        assert 24 == sourced.transitions.count
        digests.add(sourced.transitions.digest)
    assert 1 == len(digests)


def test_a_minibatch_is_half_prior_data(folder: Path, tmp_path: Path) -> None:
    """The second half of each minibatch are transitions of the source, the first half experience."""
    # With the root of the source, experience would begin with the same transitions.
    asked = request(folder, "seeds.root=1")
    (sourced,) = asked.sourced
    training = assemble(asked.specs()[0])
    model: Any = _with(training, sourced.transitions).build(tmp_path)
    model.learn(20)
    model.env.close()
    batch = model.replay_buffer.sample(10)
    rows = [tuple(row) for row in batch.observations.numpy()]
    given = {tuple(row) for row in sourced.transitions.arrays["observations"]}
    stored = {tuple(row) for row in model.replay_buffer.observations[:20, 0]}
    assert stored >= {*rows[:5]}
    assert given >= {*rows[5:]}
    assert not {*rows[:5]} & given


def test_a_share_of_nothing_is_a_run_without_prior_data(folder: Path, tmp_path: Path) -> None:
    """With a share of 0, a training has the weights of one with uniform replay."""
    asked = request(folder, "replay.share=0")
    training = assemble(asked.specs()[0])
    weights = []
    for each in (_with(training, asked.sourced[0].transitions), _uniform()):
        model: Any = each.build(tmp_path)
        model.learn(40)
        model.env.close()
        weights.append([values.numpy() for values in model.policy.state_dict().values()])
    assert all(np.array_equal(*both) for both in zip(*weights, strict=True))


def _uniform() -> Any:
    words = last_words(*SMALL, *NEXT)
    (spec,) = read_request(words, Workspace(Path("nowhere"), Layout(Path("nowhere")))).specs()
    return assemble(spec)


def _with(training: Any, transitions: PriorTransitions) -> Any:
    return replace(training, prior=transitions)


def test_a_checkpoint_holds_experience_only(folder: Path, tmp_path: Path) -> None:
    """Prior data is no part of rows or state, and a buffer with it can be saved."""
    asked = request(folder)
    training = _with(assemble(asked.specs()[0]), asked.sourced[0].transitions)
    model: Any = training.build(tmp_path)
    model.env.close()
    assert learner_state.replay_obstacle(model) is None
    assert {} == learner_state.changing_state(model)


def test_the_experiment_keeps_a_copy(folder: Path) -> None:
    """The stored copy is read by its digest; changed bytes are refused."""
    asked, paths = request(folder), study(folder).layout.experiment("next")
    keep_sourced(paths, asked.sourced)
    (sourced,) = asked.sourced
    digest = sourced.transitions.digest
    assert digest == read_prior_data(paths, digest).digest
    (file,) = paths.prior_data.glob("*/transitions.npz")
    arrays = dict(np.load(file))
    np.savez(file, allow_pickle=False, **{**arrays, "rewards": arrays["rewards"] + 1})
    with pytest.raises(RecordError, match="does not hold the transitions that its folder names"):
        read_prior_data(paths, digest)
    with pytest.raises(RecordError, match="is no digest"):
        read_prior_data(paths, "../x")


def test_transitions_of_other_spaces_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another observation space or fewer actions are named, with both forms."""
    monkeypatch.setattr(compatibility, "call_in_subprocess", lambda _, function: function())
    words = ("environment=mountain_car", "experiment=next")
    assert "its observations have the form float32[4], and those here float32[2]" in refusal(
        folder, *words
    )
    arrays = dict(request(folder).sourced[0].transitions.arrays)
    arrays["actions"] = arrays["actions"] + 5
    assert "actions here" in _refused_by_buffer(folder, arrays)
    far = {**arrays, "actions": arrays["actions"] - 5, "observations": arrays["observations"] + 99}
    assert "lie outside of the observation space" in _refused_by_buffer(folder, far)


def _refused_by_buffer(folder: Path, arrays: dict[str, Any]) -> str:
    training = _with(assemble(request(folder).specs()[0]), PriorTransitions(arrays))
    with pytest.raises(ConfigError) as caught:
        training.build(folder)
    return str(caught.value)


def test_transitions_of_test_seeds_serve_no_choice(folder: Path) -> None:
    """Runs of the tuning phase and sweeps take no transitions of a test run."""
    tuning = ("phase=tuning", "seeds.tuning=1")
    assert "must not influence runs of phase tuning" in refusal(folder, *tuning)
    space = "sweep.space={algorithm.gamma: [0.9, 0.99]}"
    with pytest.raises(ConfigError, match="replay=prior_data does not fit a sweep"):
        read_sweep(None, last_words(*SMALL, *PRIOR, space), study(folder))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("replay.source=none/dqn",), "there is no experiment 'none'"),
        (("replay.share=1",), "replay.share=1"),
    ],
)
def test_what_cannot_be_used_is_refused(
    words: tuple[str, ...], message: str, folder: Path
) -> None:
    """An unknown run and a share of everything are refused."""
    refused = refusal(folder, *words)
    assert message in refused
    assert "\n" not in refused


def test_commands_that_cannot_carry_prior_data_refuse_it(folder: Path) -> None:
    """Ablations, baselines of an experiment and checks of determinism say so on one line."""
    words = tuple(last_words(*SMALL, *NEXT, *PRIOR))
    write_experiment(study(folder).layout.experiment("next"), request(folder).experiment)
    with pytest.raises(ConfigError, match="other runs have made: leave out replay=prior_data"):
        read_target(words, study(folder))
    with pytest.raises(ConfigError, match="next begins with prior data"):
        words_of_experiment("next", study(folder))
    asked = AblateRequest(arguments=(*SMALL, *PRIOR, "algorithm.gamma=0.9,0.99"), dry_run=True)
    with pytest.raises(ConfigError, match="an ablation cannot begin with prior data"):
        ablate(asked, study(folder), SilentObserver())


def test_an_algorithm_without_a_buffer_takes_none(folder: Path) -> None:
    """PPO is refused before transitions are given to it."""
    asked = read_request(last_words("algorithm=ppo", *NEXT, *PRIOR), study(folder))
    with pytest.raises(ConfigError, match="PPO has none"):
        check_prior_data(asked.experiment.configurations, asked.sourced, study(folder))


def test_a_run_without_a_kept_buffer_gives_nothing(tmp_path: Path) -> None:
    """The refusal says how a run keeps its buffer."""
    finish(tmp_path, *SMALL)
    assert "keeps no replay buffer: train it with budget.keep_last=true" in refusal(tmp_path)


def test_another_kind_of_source_can_give_transitions(folder: Path) -> None:
    """Any function from a name to transitions takes the place of the run."""
    given = request(folder).sourced[0].transitions
    asked: list[str] = []

    def from_file(name: str, workspace: Workspace) -> SourcedTransitions:
        del workspace
        asked.append(name)
        return SourcedTransitions(name=name, transitions=given, origin={}, of_test_seed=False)

    words = last_words(*SMALL, *NEXT, *PRIOR)
    configurations = read_request(words, study(folder)).experiment.configurations
    (changed,), (sourced,) = with_prior_data(
        configurations, Phase.TUNING, study(folder), from_file
    )
    assert given is sourced.transitions
    assert changed.replay is not None
    assert given.digest == changed.replay["source"]
    assert 1 == len(asked)
