"""Each twin takes the same steps as the task of Gymnasium that it stands for."""

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
from members import member

from rlexp.environments.twins import TWINS, make_twin

STATES = 10_000
TOLERANCE = 1e-5
Array = Any


def random_policy(observation: Array, task: Any) -> Array:
    """A random action."""
    return task.action_space.sample()


def cart_pole(observation: Array, task: Any) -> int:
    """Balance the pole for hundreds of steps."""
    _, velocity, angle, rotation = observation
    return int(angle + 0.3 * rotation + 0.05 * velocity > 0)


def acrobot(observation: Array, task: Any) -> int:
    """Pump energy into the swing, until the tip is high."""
    return 2 if observation[4] < 0 else 0


def mountain_car(observation: Array, task: Any) -> int:
    """Push in the direction of the motion, up to the goal."""
    return 2 if observation[1] >= 0 else 0


def mountain_car_continuous(observation: Array, task: Any) -> Array:
    """Push in the direction of the motion, up to the goal."""
    return np.array([1.0 if observation[1] >= 0 else -1.0], dtype=np.float32)


def pendulum(observation: Array, task: Any) -> Array:
    """Swing up by energy, and hold the pendulum upright."""
    cosine, sine, velocity = observation
    if cosine > 0.9:
        torque = -10 * sine - 3 * velocity
    else:
        torque = 2.0 if velocity * (6 - 0.5 * velocity**2 - 10 * cosine) > 0 else -2.0
    return np.clip(np.array([torque], dtype=np.float32), -2, 2)


GOOD: dict[str, Callable[[Array, Any], Array]] = {
    "CartPole-v1": cart_pole,
    "Acrobot-v1": acrobot,
    "MountainCar-v0": mountain_car,
    "MountainCarContinuous-v0": mountain_car_continuous,
    "Pendulum-v1": pendulum,
}


def visited(name: str) -> Iterator[tuple[Array, Array, Array, float, bool, bool]]:
    """Steps that a random and a good policy take: state, action and what Gymnasium returned.

    The last entry says whether the time limit truncated the episode.
    """
    task: Any = gymnasium.make(name, disable_env_checker=True)
    task.action_space.seed(0)
    for position, policy in enumerate((random_policy, GOOD[name])):
        observation, _ = task.reset(seed=position)
        for _ in range(STATES // 2):
            state = np.asarray(task.unwrapped.state, dtype=np.float64)
            action = policy(observation, task)
            observation, reward, terminated, truncated, _ = task.step(action)
            yield state, action, observation, float(reward), terminated, truncated
            if terminated or truncated:
                observation, _ = task.reset()


def in_turn(states: Array, name: str) -> Array:
    """States as a twin holds them: the angle of the pendulum within a turn."""
    if name == "Pendulum-v1":
        states = states.copy()
        states[:, 0] = (states[:, 0] + np.pi) % (2 * np.pi) - np.pi
    return states.astype(np.float32)


def distance_to_the_end(name: str, observations: Array) -> Array:
    """How far observations are from the threshold at which an episode terminates."""
    match name:
        case "CartPole-v1":
            limits = np.array([2.4, 12 * 2 * np.pi / 360])
            return np.abs(np.abs(observations[:, [0, 2]]) - limits).min(axis=1)
        case "Acrobot-v1":
            cosine, sine, second_cosine, second_sine = observations[:, :4].T
            return np.abs(-cosine - (cosine * second_cosine - sine * second_sine) - 1)
        case "Pendulum-v1":
            return np.full(len(observations), np.inf)
    goal = 0.5 if name == "MountainCar-v0" else 0.45
    return np.minimum(np.abs(observations[:, 0] - goal), np.abs(observations[:, 1]))


@pytest.mark.parametrize("name", sorted(TWINS))
def test_a_step_equals_that_of_gymnasium(name: str) -> None:
    """From 10,000 visited states, observation, reward and end of a step equal Gymnasium's."""
    columns = zip(*visited(name), strict=True)
    states, actions, observations, rewards, terminations, truncations = map(np.asarray, columns)
    assert STATES == len(states)
    assert terminations.any() or name == "Pendulum-v1"
    assert truncations.any() or name == "MountainCarContinuous-v0"
    twin = make_twin(member("environment", "gymnasium", id=name), None)
    key = jax.random.PRNGKey(0)
    following, earned, ended = jax.jit(jax.vmap(lambda s, a: twin.step(key, s, a)))(
        in_turn(states, name), actions
    )
    seen = np.asarray(jax.vmap(twin.observe)(following))
    near = distance_to_the_end(name, observations) < TOLERANCE
    assert np.abs(seen - observations).max() <= TOLERANCE
    assert np.abs(np.asarray(earned) - rewards)[~near].max() <= TOLERANCE
    assert not (np.asarray(ended) != terminations)[~near].any()


@pytest.mark.parametrize("name", sorted(TWINS))
def test_first_states_are_drawn_from_the_same_box(name: str) -> None:
    """The first observations of 2,000 episodes span those of Gymnasium."""
    twin = make_twin(member("environment", "gymnasium", id=name), None)
    keys = jax.random.split(jax.random.PRNGKey(1), 2000)
    drawn = np.asarray(jax.vmap(lambda key: twin.observe(twin.reset(key)))(keys))
    task = gymnasium.make(name)
    real = np.stack([task.reset(seed=seed)[0] for seed in range(2000)])
    for function in (np.min, np.max, np.mean):
        width = np.ptp(real, axis=0) + 1e-6
        assert (np.abs(function(drawn, axis=0) - function(real, axis=0)) / width).max() < 0.05
