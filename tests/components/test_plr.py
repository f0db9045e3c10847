"""Prioritised level replay: its scores, its probabilities, and what it refuses."""

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3 import A2C
from taught_environments import PLAIN, Slope, teacher

from rlexp.components.levels import Levels
from rlexp.components.teachers.plr import EpisodeScores, LevelLessons, Score
from rlexp.environments import Reference, Stage, Vector
from rlexp.environments.composed import ComposedTask
from rlexp.environments.gymnasium_task import GymnasiumTask
from rlexp.environments.run_teacher import ValuedRollout
from rlexp.errors import ConfigError
from rlexp.training.environments.taught_vector import TellingRollouts, taught_vector
from rlexp.training.vectorise import training_vector


def lessons(count: int = 4, first: int = 10, **changes: Any) -> LevelLessons:
    """Lessons over the levels from `first` on."""
    low, high = np.array([float(first)]), np.array([float(first + count - 1)])
    result: LevelLessons = teacher("plr", **changes).begin(low, high, np.random.default_rng(1))
    return result


def rollout(levels: list[int], starts: list[int], ended: bool, **arrays: Any) -> ValuedRollout:
    """A rollout of one environment."""
    length = len(starts)
    columns = {
        name: np.asarray(arrays.get(name, np.zeros(length)), dtype=np.float32)[:, np.newaxis]
        for name in ("rewards", "values", "advantages")
    }
    return ValuedRollout(
        tasks=[[np.array([float(level)]) for level in levels]],
        starts=np.array(starts, dtype=bool)[:, np.newaxis],
        ended=np.array([ended]),
        discount=0.5,
        **columns,
    )


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        # Level 10 has the steps 1 and 2 of the first rollout, level 11 all others.
        ("value_loss", [1.5, 2.0]),
        ("positive_value_loss", [0.5, 2.0]),
        # Returns from the first step: 1 + 0.5 · 2, and 4 + 0.5 · 0 + 0.25 · 8; values 3 and 1.
        ("max_mc", [2.0 - 3.0, 6.0 - 1.0]),
    ],
)
def test_scores_are_means_over_whole_episodes(score: Score, expected: list[float]) -> None:
    """An episode that spans two rollouts is scored once, over all of its steps."""
    scores = EpisodeScores(score, 2)
    first = rollout(
        [0, 1], [1, 0, 1, 0], False,
        advantages=[1, -2, 1, 2], rewards=[1, 2, 4, 0], values=[3, 3, 1, 1],
    )  # fmt: skip
    second = rollout([1], [0], True, advantages=[3], rewards=[8], values=[1])
    assert [(0, expected[0])] == list(scores.of_environment(first, 0, [0, 1]))
    again = EpisodeScores(score, 2)
    again.restore(scores.state())
    assert [(1, expected[1])] == list(again.of_environment(second, 0, [1]))


def test_an_episode_of_whole_rollouts_is_scored_when_it_ends() -> None:
    """Nothing is scored before an episode ends; one that ends with a rollout is scored at once."""
    scores = EpisodeScores("value_loss", 1)
    begun = rollout([0], [1, 0], False, advantages=[1, 1])
    assert [] == list(scores.of_environment(begun, 0, [0]))
    ended = rollout([0], [0, 0], True, advantages=[3, 3])
    assert [(0, 2.0)] == list(scores.of_environment(ended, 0, [0]))
    # The next rollout begins another episode of the same environment.
    other = rollout([0, 0], [1, 1], True, advantages=[5, 7])
    assert [(0, 5.0), (0, 7.0)] == list(scores.of_environment(other, 0, [0, 0]))


def test_largest_return_of_a_level_is_kept() -> None:
    """The regret of a worse episode is measured from the best return that its level ever gave."""
    scores = EpisodeScores("max_mc", 1)
    for reward, expected in ((5.0, 5.0), (1.0, 5.0)):
        one = rollout([0], [1], True, rewards=[reward])
        assert [(0, expected)] == list(scores.of_environment(one, 0, [0]))


def test_chances_mix_ranks_and_ages() -> None:
    """Ranks count by their power, ages by their share, and new levels have no chance."""
    taught = lessons(temperature=0.5, staleness=0.25)
    taught.scores[:3] = [0.2, 9.0, 0.5]
    by_score = np.array([1 / 9, 1.0, 1 / 4])
    # Every level was begun as early: the ages are equal.
    taught._begun = 6
    taught._begun_at[:3] = [6, 4, 2]
    expected = 0.75 * by_score / by_score.sum() + 0.25 * np.array([0, 2, 4]) / 6
    assert expected == pytest.approx(taught.chances(np.arange(3)))


