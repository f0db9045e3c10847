"""Guides take the first steps of training episodes or provide their start states."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stored_runs import completed, stored

from rlexp.components.jump_start import JumpStart, JumpStartedEnvironment
from rlexp.components.levels import Levels
from rlexp.components.snapshots import SnapshotEnvironment, Snapshots
from rlexp.components.teachers.taught import taught
from rlexp.environments import Stage
from rlexp.errors import ConfigError
from rlexp.store.layout import Layout

JUMP = JumpStart(
    guide="runs/x/y",
    weights="abc",
    steps=4,
    schedule="curriculum",
    stages=2,
    window=2,
    tolerance=0.0,
)
SNAPSHOTS = Snapshots(
    guide="runs/x/y",
    weights="abc",
    probability=1.0,
    trajectories=2,
    every=3,
    choice="uniform",
    clusters=3,
    truncate=None,
    until=None,
    seed=0,
)


class Alternating:
    """A guide that alternates left and right, which balances the pole for a while."""

    def __init__(self) -> None:
        self.turn = 0

    def begin(self) -> None:
        """Begin with the action left."""
        self.turn = 0

    def act(self, observation: Any) -> int:
        """Return the direction opposite to the last one."""
        self.turn += 1
        return self.turn % 2


class Counting(gym.Env[Any, Any]):
    """Counts its steps; an episode has ten steps with the reward of the test."""

    observation_space = gym.spaces.Box(0.0, 100.0, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def __init__(self) -> None:
        self.count, self.reward = 0, 1.0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Reset the count."""
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(1), {}

    def step(self, action: Any) -> Any:
        """Count a step."""
        self.count += 1
        return np.full(1, float(self.count)), self.reward, False, self.count == 10, {}


def _play(env: gym.Env[Any, Any]) -> int:
    """Play an episode; returns the step at which the learner began."""
    observation, _ = env.reset()
    first_step, ended = int(observation[0]), False
    while not ended:
        _, _, terminated, truncated, _ = env.step(0)
        ended = terminated or truncated
    return first_step


def test_the_guide_takes_fewer_steps_when_the_learner_is_good_enough() -> None:
    """Two stages of two episodes give 4, 4, 2, 2 steps and then none."""
    env = JumpStartedEnvironment(Counting(), Alternating(), JUMP)  # type: ignore[arg-type]
    env.reset(seed=0)
    assert [4, 4, 2, 2, 0, 0] == [_play(env) for _ in range(6)]


def test_a_learner_that_gets_worse_keeps_its_guide() -> None:
    """Returns of 5 after a stage with returns of 10 keep the steps of the guide."""
    inner = Counting()
    env = JumpStartedEnvironment(inner, Alternating(), JUMP)  # type: ignore[arg-type]
    env.reset(seed=0)
    first = [_play(env) for _ in range(2)]
    inner.reward = 0.5
    assert [4, 4, 2, 2, 2, 2] == first + [_play(env) for _ in range(4)]


def test_drawn_steps_of_the_guide_are_uniform() -> None:
    """JSRL-Random draws 0 to 4 steps about equally often, and follows the seed."""
    settings = replace(JUMP, schedule="random")

    def first_steps() -> list[int]:
        env = JumpStartedEnvironment(Counting(), Alternating(), settings)  # type: ignore[arg-type]
        env.reset(seed=3)
        return [_play(env) for _ in range(500)]

    steps = first_steps()
    counts = np.bincount(steps, minlength=5)
    assert counts.size == 5
    assert counts.min() > 70
    assert steps == first_steps()


def test_an_episode_that_the_guide_ends_begins_anew_without_it() -> None:
    """If the guide ends an episode, the learner plays an episode from its first step."""
    settings = replace(JUMP, steps=20)
    env = JumpStartedEnvironment(Counting(), Alternating(), settings)  # type: ignore[arg-type]
    assert 0 == int(env.reset(seed=0)[0][0])


def test_a_snapshot_is_exactly_where_the_guide_was() -> None:
    """Every start state equals a state of one of two trajectories, bit for bit."""
    guide = Alternating()
    env = SnapshotEnvironment(gym.make("CartPole-v1").unwrapped, guide, SNAPSHOTS)  # type: ignore[arg-type]
    starts = [env.reset(seed=5)[0], *(env.reset()[0] for _ in range(30))]
    states = set()
    for seed in np.random.SeedSequence(0).generate_state(2):
        environment = gym.make("CartPole-v1").unwrapped
        guide.begin()
        observation, ended, step = environment.reset(seed=int(seed))[0], False, 0
        while not ended:
            if step and step % SNAPSHOTS.every == 0:
                states.add(observation.tobytes())
            observation, _, ended, _, _ = environment.step(guide.act(observation))
            step += 1
    start_states = {start.tobytes() for start in starts}
    assert start_states <= states
    assert len(start_states) > 3


