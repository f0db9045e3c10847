"""The replay buffer of stable-baselines3 as arrays of a compiled program."""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class StoredTransitions(NamedTuple):
    """Stored transitions (rows × environments × …), a ring: row n lies at n modulo the rows.

    `dones` are ends of episodes, and `truncations` those among them that the time limit caused.
    """

    observations: jax.Array
    following: jax.Array
    actions: jax.Array
    rewards: jax.Array
    dones: jax.Array
    truncations: jax.Array


class Minibatch(NamedTuple):
    """Transitions to learn from (batch × …).

    `dones` is 1 where nothing follows, and `discounts` weigh the value of `following`.
    """

    observations: jax.Array
    following: jax.Array
    actions: jax.Array
    rewards: jax.Array
    dones: jax.Array
    discounts: jax.Array


def store(
    ring: StoredTransitions,
    row: jax.Array,
    transition: StoredTransitions,
    active: jax.Array | None = None,
) -> StoredTransitions:
    """Write a transition of each environment into the row of this number.

    Args:
        ring: The stored transitions.
        row: The number of the row.
        transition: What is written (environments × …).
        active: Whether anything is written; None for always.
    """
    position = row % len(ring.rewards)
    if active is not None:
        # A choice between rows, not between rings: the ring is changed in place.
        transition = jax.tree.map(
            lambda new, array: jnp.where(active, new, array[position]), transition, ring
        )
    return StoredTransitions(
        *(array.at[position].set(value) for array, value in zip(ring, transition, strict=True))
    )


def sample(
    ring: StoredTransitions,
    key: jax.Array,
    end: jax.Array,
    size: int,
    steps: int,
    gamma: jax.Array,
    *,
    bootstrap: bool,
) -> Minibatch:
    """Draw transitions uniformly, with replacement.

    Args:
        ring: The stored transitions.
        key: A key of `jax.random`.
        end: Rows that were stored since the beginning.
        size: Transitions to draw.
        steps: Number of reward steps before bootstrapping.
        gamma: Discount factor, per step.
        bootstrap: Whether a truncated episode counts as one that goes on.
    """
    rows, count = ring.rewards.shape
    rows_key, environments_key = jax.random.split(key)
    drawn = jax.random.randint(rows_key, (size,), 0, jnp.minimum(end, rows))
    environments = jax.random.randint(environments_key, (size,), 0, count)
    rewards = ring.rewards[drawn, environments]
    last, discounts = drawn, jnp.full(size, gamma)
    going = ~_stops(ring, drawn, environments, end)
    for step in range(1, steps):
        # A sum of rewards ends with its episode, or with the newest transition.
        following = (last + 1) % rows
        last = jnp.where(going, following, last)
        rewards += jnp.where(going, gamma**step * ring.rewards[last, environments], 0.0)
        discounts = jnp.where(going, discounts * gamma, discounts)
        going &= ~_stops(ring, last, environments, end)
    dones = ring.dones[last, environments]
    if bootstrap:
        dones &= ~ring.truncations[last, environments]
    return Minibatch(
        ring.observations[drawn, environments],
        ring.following[last, environments],
        ring.actions[drawn, environments],
        rewards,
        dones.astype(jnp.float32),
        discounts,
    )


def _stops(
    ring: StoredTransitions, rows: jax.Array, environments: jax.Array, end: jax.Array
) -> jax.Array:
    """Where no transition of the same episode follows in the ring."""
    newest = (end - 1) % len(ring.rewards)
    return ring.dones[rows, environments] | (rows == newest)
