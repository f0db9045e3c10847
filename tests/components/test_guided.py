"""A guide begins episodes or shows where they may begin, in training only, and names its policy."""

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rlexp.components.jump_start import JumpStart, JumpStartedEnvironment
from rlexp.components.levels import Levels
from rlexp.components.snapshots import SnapshotEnvironment, Snapshots
from rlexp.components.teachers.taught import taught
from rlexp.environments import Stage
from rlexp.errors import ConfigError

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
    """A guide that goes left and right in turns, which keeps the pole up for a while."""

    def __init__(self) -> None:
        self.turn = 0

    def begin(self) -> None:
        """Begin with the left."""
        self.turn = 0

    def act(self, observation: Any) -> int:
        """The other direction than before."""
        self.turn += 1
        return self.turn % 2


class Counting(gym.Env[Any, Any]):
    """Counts its steps; an episode has ten, and the reward of each is what the test says."""

    observation_space = gym.spaces.Box(0.0, 100.0, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def __init__(self) -> None:
        self.count, self.reward = 0, 1.0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin at a place that is drawn."""
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(1), {}

    def step(self, action: Any) -> Any:
        """Count."""
        self.count += 1
        return np.full(1, float(self.count)), self.reward, False, self.count == 10, {}


def _play(env: gym.Env[Any, Any]) -> int:
    """Play an episode; returns at which step it began."""
    observation, _ = env.reset()
    begun, over = int(observation[0]), False
    while not over:
        _, _, terminated, truncated, _ = env.step(0)
        over = terminated or truncated
    return begun


def test_the_guide_takes_fewer_steps_once_the_learner_is_as_good_as_it_was() -> None:
    """Two stages of two episodes each: 4, 4, then 2, 2, then none; the mean never falls."""
    env = JumpStartedEnvironment(Counting(), Alternating(), JUMP)  # type: ignore[arg-type]
    env.reset(seed=0)
    assert [4, 4, 2, 2, 0, 0] == [_play(env) for _ in range(6)]


def test_a_learner_that_gets_worse_keeps_its_guide() -> None:
    """After a stage at return 10, returns of 5 are below it: the guide's steps stay."""
    inner = Counting()
    env = JumpStartedEnvironment(inner, Alternating(), JUMP)  # type: ignore[arg-type]
    env.reset(seed=0)
    first = [_play(env) for _ in range(2)]
    inner.reward = 0.5
    assert [4, 4, 2, 2, 2, 2] == first + [_play(env) for _ in range(4)]


def test_drawn_steps_of_the_guide_are_even_up_to_the_most() -> None:
    """JSRL-Random: each of 0 … 4 about as often, and the same for the same seed."""
    settings = replace(JUMP, schedule="random")

    def begun() -> list[int]:
        env = JumpStartedEnvironment(Counting(), Alternating(), settings)  # type: ignore[arg-type]
        env.reset(seed=3)
        return [_play(env) for _ in range(500)]

    found = begun()
    counts = np.bincount(found, minlength=5)
    assert counts.size == 5
    assert counts.min() > 70
    assert found == begun()


def test_an_episode_that_the_guide_ends_begins_anew_without_it() -> None:
    """Where the guide takes more steps than an episode has, the learner gets a whole one."""
    settings = replace(JUMP, steps=20)
    env = JumpStartedEnvironment(Counting(), Alternating(), settings)  # type: ignore[arg-type]
    assert 0 == int(env.reset(seed=0)[0][0])


def test_a_snapshot_is_exactly_where_the_guide_was() -> None:
    """Every start of CartPole is, to the bit, a state of one of the guide's two trajectories."""
    guide = Alternating()
    env = SnapshotEnvironment(gym.make("CartPole-v1").unwrapped, guide, SNAPSHOTS)  # type: ignore[arg-type]
    starts = [env.reset(seed=5)[0], *(env.reset()[0] for _ in range(30))]
    states = set()
    for seed in np.random.SeedSequence(0).generate_state(2):
        bare = gym.make("CartPole-v1").unwrapped
        guide.begin()
        observation, over, step = bare.reset(seed=int(seed))[0], False, 0
        while not over:
            if step and step % SNAPSHOTS.every == 0:
                states.add(observation.tobytes())
            observation, _, over, _, _ = bare.step(guide.act(observation))
            step += 1
    found = {start.tobytes() for start in starts}
    assert found <= states
    assert len(found) > 3


def test_what_comes_after_a_snapshot_is_drawn_by_the_environments_own_generator() -> None:
    """The snapshot's seed does not repeat the guide's chances: the generator goes on as it was."""
    bare = Counting()
    env = SnapshotEnvironment(bare, Alternating(), SNAPSHOTS)  # type: ignore[arg-type]
    env.reset(seed=5)
    other = Counting()
    other.reset(seed=5)
    # Of the three draws of a reset, as of the one below, none is of the snapshot's seed.
    other.np_random.random(), other.np_random.integers(1), other.np_random.integers(6)
    assert bare.np_random.random() == other.np_random.random()


def test_episodes_from_a_snapshot_may_be_cut_and_others_begin_as_the_task_does() -> None:
    """With probability 0.5 about half begin at step 0; those from snapshots end after 2 steps."""
    settings = replace(SNAPSHOTS, probability=0.5, truncate=2)
    env = SnapshotEnvironment(Counting(), Alternating(), settings)  # type: ignore[arg-type]
    env.reset(seed=1)
    lengths: dict[bool, set[int]] = {True: set(), False: set()}
    begun = []
    for _ in range(200):
        observation, _ = env.reset()
        start, length, over = int(observation[0]), 0, False
        while not over:
            _, _, terminated, truncated, _ = env.step(0)
            over, length = terminated or truncated, length + 1
        begun.append(start)
        lengths[start == 0].add(length)
    assert lengths[True] == {10}
    assert lengths[False] == {1, 2}
    assert 60 < begun.count(0) < 140


def test_clusters_are_drawn_alike_however_many_snapshots_they_have() -> None:
    """Status classification: a rare kind of state begins as many episodes as a frequent one."""
    settings = replace(SNAPSHOTS, choice="clusters", clusters=2)
    env = SnapshotEnvironment(Counting(), Alternating(), settings)  # type: ignore[arg-type]
    groups = env._clustered([np.zeros(1)] * 8 + [np.full(1, 9.0)] * 2)
    assert [2, 8] == sorted(map(len, groups))


@pytest.mark.parametrize("component", [JUMP, SNAPSHOTS])
@pytest.mark.parametrize("stage", [Stage.EVALUATION, Stage.IN_DISTRIBUTION])
def test_no_guide_is_there_where_a_policy_is_scored(component: Any, stage: Stage) -> None:
    """Evaluation loads no guide, and plays the task itself."""
    env = Counting()
    assert component.wrap(env, stage) is env


@pytest.mark.parametrize("settings", [JUMP, SNAPSHOTS])
def test_a_guide_that_is_no_completed_run_is_refused(settings: Any) -> None:
    """One line says what was named and what is wanted."""
    with pytest.raises(ConfigError, match="is no run's folder: name one that is completed"):
        replace(settings, weights=None).pinned()


def test_snapshots_may_be_for_the_beginning_of_training_only() -> None:
    """After forty steps of the environment every episode begins where the task does."""
    settings = replace(SNAPSHOTS, until=40)
    env = SnapshotEnvironment(Counting(), Alternating(), settings)  # type: ignore[arg-type]
    env.reset(seed=0)
    begun = [_play(env) for _ in range(30)]
    assert begun[0] > 0
    assert set(begun[15:]) == {0}


def test_guide_beside_what_chooses_how_episodes_begin() -> None:
    """Teachers, and levels outside of snapshots, are refused: a second reset would undo them."""
    guided = SnapshotEnvironment(Counting(), Alternating(), SNAPSHOTS)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"component=\[levels,snapshots\], in this order"):
        Levels(training=5, test=5, start=0).wrap(guided, Stage.TRAINING)
    guided.plan_next = None  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="a teacher cannot choose contexts beside"):
        taught(guided, Stage.TRAINING, None, None)  # type: ignore[arg-type]
