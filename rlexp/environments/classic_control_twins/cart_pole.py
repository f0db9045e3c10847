"""The twin of CartPole-v1."""

import math
from dataclasses import dataclass
from typing import TypeAlias

import jax
import jax.numpy as jnp

Step: TypeAlias = tuple[jax.Array, jax.Array, jax.Array]
"""The next state, the reward, and whether the episode terminates."""


@dataclass(frozen=True, slots=True)
class CartPoleTwin:
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
