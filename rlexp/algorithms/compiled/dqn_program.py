"""Deep Q-learning in JAX, by the definitions of stable-baselines3."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from rlexp.algorithms.compiled.adam import AdamState, adam, cut_norm
from rlexp.algorithms.compiled.policy import CompiledNetwork, Parameters
from rlexp.algorithms.compiled.program import Scalars
from rlexp.algorithms.compiled.replay import Minibatch

EPSILON = 1e-8
"""Epsilon of Adam, the default of torch, which `DQNPolicy` keeps."""


class DQNState(NamedTuple):
    """The network of action values with its optimiser, and the target network."""

    network: AdamState
    target: Parameters


class EpsilonGreedyDraws(NamedTuple):
    """Random actions (steps × environments), and numbers in [0, 1) (steps) that choose them."""

    actions: jax.Array
    uniform: jax.Array


@dataclass(frozen=True, slots=True, kw_only=True)
class DQNLearning:
    """DQN with a Huber loss, as `stable_baselines3.DQN`.

    Attributes:
        network: The network of action values.
        actions: Number of actions.
        target_every: Steps of all environments between two updates of the target network.
    """

    network: CompiledNetwork
    actions: int
    target_every: int
    logged: ClassVar[tuple[str, ...]] = ("loss",)

    def draw(self, key: jax.Array, steps: int, count: int) -> EpsilonGreedyDraws:
        """Random numbers for the actions of a rollout."""
        first, second = jax.random.split(key)
        return EpsilonGreedyDraws(
            jax.random.randint(first, (steps, count), 0, self.actions),
            jax.random.uniform(second, (steps,)),
        )

    def act(
        self,
        learned: DQNState,
        observations: jax.Array,
        drawn: EpsilonGreedyDraws,
        *,
        warming: jax.Array,
        exploration: jax.Array,
    ) -> tuple[jax.Array, jax.Array]:
        """Actions of the largest value, or random ones in all environments at once."""
        values = self.network(learned.network.parameters, observations)
        # The library draws one number for all environments, too.
        explore = warming | (drawn.uniform < exploration)
        actions = jnp.where(explore, drawn.actions, values.argmax(-1))
        return actions, actions

    def after_step(self, learned: DQNState, calls: jax.Array, scalars: Scalars) -> DQNState:
        """Move the target network towards the network, at its interval."""
        due, tau, parameters = (
            calls % self.target_every == 0,
            scalars["tau"],
            learned.network.parameters,
        )
        target = {
            name: jnp.where(due, (1 - tau) * old + tau * parameters[name], old)
            for name, old in learned.target.items()
        }
        return DQNState(learned.network, target)

    def update(
        self,
        learned: DQNState,
        minibatch: Minibatch,
        key: jax.Array,
        step: jax.Array,
        scalars: Scalars,
    ) -> tuple[DQNState, dict[str, jax.Array]]:
        """One gradient step on the Huber loss of one-step or n-step targets."""
        del key, step
        following = self.network(learned.target, minibatch.following).max(-1)
        targets = minibatch.rewards + (1 - minibatch.dones) * minibatch.discounts * following

        def error(parameters: Parameters) -> jax.Array:
            values = self.network(parameters, minibatch.observations)
            chosen = jnp.take_along_axis(values, minibatch.actions[:, None], axis=-1)[:, 0]
            distance = jnp.abs(chosen - targets)
            return jnp.where(distance < 1, 0.5 * jnp.square(distance), distance - 0.5).mean()

        loss, slopes = jax.value_and_grad(error)(learned.network.parameters)
        slopes = cut_norm(slopes, scalars["max_grad_norm"])
        network = adam(learned.network, slopes, scalars["learning_rate"], EPSILON)
        return DQNState(network, learned.target), {"loss": loss}
