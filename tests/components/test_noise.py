"""Noise on observations and actions has the set size and stays within the space."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import Scripted, array, numbers, play

from rlexp.components.action_noise import ActionNoise
from rlexp.components.gaussian_noise import gaussian_noise
from rlexp.components.observation_noise import ObservationNoise
from rlexp.environments import Stage
from rlexp.errors import ConfigError

STEPS = 4000
STILL = [array(0.5)] * STEPS


def observation_noise(deviation: Any = 0.1, unit: Any = "absolute", stage: Any = "both") -> Any:
    """Observation noise with the given settings."""
    return ObservationNoise(deviation=deviation, unit=unit, stage=stage)


def action_noise(deviation: Any = 0.1, unit: Any = "absolute", stage: Any = "both") -> Any:
    """Action noise with the given settings."""
    return ActionNoise(deviation=deviation, unit=unit, stage=stage)


@pytest.mark.parametrize(("deviation", "unit"), [(0.2, "absolute"), (0.02, "range")])
def test_observations_err_by_the_deviation(deviation: float, unit: str) -> None:
    """Noise has mean 0 and deviation 0.2, which is also a fiftieth of a range of ten."""
    env = observation_noise(deviation, unit).wrap(
        Scripted([3.0] * (STEPS + 1), bound=5.0), Stage.TRAINING
    )
    observations = numbers(play(env, STILL))
    assert 3.0 == pytest.approx(np.mean(observations), abs=4 * 0.2 / STEPS**0.5)
    assert 0.2 == pytest.approx(np.std(observations), rel=4 / (2 * STEPS) ** 0.5)
    assert abs(np.corrcoef(observations[1:], observations[:-1])[0, 1]) < 4 / STEPS**0.5


def test_actions_err_by_the_deviation_and_stay_possible() -> None:
    """Noise around 0.5 has deviation 0.1 and never leaves the space."""
    script = Scripted([0.0] * (STEPS + 1))
    play(action_noise().wrap(script, Stage.TRAINING), STILL)
    actions = np.concatenate(script.played_actions)
    assert 0.5 == pytest.approx(actions.mean(), abs=4 * 0.1 / STEPS**0.5)
    assert 0.1 == pytest.approx(actions.std(), rel=4 / (2 * STEPS) ** 0.5)
    play(action_noise(1.0).wrap(script, Stage.TRAINING), STILL)
    actions = np.concatenate(script.played_actions)
    assert (-1.0, 1.0) == (actions.min(), actions.max())


def test_the_first_observation_errs_too() -> None:
    """The first observation is noisy, and follows the seed of the reset."""
    env = observation_noise().wrap(Scripted([3.0, 3.0]), Stage.TRAINING)
    first, _ = env.reset(seed=7)
    again, _ = env.reset(seed=7)
    assert first != 3.0
    assert first == again
    assert first != env.reset(seed=8)[0]
    assert first[0] == 3.0 + 0.1 * gym.utils.seeding.np_random(7)[0].standard_normal()


def test_each_entry_can_have_its_deviation() -> None:
    """An entry with deviation 0 stays unchanged, even without a range."""
    space = gym.spaces.Box(np.array([-1.0, -np.inf]), np.array([1.0, np.inf]), dtype=np.float64)
    noise = gaussian_noise(space, (0.5, 0.0), "range", component="observation_noise", what="it")
    assert [1.0, 0.0] == noise.deviations.tolist()
    noisy_values = noise.add(array(0.0, 9.0), np.random.default_rng(0))
    assert 9.0 == noisy_values[1]
    assert 0.0 != noisy_values[0]


BOXES = st.sampled_from(
    [
        gym.spaces.Box(-1.0, 1.0, (2, 3), np.float32),
        gym.spaces.Box(0.1, 0.3, (2, 3), np.float32),
        gym.spaces.Box(0, 255, (2, 3), np.uint8),
        gym.spaces.Box(-np.inf, np.inf, (2, 3), np.float64),
    ]
)


@given(space=BOXES, deviation=st.floats(0, 1e6), seed=st.integers(0, 2**32))
def test_noisy_values_are_in_the_space(space: Any, deviation: float, seed: int) -> None:
    """Any noise gives an element of the space and leaves the input unchanged."""
    values = np.clip(np.nan_to_num(space.low), space.low, space.high).astype(space.dtype)
    original = values.copy()
    noise = gaussian_noise(space, deviation, "absolute", component="observation_noise", what="it")
    noisy_values = noise.add(values, np.random.default_rng(seed))
    assert space.contains(noisy_values)
    assert original.tolist() == values.tolist()


def test_whole_numbers_are_rounded_to_the_nearest() -> None:
    """The mean of noisy pixels is that of the pixels, not half a unit less."""
    space = gym.spaces.Box(0, 255, (STEPS,), np.uint8)
    noise = gaussian_noise(space, 2.0, "absolute", component="observation_noise", what="it")
    noisy_values = noise.add(np.full(STEPS, 100, np.uint8), np.random.default_rng(0))
    assert 100 == pytest.approx(noisy_values.mean(), abs=4 * 2.0 / STEPS**0.5)


@pytest.mark.parametrize("component", [observation_noise, action_noise])
def test_noise_acts_at_its_stages(component: Any) -> None:
    """Noise acts at its stages only, and a deviation of 0 nowhere."""
    env = Scripted([0.0, 0.0])
    stages = {
        stage: [s for s in Stage if component(stage=stage).wrap(env, s) is not env]
        for stage in ("both", "training", "evaluation")
    }
    assert list(Stage) == stages["both"]
    assert [Stage.TRAINING, Stage.IN_DISTRIBUTION] == stages["training"]
    assert [Stage.EVALUATION] == stages["evaluation"]
    assert env is component(0.0).wrap(env, Stage.TRAINING)
    splits = [component(stage=s).splits for s in ("both", "training", "evaluation")]
    assert [False, True, True] == splits


@pytest.mark.parametrize(
    ("component", "reason"),
    [
        (observation_noise(unit="range"), "entries 0 of observations have no range"),
        (observation_noise((0.1, 0.2)), "deviation has 2 numbers, observations have 1 entries"),
        (action_noise((0.1, 0.2)), "action_noise.deviation has 2 numbers"),
    ],
)
def test_noise_that_does_not_fit_is_refused(component: Any, reason: str) -> None:
    """Infinite ranges and wrong numbers of deviations are refused."""
    with pytest.raises(ConfigError, match=reason):
        component.wrap(Scripted([0.0, 0.0]), Stage.TRAINING)


def test_discrete_spaces_are_refused() -> None:
    """Discrete spaces are refused at every stage, also where the noise does not act."""
    env = Scripted([0.0, 0.0], actions=gym.spaces.Discrete(2))
    for stage in Stage:
        with pytest.raises(
            ConfigError, match=r"needs actions that are arrays of numbers .* Discrete"
        ):
            action_noise(stage="evaluation").wrap(env, stage)
