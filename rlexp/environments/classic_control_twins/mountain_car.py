"""The twin of MountainCar-v0."""

from dataclasses import dataclass
from typing import TypeAlias

import jax
import jax.numpy as jnp

Step: TypeAlias = tuple[jax.Array, jax.Array, jax.Array]
"""The next state, the reward, and whether the episode terminates."""


@dataclass(frozen=True, slots=True)
class MountainCarTwin:
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


def _roll(state: jax.Array, push: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Position and velocity of a car in the valley after one step."""
    position, velocity = state
    velocity = jnp.clip(velocity + push - 0.0025 * jnp.cos(3 * position), -0.07, 0.07)
    position = jnp.clip(position + velocity, -1.2, 0.6)
    stopped = (position == jnp.float32(-1.2)) & (velocity < 0)
    return position, jnp.where(stopped, 0.0, velocity)
