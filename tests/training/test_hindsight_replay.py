"""Hindsight replay learns what uniform replay cannot, and its buffer is that of the library."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3 import DQN
from stable_baselines3.common.buffers import DictReplayBuffer
from stable_baselines3.her import HerReplayBuffer
from trainings import run_training, spec_of

from rlexp.app.execution.run_process import assemble
from rlexp.records.events import Evaluated
from rlexp.training import learner_state

BITS = (
    *("agent=multi_input", "algorithm=dqn", "environment=gymnasium"),
    *("environment.id=odd_environments:GoalBits-v0", "agent.network=[64]"),
    *("algorithm.learning_starts=200", "algorithm.learning_rate=0.001", "algorithm.train_freq=1"),
    *("algorithm.target_update_interval=100", "algorithm.exploration_fraction=0.5"),
    *(
        "algorithm.gamma=0.95",
        "algorithm.buffer_size=2000",
        "budget.steps=1800",
        "budget.evaluation_every=null",
    ),
)


def share_of_success(folder: Path, *words: str) -> float:
    """The share of final episodes that reach the goal, whose length says it."""
    listener, _ = run_training(folder, *BITS, "budget.final_episodes=40", *words)
    (final,) = [e for e in listener.events if isinstance(e, Evaluated)]
    # Without success, an episode costs 1 in each of its 8 steps.
    return float(np.mean([value > -8.0 for value in final.returns]))


def test_hindsight_learns_bit_flipping_and_uniform_replay_does_not(tmp_path: Path) -> None:
    """With goals that no random action reaches, hindsight succeeds where uniform replay fails."""
    with_hindsight = share_of_success(tmp_path / "her", "replay=her")
    uniform = share_of_success(tmp_path / "uniform")
    assert with_hindsight > 0.4
    assert uniform < 0.2


@pytest.mark.parametrize("infos", ["true", "false"])
def test_minibatches_are_those_of_the_library(infos: str, tmp_path: Path) -> None:
    """With the same experience and random numbers, the library's own buffer draws the same."""
    words = (
        *(*BITS, "replay=her", f"replay.copy_info_dict={infos}", "environment.vector.count=2"),
        *("algorithm.buffer_size=150", "budget.steps=400", "algorithm.train_freq=4"),
    )
    training = assemble(spec_of(*words))
    model: Any = training.build(tmp_path)
    buffer = model.replay_buffer
    library = HerReplayBuffer(
        150,
        buffer.observation_space,
        buffer.action_space,
        model.env,
        device="cpu",
        n_envs=2,
        n_sampled_goal=4,
        goal_selection_strategy="future",
        copy_info_dict=infos == "true",
    )
    add = buffer.add

    def add_to_both(*transition: Any) -> None:
        add(*transition)
        library.add(*transition)

    buffer.add = add_to_both
    model.learn(400)
    model.env.close()
    batches = []
    for each in (buffer, library):
        np.random.seed(0)  # noqa: NPY002 (the generator of the library)
        batches.append(each.sample(64))
    first, second = batches
    for name in ("rewards", "actions", "dones"):
        assert getattr(first, name).tolist() == getattr(second, name).tolist()
    for key in first.observations:
        assert first.observations[key].tolist() == second.observations[key].tolist()


def test_a_saved_policy_loads_without_environment_and_without_hindsight(tmp_path: Path) -> None:
    """The file of a policy that hindsight trained loads with the library alone."""
    run_training(tmp_path, *BITS, "replay=her", "budget.steps=250", "budget.final_episodes=1")
    model = DQN.load(tmp_path / "model.zip")
    assert type(model.replay_buffer) is DictReplayBuffer


def test_checkpoints_write_each_row_once_and_the_episodes_whole(tmp_path: Path) -> None:
    """A second checkpoint holds the new rows only, and the episode of every stored transition."""
    words = (*BITS, "replay=her", "budget.steps=400", "budget.final_episodes=1")
    listener, _ = run_training(tmp_path, *words, checkpoint_every=100)
    stretches = [c.transitions for c in listener.checkpoints]
    assert [(0, 100), (100, 200), (200, 300)] == [(t.begin, t.end) for t in stretches if t]
    contents = [learner_state.unpack(t.content) for t in stretches if t]
    assert all("ep_start" in content and "ep_length" not in content for content in contents)
    states = [learner_state.unpack(c.files["state.npz"])["replay"] for c in listener.checkpoints]
    assert [100, 200, 300] == [len(state["lengths"]) for state in states]


def test_a_subclass_with_further_state_is_no_supported_buffer(tmp_path: Path) -> None:
    """A class that does not itself say what changes in place is refused, not saved by half."""
    model: Any = assemble(spec_of(*BITS, "replay=her")).build(tmp_path)
    model.env.close()
    assert learner_state.replay_obstacle(model) is None
    buffer = model.replay_buffer
    buffer.__class__ = type("Richer", (type(buffer),), {})
    assert "class Richer cannot be saved" in str(learner_state.replay_obstacle(model))
