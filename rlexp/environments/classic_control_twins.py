"""Twins of Gymnasium's classic control tasks in JAX, with 32-bit floats.

Each follows the equations of the class of Gymnasium that it names, operation by operation.
`tests/compiled/test_twins.py` compares a step from thousands of states.
"""

import math
from dataclasses import dataclass
from typing import TypeAlias

import jax
import jax.numpy as jnp

Step: TypeAlias = tuple[jax.Array, jax.Array, jax.Array]
"""The next state, the reward, and whether the episode terminates."""


@dataclass(frozen=True, slots=True)
class CartPole:
    """`gymnasium.envs.classic_control.CartPoleEnv`; the state is the observation."""

    def reset(self, key: jax.Array) -> jax.Array:
        """Draw the four numbers of the state from [-0.05, 0.05)."""
        return jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05)

    def observe(self, state: jax.Array) -> jax.Array:
        """Position, velocity, angle and angular velocity."""
        return state

    def step(self, key: jax.Array, state: jax.Array, action: jax.Array) -> Step:
        """Push the cart to the left (0) or to the right (1) for 0.02 s."""
        del key
        x, x_dot, theta, theta_dot = state
        force = jnp.where(action == 1, 10.0, -10.0)
        cosine, sine = jnp.cos(theta), jnp.sin(theta)
        push = (force + 0.05 * jnp.square(theta_dot) * sine) / 1.1
        angular = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * jnp.square(cosine) / 1.1))
        linear = push - 0.05 * angular * cosine / 1.1
        x, x_dot = x + 0.02 * x_dot, x_dot + 0.02 * linear
        theta, theta_dot = theta + 0.02 * theta_dot, theta_dot + 0.02 * angular
        fallen = (jnp.abs(x) > 2.4) | (jnp.abs(theta) > 12 * 2 * math.pi / 360)
        return jnp.stack([x, x_dot, theta, theta_dot]), jnp.float32(1), fallen


@dataclass(frozen=True, slots=True)
class Acrobot:
    """`gymnasium.envs.classic_control.AcrobotEnv`: two angles and their velocities."""

    def reset(self, key: jax.Array) -> jax.Array:
        """Draw the four numbers of the state from [-0.1, 0.1)."""
        return jax.random.uniform(key, (4,), minval=-0.1, maxval=0.1)

    def observe(self, state: jax.Array) -> jax.Array:
        """Cosine and sine of both angles, and both velocities."""
        first, second, first_dot, second_dot = state
        return jnp.stack(
            [
                *(jnp.cos(first), jnp.sin(first), jnp.cos(second), jnp.sin(second)),
                *(first_dot, second_dot),
            ]
        )

    def step(self, key: jax.Array, state: jax.Array, action: jax.Array) -> Step:
        """Apply a torque of -1, 0 or 1 for 0.2 s: one step of the Runge-Kutta method."""
        del key
        torque = action.astype(jnp.float32) - 1
        first_slope = self._slope(state, torque)
        second_slope = self._slope(state + 0.1 * first_slope, torque)
        third_slope = self._slope(state + 0.1 * second_slope, torque)
        fourth_slope = self._slope(state + 0.2 * third_slope, torque)
        slopes = first_slope + 2 * second_slope + 2 * third_slope + fourth_slope
        first, second, first_dot, second_dot = state + 0.2 / 6 * slopes
        first, second = _within_a_turn(first), _within_a_turn(second)
        high = -jnp.cos(first) - jnp.cos(second + first) > 1
        following = jnp.stack(
            [
                *(first, second),
                jnp.clip(first_dot, -4 * math.pi, 4 * math.pi),
                jnp.clip(second_dot, -9 * math.pi, 9 * math.pi),
            ]
        )
        return following, jnp.where(high, 0.0, -1.0), high

    @staticmethod
    def _slope(state: jax.Array, torque: jax.Array) -> jax.Array:
        """The derivative of the state by time, by the equations of the book of Sutton and Barto."""
        first, second, first_dot, second_dot = state
        sine = jnp.sin(second)
        inertia = 0.25 + (1.25 + jnp.cos(second)) + 2
        coupling = 0.25 + 0.5 * jnp.cos(second) + 1
        second_pull = 4.9 * jnp.cos(first + second - math.pi / 2)
        first_pull = (
            -0.5 * jnp.square(second_dot) * sine
            - second_dot * first_dot * sine
            + 14.7 * jnp.cos(first - math.pi / 2)
            + second_pull
        )
        second_acceleration = (
            torque
            + coupling / inertia * first_pull
            - 0.5 * jnp.square(first_dot) * sine
            - second_pull
        ) / (1.25 - jnp.square(coupling) / inertia)
        first_acceleration = -(coupling * second_acceleration + first_pull) / inertia
        return jnp.stack([first_dot, second_dot, first_acceleration, second_acceleration])


