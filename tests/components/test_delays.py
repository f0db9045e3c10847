"""Delays of observations and actions, compared with results by hand."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import Scripted, array, numbers, play

from rlexp.components.action_delay import ActionDelay
from rlexp.components.delays import Delay, DelayLine
from rlexp.components.observation_delay import ObservationDelay
from rlexp.environments import Stage
from rlexp.errors import ConfigError

PUSHES = [array(0.1 * step) for step in range(1, 7)]


def observation_delay(
    least: int = 2, most: int = 2, each: Any = "step", stage: Any = "both"
) -> Any:
    """Observation delay with the given settings."""
    return ObservationDelay(least=least, most=most, each=each, stage=stage)


def action_delay(
    least: int = 2, most: int = 2, each: Any = "step", stage: Any = "both", initial: float = 0.0
) -> Any:
    """Action delay with the given settings."""
    return ActionDelay(least=least, most=most, each=each, stage=stage, initial=initial)


def test_observations_come_two_steps_late() -> None:
    """The first observation repeats until the second arrives; a reset discards the queue."""
    env = observation_delay().wrap(Scripted([0, 1, 2, 3, 4, 5]), Stage.TRAINING)
    for _ in range(2):
        assert 0.0 == env.reset()[0][0]
        assert [0, 0, 1, 2, 3] == numbers(play(env, PUSHES))
        env.reset()
        env.step(PUSHES[0])


def test_rewards_and_ends_are_not_late() -> None:
    """Rewards and ends are not delayed."""
    script = Scripted([0, 1, 2, 3], rewards=[1, 2, 3])
    steps = play(observation_delay().wrap(script, Stage.TRAINING), PUSHES)
    assert [(1, False), (2, False), (3, True)] == [(step[1], step[2]) for step in steps]


def test_actions_come_two_steps_late() -> None:
    """The initial action repeats until the first action arrives; a reset discards the queue."""
    script = Scripted([0] * 6)
    env = action_delay(initial=-1.0).wrap(script, Stage.TRAINING)
    for _ in range(2):
        play(env, PUSHES)
        assert [-1, -1, 0.1, 0.2, 0.3] == pytest.approx(
            np.concatenate(script.played_actions).tolist()
        )


def test_discrete_actions_can_be_late() -> None:
    """A discrete action stays a single number."""
    script = Scripted([0] * 4, actions=gym.spaces.Discrete(3))
    play(
        action_delay(1, 1, initial=2).wrap(script, Stage.TRAINING), [np.int64(0), np.int64(1)] * 2
    )
    assert [2, 0, 1] == script.played_actions
    assert all(script.action_space.contains(action) for action in script.played_actions)


class ScriptedGenerator:
    """A generator with scripted draws."""

    def __init__(self, *values: int) -> None:
        self.values = list(values)

    def integers(self, *_: Any, **__: Any) -> int:
        """Return the next number."""
        return self.values.pop(0)


def test_overtaken_items_are_lost() -> None:
    """With delays 3, 3, 0, 3, 3, 3, the third item arrives at once, and no older item later."""
    line, generator = (
        DelayLine(Delay(least=0, most=3, each="step")),
        ScriptedGenerator(3, 3, 0, 3, 3, 3),
    )
    line.begin(0, 0, generator)  # type: ignore[arg-type]
    received = [line.pass_on(n, generator) for n in range(1, 7)]  # type: ignore[arg-type]
    assert [0, 0, 3, 3, 3, 3] == received


@given(
    least=st.integers(0, 4),
    width=st.integers(0, 4),
    seed=st.integers(0, 2**32),
    each=st.sampled_from(["step", "episode"]),
)
def test_delays_are_within_their_bounds_and_in_order(
    least: int, width: int, seed: int, each: Any
) -> None:
    """Items arrive within the bounds of the delay, and never an older one after a newer."""
    line, generator = (
        DelayLine(Delay(least=least, most=least + width, each=each)),
        np.random.default_rng(seed),
    )
    line.begin(0, 0, generator)
    received = [line.pass_on(n, generator) for n in range(1, 40)]
    ages = [n - item for n, item in enumerate(received, 1)]
    assert received == sorted(received)
    assert all(min(n, least) <= age <= least + width for n, age in enumerate(ages, 1))
    if each == "episode":
        assert 1 == len(set(ages[least + width :]))


def test_random_delays_are_equally_likely() -> None:
    """Each of three delays is drawn in a third of episodes."""
    env = observation_delay(1, 3, "episode").wrap(Scripted([0, 1, 2, 3, 4]), Stage.TRAINING)
    env.reset(seed=0)
    delays = []
    for _ in range(900):
        env.reset()
        delays.append(4 - int([env.step(PUSHES[0]) for _ in range(4)][-1][0][0]))
    assert all(abs(delays.count(delay) - 300) < 60 for delay in (1, 2, 3))
    assert {1, 2, 3} == set(delays)


class OverwritesArrays(Scripted):
    """Overwrites the arrays that it returned and received."""

    def step(self, action: Any) -> Any:
        """Step, and overwrite the action and the last observation."""
        result = super().step(action)
        self.observations[len(self.played_actions) - 1][:] = -9
        self.played_actions[-1] = action.copy()
        action[:] = -9
        return result


def test_delayed_items_are_copies() -> None:
    """An environment that reuses its arrays does not change delayed items."""
    assert [0, 0, 1, 2] == numbers(
        play(
            observation_delay().wrap(OverwritesArrays([0, 1, 2, 3, 4]), Stage.TRAINING),
            [array(0.0)] * 4,
        )
    )
    script = OverwritesArrays([0] * 30)
    env = action_delay(0, 1).wrap(script, Stage.TRAINING)
    play(env, [array(0.5) for _ in range(29)], seed=3)
    assert {0.0, 0.5} >= set(np.concatenate(script.played_actions).tolist())


@pytest.mark.parametrize("component", [observation_delay, action_delay])
def test_a_delay_acts_at_its_stages(component: Any) -> None:
    """A delay acts at its stages only, and a delay of 0 nowhere."""
    env = Scripted([0.0, 0.0])
    assert [Stage.EVALUATION] == [
        s for s in Stage if component(stage="evaluation").wrap(env, s) is not env
    ]
    assert env is component(0, 0).wrap(env, Stage.TRAINING)
    assert [False, True] == [component(stage=s).splits for s in ("both", "training")]


@pytest.mark.parametrize("component", [observation_delay, action_delay])
def test_an_empty_range_is_refused(component: Any) -> None:
    """`least` must not exceed `most`."""
    with pytest.raises(ConfigError, match="least=3 is more than most=2"):
        component(3, 2)


@pytest.mark.parametrize(
    ("space", "initial"),
    [
        (gym.spaces.Box(-1.0, 1.0, (2,), np.float32), 1.5),
        (gym.spaces.Discrete(2), 2.0),
        (gym.spaces.Discrete(2), 0.5),
        (gym.spaces.MultiBinary(3), 7.0),
    ],
)
def test_an_initial_action_outside_the_space_is_refused(space: Any, initial: float) -> None:
    """The error names the number and the action space."""
    with pytest.raises(ConfigError, match=f"initial={initial:g} is no action of"):
        action_delay(initial=initial).wrap(Scripted([0, 0], actions=space), Stage.TRAINING)


def test_actions_that_are_no_numbers_are_refused() -> None:
    """A dictionary action has no initial number."""
    space = gym.spaces.Dict(a=gym.spaces.Discrete(2))
    with pytest.raises(ConfigError, match="numbers or arrays of them, not Dict"):
        action_delay().wrap(Scripted([0, 0], actions=space), Stage.TRAINING)
