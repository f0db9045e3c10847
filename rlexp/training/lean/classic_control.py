"""The steps of Gymnasium's classic control for many environments at once, in NumPy.

Each class computes the step of one class of Gymnasium with the same operations on the same types,
for arrays of states (environments × size). Where Gymnasium raises a single number to a power, or
takes its cosine by Python's `math`, the C library computes it: NumPy's functions of arrays may
round differently there, so these numbers are taken one by one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import gymnasium
import numpy as np
from gymnasium.envs.classic_control import AcrobotEnv, CartPoleEnv, MountainCarEnv, PendulumEnv
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Bare = gymnasium.Env[Any, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of one step: one row for each environment."""

    states: Numbers
    observations: NDArray[np.float32]
    rewards: Numbers
    terminated: NDArray[np.bool_]


class Dynamics(Protocol):
    """The steps of one class of environments."""

    @property
    def size(self) -> int:
        """Numbers in a state."""
        ...

    def step(self, states: Numbers, actions: NDArray[Any]) -> Outcome:
        """Return the results of one step (states: environments × size of a state)."""
        ...

    def write(self, bare: Any, state: Numbers, action: Any) -> None:
        """Give an environment the attributes that its own step would have left."""
        ...


def _power_of_two(values: Numbers) -> Numbers:
    """Return x ** 2 as the C library computes it, which is not always x * x."""
    return np.array([math.pow(value, 2.0) for value in values.tolist()])


@dataclass(frozen=True, slots=True)
class CartPole:
    """`CartPoleEnv` with Euler's method."""

    bare: CartPoleEnv
    size: ClassVar[int] = 4

    def step(self, states: Numbers, actions: NDArray[Any]) -> Outcome:
        """Return the results of one step."""
        # In place, in the order of Gymnasium's operations: few environments cost as much as their arrays.
        env, columns = self.bare, states.T
        x_dot, theta, theta_dot = columns[1], columns[2], columns[3]
        cosine, sine = np.cos(theta), np.sin(theta)
        temp = np.square(theta_dot)
        temp *= env.polemass_length
        temp *= sine
        temp += np.where(actions == 1, env.force_mag, -env.force_mag)
        temp /= env.total_mass
        divisor = np.square(cosine)
        divisor *= env.masspole
        divisor /= env.total_mass
        np.subtract(4.0 / 3.0, divisor, out=divisor)
        divisor *= env.length
        theta_acc = env.gravity * sine
        theta_acc -= cosine * temp
        theta_acc /= divisor
        following = np.empty_like(states)
        changes = following.T
        changes[0], changes[2], changes[3] = x_dot, theta_dot, theta_acc
        theta_acc *= env.polemass_length
        theta_acc *= cosine
        theta_acc /= env.total_mass
        np.subtract(temp, theta_acc, out=changes[1])
        following *= env.tau
        following += states
        terminated = (np.abs(changes[0]) > env.x_threshold) | (
            np.abs(changes[2]) > env.theta_threshold_radians
        )
        return Outcome(following, following.astype(np.float32), np.ones(len(states)), terminated)

    def write(self, bare: Any, state: Numbers, action: Any) -> None:
        """Set the state."""
        del action
        bare.state = state.copy()


