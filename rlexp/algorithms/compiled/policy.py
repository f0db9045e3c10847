"""The networks of stable-baselines3's policies as pure functions of their parameters.

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
class CompiledNetwork:
    """Linear layers with an activation between them.

    Attributes:
        layers: Names of the layers, from the inputs on.
        activation: Name of the activation between layers, a class of torch.
    """

    layers: tuple[str, ...]
    activation: str

    @classmethod
    def of(
        cls, activation: type[nn.Module], *parts: tuple[str, nn.Module | None]
    ) -> "CompiledNetwork":
        """The network of modules of torch, each with its name, that follow each other.

        A module is a linear layer, a sequence of layers, or None for nothing.

        Raises:
            ConfigError: The activation function is unknown.
        """
        name = activation.__name__
        if name not in ACTIVATIONS:
            raise ConfigError(
                f"agent.policy_kwargs: {name} is not compiled; choose agent.activation"
            )
        return cls(tuple(n for prefix, part in parts for n in _linear(prefix, part)), name)

    def __call__(self, parameters: Parameters, inputs: jax.Array) -> jax.Array:
        """Outputs (batch × outputs) of inputs (batch × numbers); the last layer is linear."""
        activation, hidden = ACTIVATIONS[self.activation], inputs
        for name in self.layers[:-1]:
            hidden = activation(linear(parameters, name, hidden))
        return linear(parameters, self.layers[-1], hidden)


@dataclass(frozen=True, slots=True)
class CompiledPolicy:
    """An actor and a critic, which share no hidden layers.

    Attributes:
        actor: The network from observations to logits, or to means.
        critic: The network from observations to values.
        discrete: Whether actions are integers; otherwise they are drawn from a Gaussian.
    """

    actor: CompiledNetwork
    critic: CompiledNetwork
    discrete: bool

    @classmethod
    def of(cls, policy: "ActorCriticPolicy", *, discrete: bool) -> "CompiledPolicy":
        """The shape of a policy of stable-baselines3.

        Raises:
            ConfigError: Its activation function is unknown.
        """
        layers, kind = policy.mlp_extractor, policy.activation_fn
        actor = ("mlp_extractor.policy_net", layers.policy_net), ("action_net", policy.action_net)
        critic = ("mlp_extractor.value_net", layers.value_net), ("value_net", policy.value_net)
        return cls(
            CompiledNetwork.of(kind, *actor), CompiledNetwork.of(kind, *critic), discrete=discrete
        )

    def value(self, parameters: Parameters, observations: jax.Array) -> jax.Array:
        """Values (batch) of observations (batch × numbers)."""
        return self.critic(parameters, observations)[..., 0]

    def scores(self, parameters: Parameters, observations: jax.Array) -> jax.Array:
        """Logits of the actions, or means of the Gaussian (batch × actions)."""
        return self.actor(parameters, observations)

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


def linear(parameters: Parameters, name: str, inputs: jax.Array) -> jax.Array:
    """The outputs of one linear layer."""
    return inputs @ parameters[f"{name}.weight"].T + parameters[f"{name}.bias"]


def _linear(prefix: str, network: nn.Module | None) -> list[str]:
    """The names of the linear layers of a network, in their order."""
    if isinstance(network, nn.Linear):
        return [prefix]
    modules = () if network is None else network.named_children()
    return [f"{prefix}.{name}" for name, module in modules if isinstance(module, nn.Linear)]
