"""Soft actor-critic in JAX, by the definitions of stable-baselines3."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from rlexp.algorithms.compiled.adam import AdamState, adam
from rlexp.algorithms.compiled.policy import CompiledNetwork, Parameters
from rlexp.algorithms.compiled.program import Scalars
from rlexp.algorithms.compiled.replay import Minibatch

EPSILON = 1e-8
"""Epsilon of Adam, the default of torch, which `SACPolicy` keeps."""
LEAST_LOG_STD, MOST_LOG_STD = -20.0, 2.0
"""Bounds of the logarithm of the standard deviation, in the library's `Actor`."""
SQUASHING = 1e-6
"""Added in the correction for tanh, in the library's `SquashedDiagGaussianDistribution`."""


class SACState(NamedTuple):
    """Actor, critics and the logarithm of the entropy coefficient, each with its optimiser."""

    actor: AdamState
    critic: AdamState
    target: Parameters
    coefficient: AdamState


class GaussianDraws(NamedTuple):
    """Normal numbers, and uniform ones in [-1, 1) (steps × environments × numbers of an action)."""

    normal: jax.Array
    uniform: jax.Array


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoHeadedActor:
    """The actor: a Gaussian with a standard deviation for each state, squashed by tanh.

    Attributes:
        mean: The network from observations to means.
        deviation: The network from observations to logarithms of standard deviations, which shares
            its hidden layers with `mean`.
    """

    mean: CompiledNetwork
    deviation: CompiledNetwork

    def sample(
        self, parameters: Parameters, observations: jax.Array, normal: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Actions in (-1, 1) (batch × numbers), and logarithms of their density (batch)."""
        mean = self.mean(parameters, observations)
        log_std = self.deviation(parameters, observations)
        log_std = jnp.clip(log_std, LEAST_LOG_STD, MOST_LOG_STD)
        actions = jnp.tanh(mean + jnp.exp(log_std) * normal)
        density = -0.5 * jnp.square(normal) - log_std - 0.5 * math.log(2 * math.pi)
        squashed = jnp.log(1 - jnp.square(actions) + SQUASHING)
        return actions, density.sum(-1) - squashed.sum(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SACLearning:
    """SAC as `stable_baselines3.SAC`.

    Attributes:
        actor: The actor.
        critics: Networks from observations and actions to action values.
        low: Smallest action.
        high: Largest action.
        target_every: Gradient steps of an update between two updates of the target networks.
        learns_coefficient: Whether the entropy coefficient is learned.
    """

    actor: TwoHeadedActor
    critics: tuple[CompiledNetwork, ...]
    low: Any
    high: Any
    target_every: int
    learns_coefficient: bool
    logged: ClassVar[tuple[str, ...]] = ("ent_coef", "actor_loss", "critic_loss", "ent_coef_loss")

    def draw(self, key: jax.Array, steps: int, count: int) -> GaussianDraws:
        """Random numbers for the actions of a rollout."""
        first, second = jax.random.split(key)
        shape = (steps, count, len(self.low))
        uniform = jax.random.uniform(second, shape, minval=-1.0, maxval=1.0)
        return GaussianDraws(jax.random.normal(first, shape), uniform)

    def act(
        self,
        learned: SACState,
        observations: jax.Array,
        drawn: GaussianDraws,
        *,
        warming: jax.Array,
        exploration: jax.Array,
    ) -> tuple[jax.Array, jax.Array]:
        """Draw actions; the buffer stores them in [-1, 1], and the task gets them in its bounds."""
        del exploration
        parameters = learned.actor.parameters
        actions, _ = self.actor.sample(parameters, observations, drawn.normal)
        scaled = jnp.where(warming, drawn.uniform, actions)
        return self.low + 0.5 * (scaled + 1.0) * (self.high - self.low), scaled

    def after_step(self, learned: SACState, calls: jax.Array, scalars: Scalars) -> SACState:
        """Change nothing: target networks move with the gradient steps."""
        del calls, scalars
        return learned

    def update(
        self,
        learned: SACState,
        minibatch: Minibatch,
        key: jax.Array,
        step: jax.Array,
        scalars: Scalars,
    ) -> tuple[SACState, dict[str, jax.Array]]:
        """One gradient step of the entropy coefficient, the critics and the actor, in this order."""
        first, second = jax.random.split(key)
        shape = minibatch.actions.shape
        draws = jax.random.normal(first, shape), jax.random.normal(second, shape)
        return self.update_with(learned, minibatch, draws, step, scalars)

    def update_with(
        self,
        learned: SACState,
        minibatch: Minibatch,
        draws: tuple[jax.Array, jax.Array],
        step: jax.Array,
        scalars: Scalars,
    ) -> tuple[SACState, dict[str, jax.Array]]:
        """The update with these normal numbers, for present and for following observations."""
        rate, parameters = scalars["learning_rate"], learned.actor.parameters
        _, density = self.actor.sample(parameters, minibatch.observations, draws[0])
        weight = jnp.exp(learned.coefficient.parameters["log_ent_coef"][0])
        coefficient, coefficient_loss = self._coefficient_step(learned, density, scalars)
        targets = self._targets(learned, minibatch, draws[1], weight)

        def critic_loss(critic: Parameters) -> jax.Array:
            values = self._values(critic, minibatch.observations, minibatch.actions)
            return 0.5 * jnp.square(values - targets).mean(-1).sum()

        def actor_loss(actor: Parameters) -> jax.Array:
            actions, density = self.actor.sample(actor, minibatch.observations, draws[0])
            values = self._values(critic.parameters, minibatch.observations, actions)
            return (weight * density - values.min(0)).mean()

        critic_error, slopes = jax.value_and_grad(critic_loss)(learned.critic.parameters)
        critic = adam(learned.critic, slopes, rate, EPSILON)
        actor_error, slopes = jax.value_and_grad(actor_loss)(parameters)
        actor = adam(learned.actor, slopes, rate, EPSILON)
        target = self._moved(learned.target, critic.parameters, step, scalars["tau"])
        return SACState(actor, critic, target, coefficient), {
            "ent_coef": weight,
            "actor_loss": actor_error,
            "critic_loss": critic_error,
            "ent_coef_loss": coefficient_loss,
        }

    def _values(
        self, parameters: Parameters, observations: jax.Array, actions: jax.Array
    ) -> jax.Array:
        """Action values (critics × batch)."""
        inputs = jnp.concatenate([observations, actions], axis=-1)
        return jnp.stack([critic(parameters, inputs)[..., 0] for critic in self.critics])

    def _targets(
        self, learned: SACState, minibatch: Minibatch, normal: jax.Array, weight: jax.Array
    ) -> jax.Array:
        """What the critics learn (batch): rewards, and the smallest value of what follows."""
        actions, density = self.actor.sample(learned.actor.parameters, minibatch.following, normal)
        values = self._values(learned.target, minibatch.following, actions).min(0)
        beyond = values - weight * density
        return minibatch.rewards + (1 - minibatch.dones) * minibatch.discounts * beyond

    def _coefficient_step(
        self, learned: SACState, density: jax.Array, scalars: Scalars
    ) -> tuple[AdamState, jax.Array]:
        """One step of the entropy coefficient towards the target entropy, where it is learned."""
        state = learned.coefficient
        if not self.learns_coefficient:
            return state, jnp.float32(0)
        missing = (density + scalars["target_entropy"]).mean()
        loss = -state.parameters["log_ent_coef"][0] * missing
        slopes = {"log_ent_coef": -missing[None]}
        return adam(state, slopes, scalars["learning_rate"], EPSILON), loss

    def _moved(
        self, target: Parameters, critic: Parameters, step: jax.Array, tau: jax.Array
    ) -> Parameters:
        """The target networks, moved towards the critics at their interval."""
        due = step % self.target_every == 0
        return {
            name: jnp.where(due, (1 - tau) * old + tau * critic[name], old)
            for name, old in target.items()
        }
