"""The MlpPolicy of stable-baselines3 as pure functions of its parameters.

Parameters keep the names and the layout of torch (`action_net.weight`, outputs × inputs), so that
they move between both worlds without a change.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import jax
import jax.numpy as jnp
from torch import nn

from rlexp.errors import ConfigError

if TYPE_CHECKING:
    from stable_baselines3.common.policies import ActorCriticPolicy

Parameters: TypeAlias = Mapping[str, jax.Array]
"""Arrays by the name of the parameter in torch."""
ACTIVATIONS: Mapping[str, Callable[[jax.Array], jax.Array]] = {
    "Tanh": jnp.tanh,
    "ReLU": jax.nn.relu,
    "ELU": jax.nn.elu,
    "LeakyReLU": jax.nn.leaky_relu,
    "SiLU": jax.nn.silu,
    "GELU": lambda x: jax.nn.gelu(x, approximate=False),
}
"""Activation functions by their class in torch."""


@dataclass(frozen=True, slots=True)
class CompiledPolicy:
    """The shape of an actor and a critic, each with hidden layers of its own.

    Attributes:
        actor: Names of the actor's layers, from the observation on.
        critic: Names of the critic's layers.
        activation: Name of the activation between layers, a class of torch.
        discrete: Whether actions are integers; otherwise they are drawn from a Gaussian.
    """

    actor: tuple[str, ...]
    critic: tuple[str, ...]
    activation: str
    discrete: bool

    @classmethod
    def of(cls, policy: "ActorCriticPolicy", *, discrete: bool) -> "CompiledPolicy":
        """The shape of a policy of stable-baselines3.

        Raises:
            ConfigError: Its activation function is unknown.
        """
        layers = policy.mlp_extractor
        activation = policy.activation_fn.__name__
        if activation not in ACTIVATIONS:
            raise ConfigError(
                f"agent.policy_kwargs: {activation} is not compiled; choose agent.activation"
            )
        return cls(
            actor=(*_linear("mlp_extractor.policy_net", layers.policy_net), "action_net"),
            critic=(*_linear("mlp_extractor.value_net", layers.value_net), "value_net"),
            activation=activation,
            discrete=discrete,
        )

    def value(self, parameters: Parameters, observations: jax.Array) -> jax.Array:
        """Values (batch) of observations (batch × numbers)."""
        return self._through(self.critic, parameters, observations)[..., 0]

    def scores(self, parameters: Parameters, observations: jax.Array) -> jax.Array:
        """Logits of the actions, or means of the Gaussian (batch × actions)."""
        return self._through(self.actor, parameters, observations)

    def sample(
        self, key: jax.Array, parameters: Parameters, observations: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Draw actions, and return them with the logarithm of their probability (batch)."""
        scores = self.scores(parameters, observations)
        if self.discrete:
            actions = jax.random.categorical(key, scores)
        else:
            noise = jax.random.normal(key, scores.shape)
            actions = scores + jnp.exp(parameters["log_std"]) * noise
        return actions, self._log_probability(parameters, scores, actions)

    def judge(
        self, parameters: Parameters, observations: jax.Array, actions: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Logarithms of the probability of actions, and entropies (batch each)."""
        scores = self.scores(parameters, observations)
        return self._log_probability(parameters, scores, actions), self._entropy(
            parameters, scores
        )

    def _log_probability(
        self, parameters: Parameters, scores: jax.Array, actions: jax.Array
    ) -> jax.Array:
        if self.discrete:
            every = jax.nn.log_softmax(scores)
            return jnp.take_along_axis(every, actions[..., None], axis=-1)[..., 0]
        deviation = parameters["log_std"]
        distance = (actions - scores) / jnp.exp(deviation)
        each = -0.5 * jnp.square(distance) - deviation - 0.5 * math.log(2 * math.pi)
        return each.sum(-1)

    def _entropy(self, parameters: Parameters, scores: jax.Array) -> jax.Array:
        if self.discrete:
            every = jax.nn.log_softmax(scores)
            return -(jnp.exp(every) * every).sum(-1)
        each = 0.5 + 0.5 * math.log(2 * math.pi) + parameters["log_std"]
        return jnp.broadcast_to(each.sum(), scores.shape[:-1])

    def _through(
        self, names: tuple[str, ...], parameters: Parameters, observations: jax.Array
    ) -> jax.Array:
        activation, hidden = ACTIVATIONS[self.activation], observations
        for name in names[:-1]:
            hidden = activation(_layer(parameters, name, hidden))
        return _layer(parameters, names[-1], hidden)


def _layer(parameters: Parameters, name: str, inputs: jax.Array) -> jax.Array:
    return inputs @ parameters[f"{name}.weight"].T + parameters[f"{name}.bias"]


def _linear(prefix: str, network: nn.Module) -> list[str]:
    """The names of the linear layers of a network, in their order."""
    return [
        f"{prefix}.{name}"
        for name, module in network.named_children()
        if isinstance(module, nn.Linear)
    ]
