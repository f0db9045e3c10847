"""The twin of Pendulum-v1."""

import math
from dataclasses import dataclass
from typing import TypeAlias

import jax
import jax.numpy as jnp

Step: TypeAlias = tuple[jax.Array, jax.Array, jax.Array]
"""The next state, the reward, and whether the episode terminates."""


@dataclass(frozen=True, slots=True)
class PendulumTwin:
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