@dataclass(frozen=True, slots=True)
class Pendulum:
    """`PendulumEnv`, whose actions are single precision and whose states are double precision."""

    bare: PendulumEnv
    size: ClassVar[int] = 2

    def step(self, states: Numbers, actions: NDArray[Any]) -> Outcome:
        """Return the results of one step."""
        env = self.bare
        angle, speed = states.T
        torque = self._torque(actions)
        turned = ((angle + np.pi) % (2 * np.pi)) - np.pi
        costs = (
            _power_of_two(turned)
            + 0.1 * _power_of_two(speed)
            + 0.001 * np.array([each**2 for each in torque], dtype=torque.dtype)
        )
        gained = 3 * env.g / (2 * env.l) * np.sin(angle) + 3.0 / (env.m * env.l**2) * torque
        new_speed = np.clip(speed + gained * env.dt, -env.max_speed, env.max_speed)
        following = np.empty_like(states)
        following[:, 0] = angle + new_speed * env.dt
        following[:, 1] = new_speed
        observations = np.empty((len(states), 3), dtype=np.float32)
        observations[:, 0] = np.cos(following[:, 0])
        observations[:, 1] = np.sin(following[:, 0])
        observations[:, 2] = new_speed
        return Outcome(following, observations, -costs, np.zeros(len(states), dtype=bool))

    def _torque(self, actions: NDArray[Any]) -> NDArray[Any]:
        clipped: NDArray[Any] = np.clip(actions, -self.bare.max_torque, self.bare.max_torque)[:, 0]
        return clipped

    def write(self, bare: Any, state: Numbers, action: Any) -> None:
        """Set the state, and the torque that a picture shows."""
        bare.state = state.copy()
        bare.last_u = np.clip(action, -bare.max_torque, bare.max_torque)[0]


@dataclass(frozen=True, slots=True)
class MountainCar:
    """`MountainCarEnv`, which keeps its state as a pair of numbers."""

    bare: MountainCarEnv
    size: ClassVar[int] = 2

    def step(self, states: Numbers, actions: NDArray[Any]) -> Outcome:
        """Return the results of one step."""
        env = self.bare
        position, velocity = states.T
        slope = np.array([math.cos(angle) for angle in (3 * position).tolist()])
        velocity = velocity + ((actions - 1) * env.force + slope * (-env.gravity))
        velocity = np.clip(velocity, -env.max_speed, env.max_speed)
        position = np.clip(position + velocity, env.min_position, env.max_position)
        velocity[(position == env.min_position) & (velocity < 0)] = 0.0
        terminated = (position >= env.goal_position) & (velocity >= env.goal_velocity)
        following = np.stack([position, velocity], axis=1)
        return Outcome(
            following, following.astype(np.float32), np.full(len(states), -1.0), terminated
        )

    def write(self, bare: Any, state: Numbers, action: Any) -> None:
        """Set the state; a car that has hit the wall has the velocity 0 as a whole number."""
        del action
        stopped = state[0] == bare.min_position and state[1] == 0
        bare.state = (state[0], 0 if stopped else state[1])