def test_the_generator_continues_after_a_snapshot() -> None:
    """After a snapshot, the generator continues as before its replay."""
    inner = Counting()
    env = SnapshotEnvironment(inner, Alternating(), SNAPSHOTS)  # type: ignore[arg-type]
    env.reset(seed=5)
    reference = Counting()
    reference.reset(seed=5)
    # A reset makes these three draws; neither they nor the next draw use the snapshot's seed.
    reference.np_random.random(), reference.np_random.integers(1), reference.np_random.integers(6)
    assert inner.np_random.random() == reference.np_random.random()


def test_episodes_from_a_snapshot_may_be_truncated() -> None:
    """Half of episodes start at step 0; those from snapshots are truncated after 2 steps."""
    settings = replace(SNAPSHOTS, probability=0.5, truncate=2)
    env = SnapshotEnvironment(Counting(), Alternating(), settings)  # type: ignore[arg-type]
    env.reset(seed=1)
    lengths: dict[bool, set[int]] = {True: set(), False: set()}
    starts = []
    for _ in range(200):
        observation, _ = env.reset()
        start, length, ended = int(observation[0]), 0, False
        while not ended:
            _, _, terminated, truncated, _ = env.step(0)
            ended, length = terminated or truncated, length + 1
        starts.append(start)
        lengths[start == 0].add(length)
    assert lengths[True] == {10}
    assert lengths[False] == {1, 2}
    assert 60 < starts.count(0) < 140


def test_start_states_are_grouped_into_clusters() -> None:
    """Start states are grouped into clusters of similar states."""
    settings = replace(SNAPSHOTS, choice="clusters", clusters=2)
    env = SnapshotEnvironment(Counting(), Alternating(), settings)  # type: ignore[arg-type]
    groups = env._clustered([np.zeros(1)] * 8 + [np.full(1, 9.0)] * 2)
    assert [2, 8] == sorted(map(len, groups))


@pytest.mark.parametrize("component", [JUMP, SNAPSHOTS])
@pytest.mark.parametrize("stage", [Stage.EVALUATION, Stage.IN_DISTRIBUTION])
def test_evaluation_has_no_guide(component: Any, stage: Stage) -> None:
    """Evaluation loads no guide and plays the unchanged task."""
    env = Counting()
    assert component.wrap(env, stage) is env


@pytest.mark.parametrize("settings", [JUMP, SNAPSHOTS])
def test_a_guide_that_is_no_completed_run_is_refused(settings: Any) -> None:
    """A guide that is not the folder of a completed run is refused."""
    with pytest.raises(ConfigError, match="is no run's folder: name one that is completed"):
        replace(settings, weights=None).pinned()


@pytest.mark.parametrize("name", ["alpha/ppo-test-0", "runs/alpha/ppo-test-0"])
def test_a_guide_by_its_short_name_is_refused_with_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The name that other commands take leads to the setting with the folder of the run."""
    monkeypatch.chdir(tmp_path)
    alpha = stored(Layout(tmp_path / "runs"), test=1)
    alpha.attempt(0, completed(1.0))
    with pytest.raises(ConfigError) as caught:
        replace(JUMP, guide=name, weights=None).pinned()
    folder = Path("runs", "alpha", alpha.spec(0).name)
    expected = f"type environment.components.jump_start.guide={folder}"
    assert str(caught.value).endswith(f"is no run's folder: {expected}")


def test_snapshots_may_be_for_the_beginning_of_training_only() -> None:
    """After forty steps of the environment, no episode starts from a snapshot."""
    settings = replace(SNAPSHOTS, until=40)
    env = SnapshotEnvironment(Counting(), Alternating(), settings)  # type: ignore[arg-type]
    env.reset(seed=0)
    starts = [_play(env) for _ in range(30)]
    assert starts[0] > 0
    assert set(starts[15:]) == {0}


def test_guide_with_other_choices_of_start_states_is_refused() -> None:
    """Teachers and outer levels are refused with snapshots, because a reset would undo them."""
    guided = SnapshotEnvironment(Counting(), Alternating(), SNAPSHOTS)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"component=\[levels,snapshots\], in this order"):
        Levels(training=5, test=5, start=0).wrap(guided, Stage.TRAINING)
    guided.plan_next = None  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="a teacher cannot choose contexts beside"):
        taught(guided, Stage.TRAINING, None, None)  # type: ignore[arg-type]
