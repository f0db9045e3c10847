"""Levels of training and evaluation, and randomness within a level."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.toy_text.frozen_lake import generate_random_map

from rlexp.components.levels import Levels
from rlexp.environments import MEASURES, Stage
from rlexp.errors import ConfigError
from rlexp.protocol.identity import identifying, named_part

LEVELS = Levels(training=20, test=10, start=100)


class Dice(gym.Env[Any, Any]):
    """An episode of two steps: the level is one roll, and each step is another."""

    observation_space = gym.spaces.Discrete(1_000_000)
    action_space = gym.spaces.Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Roll the level."""
        super().reset(seed=seed)
        self.remaining_steps = 2
        return int(self.np_random.integers(1_000_000)), {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Roll again."""
        self.remaining_steps -= 1
        return int(self.np_random.integers(1_000_000)), 0.0, self.remaining_steps == 0, False, {}


def episodes(environment: Any, seed: int, count: int) -> list[tuple[float, int, int]]:
    """The level, first observation and last observation of each episode."""
    results = []
    for number in range(count):
        first, _ = environment.reset(seed=seed if number == 0 else None)
        environment.step(0)
        last, _, _, _, info = environment.step(0)
        results.append((info[MEASURES]["context/level"], first, last))
    return results


def levels_of(results: Sequence[tuple[float, int, int]]) -> list[int]:
    """The levels of episodes."""
    return [int(level) for level, _, _ in results]


def test_training_plays_every_level_of_its_set_and_no_other() -> None:
    """Training draws all its levels and no others, and follows the seed."""
    first = levels_of(episodes(LEVELS.wrap(Dice(), Stage.TRAINING), 1, 200))
    assert set(range(100, 120)) == set(first)
    assert first != levels_of(episodes(LEVELS.wrap(Dice(), Stage.TRAINING), 2, 200))


@pytest.mark.parametrize(
    ("stage", "first", "count"), [(Stage.EVALUATION, 120, 10), (Stage.IN_DISTRIBUTION, 100, 20)]
)
def test_evaluation_plays_its_set_in_order(stage: Stage, first: int, count: int) -> None:
    """Parallel environments play each level once and then start over, with any seed."""
    played_levels = []
    for position in range(4):
        environment = LEVELS.wrap(Dice(), stage)
        environment.get_wrapper_attr("deal")(position, 4)
        played_levels += levels_of(episodes(environment, position, count // 2))
    assert sorted([*range(first, first + count)] * 2) == sorted(played_levels)


def test_numbers_of_training_levels_are_scored_on_the_same_test_levels() -> None:
    """With `first_test`, evaluations play the same levels, however many are trained on."""
    played_levels = []
    for training in (1, 20):
        levels = Levels(training=training, test=10, start=100, first_test=120)
        played_levels.append(levels_of(episodes(levels.wrap(Dice(), Stage.EVALUATION), 1, 10)))
        trained = levels_of(episodes(levels.wrap(Dice(), Stage.TRAINING), 1, 200))
        assert set(range(100, 100 + training)) == set(trained)
    assert [list(range(120, 130))] * 2 == played_levels


@pytest.mark.parametrize("first_test", [91, 100, 119])
def test_a_level_of_both_sets_is_refused(first_test: int) -> None:
    """No test level may be a training level; the message names both sets and what is allowed."""
    expected = (
        f"test levels {first_test} to {first_test + 9} share seeds with training levels 100 to 119: "
        "use environment.components.levels.first_test=120 or more, or null"
    )
    with pytest.raises(ConfigError, match=expected):
        Levels(training=20, test=10, start=100, first_test=first_test)


@pytest.mark.parametrize("first_test", [0, 90, 120])
def test_test_levels_may_touch_training_levels(first_test: int) -> None:
    """Test levels may lie before or after the training levels."""
    levels = Levels(training=20, test=10, start=100, first_test=first_test)
    environment = levels.wrap(Dice(), Stage.EVALUATION)
    assert list(range(first_test, first_test + 10)) == levels_of(episodes(environment, 1, 10))


def test_without_first_test_a_run_keeps_its_identity() -> None:
    """The setting is no part of the identity where it is null, so runs keep their names."""
    chosen = replace(LEVELS, first_test=120)
    parts = [named_part(Levels, "component", "levels", asdict(each)) for each in (LEVELS, chosen)]
    assert "first_test" not in identifying(parts[0])
    assert 120 == identifying(parts[1])["first_test"]


def test_level_does_not_depend_on_other_draws() -> None:
    """The start depends on the level only; later draws depend on the seed of the run."""
    results = [episodes(LEVELS.wrap(Dice(), Stage.EVALUATION), seed, 3) for seed in (1, 2)]
    assert [first for _, first, _ in results[0]] == [first for _, first, _ in results[1]]
    assert [last for *_, last in results[0]] != [last for *_, last in results[1]]
    levels, firsts, lasts = zip(*results[0], strict=True)
    assert 3 == len(set(levels)) == len(set(firsts)) == len(set(lasts))


def test_level_is_what_its_seed_makes() -> None:
    """Level 120 starts as the environment reset with seed 120."""
    environment = LEVELS.wrap(gym.make("Taxi-v4"), Stage.EVALUATION)
    assert gym.make("Taxi-v4").reset(seed=120)[0] == environment.reset(seed=1)[0]


def test_mazes_of_minigrid_are_levels() -> None:
    """The walls of the four rooms follow the seed of the level."""
    pytest.importorskip("minigrid")
    environment: Any = LEVELS.wrap(gym.make("MiniGrid-FourRooms-v0"), Stage.EVALUATION)
    mazes = []
    for number in range(3):
        environment.reset(seed=1 if number == 0 else None)
        reference: Any = gym.make("MiniGrid-FourRooms-v0")
        reference.reset(seed=120 + number)
        mazes.append(environment.unwrapped.grid.encode().tobytes())
        assert reference.unwrapped.grid.encode().tobytes() == mazes[-1]
    assert 3 == len(set(mazes))


def test_parts_independent_of_the_seed_are_equal_in_all_levels() -> None:
    """A map made before the first reset is equal in every level."""
    lake = gym.make("FrozenLake-v1", desc=generate_random_map(4, seed=1))
    environment: Any = LEVELS.wrap(lake, Stage.EVALUATION)
    maps = []
    for _ in range(2):
        environment.reset()
        maps.append(np.array(environment.unwrapped.desc).tobytes())
    assert maps[0] == maps[1]