def test_levels_with_high_scores_are_played_again() -> None:
    """All levels are new at first; then the one that is learnt worst is played most."""
    taught = lessons(count=5, staleness=0.0)
    first = {float(taught.propose()[0]) for _ in range(40)}
    assert first == {10.0, 11.0, 12.0, 13.0, 14.0}
    assert 0 == taught.acted
    losses = dict(zip(range(10, 15), (1.0, 2.0, 50.0, 3.0, 4.0), strict=True))
    for level, loss in losses.items():
        taught.hear_rollout(rollout([level], [1], True, advantages=[loss]))
    played = [float(taught.propose()[0]) for _ in range(50)]
    assert played.count(12.0) > 45
    assert 50 == taught.acted


def test_new_levels_are_played_by_the_share_of_seen_ones() -> None:
    """With one of four levels seen, one episode of four plays it again; a set share replaces that."""
    for share, expected in ((None, 0.25), (0.9, 0.9)):
        taught = lessons(replay_share=share)
        taught.hear_rollout(rollout([10], [1], True, advantages=[1.0]))
        played = [float(taught.propose()[0]) for _ in range(2000)]
        assert played.count(10.0) / 2000 == pytest.approx(expected, abs=0.03)


def test_low_temperatures_stay_finite() -> None:
    """The lowest temperature plays the level of the first rank alone."""
    taught = lessons(temperature=1e-9, staleness=0.0)
    taught.scores[:] = [1.0, 2.0, 3.0, 0.0]
    assert [0.0, 0.0, 1.0, 0.0] == taught.chances(np.arange(4)).tolist()


def test_state_is_restored() -> None:
    """Lessons with the state of others propose the same from then on."""
    first, second = lessons(), lessons()
    for level in (10, 12):
        first.propose()
        first.hear_rollout(rollout([level, 11], [1, 1], False, advantages=[level, 1.0]))
    second.restore(first.state())
    second._generator.bit_generator.state = first._generator.bit_generator.state
    assert [first.propose().tolist() for _ in range(30)] == [
        second.propose().tolist() for _ in range(30)
    ]
    assert first.acted == second.acted


def test_environment_without_levels_is_refused() -> None:
    """The error is one line that names what has levels."""
    with pytest.raises(ConfigError, match=r"needs an environment with levels.*component=levels"):
        teacher("plr").wrap(Slope(), Stage.TRAINING)


def test_too_many_levels_are_refused() -> None:
    """Scores of all levels are part of checkpoints, so that their number is limited."""
    many = Levels(training=200_000, test=1, start=0).wrap(Slope(), Stage.TRAINING)
    with pytest.raises(ConfigError, match=r"at most 100,000: lower .*levels\.training=200000"):
        teacher("plr").wrap(many, Stage.TRAINING)


def test_evaluations_play_levels_in_order() -> None:
    """A teacher does not change evaluations."""
    levels = Levels(training=3, test=2, start=0).wrap(Slope(), Stage.EVALUATION)
    assert levels is teacher("plr").wrap(levels, Stage.EVALUATION)


def test_estimated_values_are_no_part_of_returns(tmp_path: Path) -> None:
    """The library adds the value of the last observation to the reward that a time limit follows.

    A learner that expects 100 everywhere would otherwise have seen returns of about 100 on levels
    without any reward.
    """
    slope = GymnasiumTask(
        id="taught/Slope-v0",
        name=None,
        imports=("taught_environments",),
        arguments={},
        max_episode_steps=3,
        wrappers=(),
        vector=Vector(count=2, kind="dummy", **PLAIN),  # type: ignore[arg-type]
        reference=Reference(),
    )
    components = {
        "levels": Levels(training=4, test=1, start=0),
        "plr": teacher("plr", score="max_mc"),
    }
    vector = training_vector(ComposedTask(slope, components), [1, 2], [0, 0], 0.99, tmp_path)
    with closing(vector):
        layer = taught_vector(vector)
        assert layer is not None
        learner = A2C("MlpPolicy", vector, n_steps=8, device="cpu")
        torch.nn.init.constant_(learner.policy.value_net.bias, 100.0)
        learner.learn(32, callback=TellingRollouts(layer))
    scores = layer.lessons.scores  # type: ignore[attr-defined]
    assert np.isfinite(scores).any()
    assert np.nanmax(scores) < -50