@dataclass(frozen=True, slots=True)
class MountainCar:
    """`gymnasium.envs.classic_control.MountainCarEnv`; the state is the observation."""

    def reset(self, key: jax.Array) -> jax.Array:
        """Draw a position from [-0.6, -0.4); the car stands."""
        return jnp.stack([jax.random.uniform(key, minval=-0.6, maxval=-0.4), jnp.float32(0)])

    def observe(self, state: jax.Array) -> jax.Array:
        """Position and velocity."""
        return state

    def step(self, key: jax.Array, state: jax.Array, action: jax.Array) -> Step:
        """Accelerate to the left (0), not (1), or to the right (2)."""
        del key
        push = (action.astype(jnp.float32) - 1) * 0.001
        position, velocity = _roll(state, push)
        return (
            jnp.stack([position, velocity]),
            jnp.float32(-1),
            (position >= 0.5) & (velocity >= 0),
        )


@dataclass(frozen=True, slots=True)
class MountainCarContinuous:
    """`gymnasium.envs.classic_control.Continuous_MountainCarEnv`; the state is the observation."""

    def reset(self, key: jax.Array) -> jax.Array:
        """Draw a position from [-0.6, -0.4); the car stands."""
        return jnp.stack([jax.random.uniform(key, minval=-0.6, maxval=-0.4), jnp.float32(0)])

    def observe(self, state: jax.Array) -> jax.Array:
        """Position and velocity."""
        return state

    def step(self, key: jax.Array, state: jax.Array, action: jax.Array) -> Step:
        """Accelerate by a force in [-1, 1], which costs a tenth of its square."""
        del key
        position, velocity = _roll(state, jnp.clip(action[0], -1, 1) * 0.0015)
        there = (position >= 0.45) & (velocity >= 0)
        reward = jnp.where(there, 100.0, 0.0) - 0.1 * jnp.square(action[0])
        return jnp.stack([position, velocity]), reward, there


@dataclass(frozen=True, slots=True)
class Pendulum:
    """`gymnasium.envs.classic_control.PendulumEnv`: the angle, within a turn, and its velocity."""

    def reset(self, key: jax.Array) -> jax.Array:
        """Draw an angle from [-π, π) and a velocity from [-1, 1)."""
        limit = jnp.array([math.pi, 1.0], dtype=jnp.float32)
        return jax.random.uniform(key, (2,), minval=-limit, maxval=limit)

    def observe(self, state: jax.Array) -> jax.Array:
        """Cosine and sine of the angle, and the velocity."""
        return jnp.stack([jnp.cos(state[0]), jnp.sin(state[0]), state[1]])

    def step(self, key: jax.Array, state: jax.Array, action: jax.Array) -> Step:
        """Apply a torque in [-2, 2] for 0.05 s; no episode terminates."""
        del key
        angle, velocity = state
        torque = jnp.clip(action[0], -2, 2)
        angle = _within_a_turn(angle)
        cost = jnp.square(angle) + 0.1 * jnp.square(velocity) + 0.001 * jnp.square(torque)
        velocity = jnp.clip(velocity + (15 * jnp.sin(angle) + 3 * torque) * 0.05, -8, 8)
        # Gymnasium lets the angle grow. Cosine, sine and cost are the same within a turn, and there
        # 32 bits are precise.
        following = _within_a_turn(angle + velocity * 0.05)
        return jnp.stack([following, velocity]), -cost, jnp.bool_(False)


def _within_a_turn(angle: jax.Array) -> jax.Array:
    """The angle in [-π, π) that differs by whole turns, from less than one turn outside of it."""
    turn = 2 * math.pi
    angle = jnp.where(angle > math.pi, angle - turn, angle)
    angle = jnp.where(angle > math.pi, angle - turn, angle)
    angle = jnp.where(angle < -math.pi, angle + turn, angle)
    return jnp.where(angle < -math.pi, angle + turn, angle)


def _roll(state: jax.Array, push: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Position and velocity of a car in the valley after one step."""
    position, velocity = state
    velocity = jnp.clip(velocity + push - 0.0025 * jnp.cos(3 * position), -0.07, 0.07)
    position = jnp.clip(position + velocity, -1.2, 0.6)
    stopped = (position == jnp.float32(-1.2)) & (velocity < 0)
    return position, jnp.where(stopped, 0.0, velocity)
