"""The twin of Acrobot-v1."""

import math
from dataclasses import dataclass
from typing import TypeAlias

import jax
import jax.numpy as jnp

Step: TypeAlias = tuple[jax.Array, jax.Array, jax.Array]
"""The next state, the reward, and whether the episode terminates."""


@dataclass(frozen=True, slots=True)
class AcrobotTwin:
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


def _within_a_turn(angle: jax.Array) -> jax.Array:
    """The angle in [-π, π) that differs by whole turns, from less than one turn outside of it."""
    turn = 2 * math.pi
    angle = jnp.where(angle > math.pi, angle - turn, angle)
    angle = jnp.where(angle > math.pi, angle - turn, angle)
    angle = jnp.where(angle < -math.pi, angle + turn, angle)
    return jnp.where(angle < -math.pi, angle + turn, angle)
