"""The environments of a compiled program: many copies of a twin, which are stepped together."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from rlexp.environments.twins import Tree, Twin


class EnvironmentState(NamedTuple):
    """Environments (environments × …): keys, states, observations, and their present episodes."""

    keys: jax.Array
    states: Tree
    observations: jax.Array
    lengths: jax.Array
    returns: jax.Array


class StepResult(NamedTuple):
    """What a step returned (environments × …).

    `lasts` are the observations after the step and before a reset. `lengths` is 0 but at the end of an
    episode, where it holds the length of the episode, and `returns` its return.
    """

    rewards: jax.Array
    lasts: jax.Array
    dones: jax.Array
    truncations: jax.Array
    lengths: jax.Array
    returns: jax.Array


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledEnvironments:
    """A twin, and how many copies of it are stepped.

    Attributes:
        twin: The task.
        count: Number of environments.
        time_limit: Steps after which an episode is truncated; None for no limit.
        low: Smallest action (numbers of an action), or None for discrete actions.
        high: Largest action, or None.
        actions: Number of discrete actions, or numbers of a continuous one.
    """

    twin: Twin
    count: int
    time_limit: int | None
    low: Any
    high: Any
    actions: int

    def begin(self, seeds: jax.Array) -> EnvironmentState:
        """Environments at the start of their first episodes, from a seed of 32 bits for each."""
        keys = jax.vmap(jax.random.PRNGKey)(seeds)
        pairs = jax.vmap(jax.random.split)(keys)
        states = jax.vmap(self.twin.reset)(pairs[:, 0])
        return EnvironmentState(
            keys=pairs[:, 1],
            states=states,
            observations=jax.vmap(self.twin.observe)(states),
            lengths=jnp.zeros(self.count, jnp.int32),
            returns=jnp.zeros(self.count, jnp.float32),
        )

    def step(
        self, environments: EnvironmentState, actions: jax.Array
    ) -> tuple[EnvironmentState, StepResult]:
        """Step every environment, and reset those whose episode ends.

        Actions beyond the bounds of the task are cut to them.
        """
        keys = jax.vmap(lambda key: jax.random.split(key, 3))(environments.keys)
        allowed = actions if self.low is None else jnp.clip(actions, self.low, self.high)
        step, observe = jax.vmap(self.twin.step), jax.vmap(self.twin.observe)
        states, rewards, terminations = step(keys[:, 0], environments.states, allowed)
        lasts = observe(states)
        lengths = environments.lengths + 1
        returns = environments.returns + rewards
        limit = self.time_limit
        late = jnp.zeros_like(terminations) if limit is None else lengths >= limit
        dones = terminations | late
        fresh = jax.vmap(self.twin.reset)(keys[:, 1])
        states = jax.tree.map(lambda new, old: _where(dones, new, old), fresh, states)
        following = EnvironmentState(
            keys=keys[:, 2],
            states=states,
            observations=_where(dones, observe(states), lasts),
            lengths=jnp.where(dones, 0, lengths),
            returns=jnp.where(dones, 0.0, returns),
        )
        ended = jnp.where(dones, lengths, 0)
        return following, StepResult(rewards, lasts, dones, late & ~terminations, ended, returns)


def _where(chosen: jax.Array, first: jax.Array, second: jax.Array) -> jax.Array:
    """Rows of `first` where `chosen` (rows), and of `second` elsewhere."""
    return jnp.where(chosen.reshape((-1,) + (1,) * (first.ndim - 1)), first, second)