@dataclass(frozen=True, slots=True)
class Acrobot:
    """`AcrobotEnv`: the equations of Sutton and Barto's book, by a Runge-Kutta step."""

    bare: AcrobotEnv
    size: ClassVar[int] = 4

    def step(self, states: Numbers, actions: NDArray[Any]) -> Outcome:
        """Return the results of one step."""
        env = self.bare
        torque = np.array([env.AVAIL_TORQUE[action] for action in actions], dtype=np.float64)
        following = self._integrated(states.T, torque)
        _wrap(following[0])
        _wrap(following[1])
        following[2] = np.clip(following[2], -env.MAX_VEL_1, env.MAX_VEL_1)
        following[3] = np.clip(following[3], -env.MAX_VEL_2, env.MAX_VEL_2)
        first, second = following[0], following[1]
        observations = np.empty((len(states), 6), dtype=np.float32)
        observations[:, 0], observations[:, 1] = np.cos(first), np.sin(first)
        observations[:, 2], observations[:, 3] = np.cos(second), np.sin(second)
        observations[:, 4:] = following[2:].T
        terminated = -np.cos(first) - np.cos(second + first) > 1.0
        rewards = np.where(terminated, 0.0, -1.0)
        return Outcome(np.ascontiguousarray(following.T), observations, rewards, terminated)

    def _integrated(self, states: Numbers, torque: Numbers) -> Numbers:
        """Return the states (4 × environments) after one Runge-Kutta step of order 4."""
        whole = self.bare.dt - 0
        half = whole / 2.0
        k1 = self._derivatives(states, torque)
        k2 = self._derivatives(states + half * k1, torque)
        k3 = self._derivatives(states + half * k2, torque)
        k4 = self._derivatives(states + whole * k3, torque)
        following: Numbers = states + whole / 6.0 * (k1 + 2 * k2 + 2 * k3 + k4)
        return following

    def _derivatives(self, states: Numbers, torque: Numbers) -> Numbers:
        env, gravity = self.bare, 9.8
        m1, m2, l1 = env.LINK_MASS_1, env.LINK_MASS_2, env.LINK_LENGTH_1
        lc1, lc2 = env.LINK_COM_POS_1, env.LINK_COM_POS_2
        inertia = env.LINK_MOI
        theta1, theta2, dtheta1, dtheta2 = states
        cosine, sine = np.cos(theta2), np.sin(theta2)
        d1 = m1 * lc1**2 + m2 * (l1**2 + lc2**2 + 2 * l1 * lc2 * cosine) + inertia + inertia
        d2 = m2 * (lc2**2 + l1 * lc2 * cosine) + inertia
        phi2 = m2 * lc2 * gravity * np.cos(theta1 + theta2 - np.pi / 2.0)
        phi1 = (
            -m2 * l1 * lc2 * _power_of_two(dtheta2) * sine
            - 2 * m2 * l1 * lc2 * dtheta2 * dtheta1 * sine
            + (m1 * lc1 + m2 * l1) * gravity * np.cos(theta1 - np.pi / 2)
            + phi2
        )
        ddtheta2 = (
            torque + d2 / d1 * phi1 - m2 * l1 * lc2 * _power_of_two(dtheta1) * sine - phi2
        ) / (m2 * lc2**2 + inertia - _power_of_two(d2) / d1)
        ddtheta1 = -(d2 * ddtheta2 + phi1) / d1
        return np.stack([dtheta1, dtheta2, ddtheta1, ddtheta2])

    def write(self, bare: Any, state: Numbers, action: Any) -> None:
        """Set the state."""
        del action
        bare.state = state.copy()


def _wrap(angles: Numbers) -> None:
    """Turn angles by whole circles, in place, until they are in [-π, π]."""
    while (above := angles > np.pi).any():
        angles[above] -= 2 * np.pi
    while (below := angles < -np.pi).any():
        angles[below] += 2 * np.pi


_CLASSES: dict[type[Bare], Any] = {
    CartPoleEnv: CartPole,
    PendulumEnv: Pendulum,
    MountainCarEnv: MountainCar,
    AcrobotEnv: Acrobot,
}
_CHANGED = ("state", "steps_beyond_terminated", "last_u")
"""Attributes that a step or a reset changes; all others are settings."""


def dynamics_of(bares: Sequence[Bare]) -> Dynamics | None:
    """Return the steps of equal environments; None where they are unknown or differ."""
    # By exact type: a subclass may step in another way.
    kind = _CLASSES.get(type(bares[0]))
    if kind is None or any(not _alike(each, bares[0]) for each in bares):
        return None
    if any(_draws_or_differs(each) for each in bares):
        return None
    dynamics: Dynamics = kind(bares[0])
    return dynamics


def _alike(bare: Bare, first: Bare) -> bool:
    return type(bare) is type(first) and _settings(bare) == _settings(first)


def _settings(bare: Bare) -> dict[str, Any]:
    simple = (int, float, str, bool, type(None))
    return {
        name: value
        for name, value in vars(bare).items()
        if isinstance(value, simple) and name not in _CHANGED and not name.startswith("_np")
    }


def _draws_or_differs(bare: Any) -> bool:
    """Whether an environment is shown while it steps, or has settings that no test has covered."""
    return bool(
        bare.render_mode is not None
        or getattr(bare, "_sutton_barto_reward", False)
        or getattr(bare, "kinematics_integrator", "euler") != "euler"
        or getattr(bare, "torque_noise_max", 0.0)
        or getattr(bare, "book_or_nips", "book") != "book"
    )
