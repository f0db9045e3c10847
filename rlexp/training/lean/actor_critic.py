"""Actor-critic policies without distribution objects: the same operations, in the same order.

`ActorCriticPolicy` of stable-baselines3 builds an object of torch's distributions at each call. The
functions here compute what these objects compute. Wherever a parameter is no finite number, the
library's own method is called, so that its checks and their errors stay the same.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from stable_baselines3.common.distributions import (
    CategoricalDistribution,
    DiagGaussianDistribution,
)
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor, nn
from torch.nn.functional import linear, softmax

from rlexp.training.lean.layers import Chain, as_input, chain_of, reads_plain_vectors

Evaluated = tuple[Tensor, Tensor, Tensor]
"""Values (batch × 1) and log probabilities and entropies (batch), as `evaluate_actions` returns."""
HALF_LOG_2_PI = math.log(math.sqrt(2 * math.pi))
CLEAR_GAP = 1e-5
"""Logits that differ by more have different probabilities in single precision."""
MOST_ACTIONS = 1000
LARGEST_LOGIT = 1e30
"""Below it, all differences and sums of logits are finite, as the library demands."""


class NotFinite(Exception):  # noqa: N818
    """A parameter of a distribution is no finite number, which the library reports."""


class Head(Protocol):
    """A distribution over actions, as functions of the last hidden layer of the actor."""

    def act(self, latent: Tensor, *, deterministic: bool) -> Tensor:
        """Return actions (batch, or batch × dimensions)."""
        ...

    def act_and_judge(self, latent: Tensor, *, deterministic: bool) -> tuple[Tensor, Tensor]:
        """Return actions and their log probabilities (batch)."""
        ...

    def judge(self, latent: Tensor, actions: Tensor) -> tuple[Tensor, "Tensor | None"]:
        """Return log probabilities (batch), and what `entropy` needs besides the parameters."""
        ...

    def entropy(self, parameters: "Tensor | None") -> Tensor:
        """Return entropies (batch) from the second result of `judge`."""
        ...


@dataclass(frozen=True, slots=True)
class Categorical:
    """Discrete actions: `torch.distributions.Categorical` with logits."""

    layer: nn.Linear

    def _logits(self, latent: Tensor) -> Tensor:
        raw = linear(latent, self.layer.weight, self.layer.bias)
        logits = raw - raw.logsumexp(dim=-1, keepdim=True)
        require_finite(logits.detach().sum())
        return logits

    def _choose(self, logits: Tensor, *, deterministic: bool) -> Tensor:
        probabilities = softmax(logits, dim=-1)
        if deterministic:
            return torch.argmax(probabilities, dim=1)
        return torch.multinomial(probabilities, 1, replacement=True).T.reshape(len(logits))

    def act(self, latent: Tensor, *, deterministic: bool) -> Tensor:
        """Return actions (batch)."""
        if deterministic:
            raw = linear(latent, self.layer.weight, self.layer.bias)
            if (actions := clear_maxima(raw)) is not None:
                return actions
        return self._choose(self._logits(latent), deterministic=deterministic)

    def act_and_judge(self, latent: Tensor, *, deterministic: bool) -> tuple[Tensor, Tensor]:
        """Return actions and their log probabilities (batch)."""
        logits = self._logits(latent)
        actions = self._choose(logits, deterministic=deterministic)
        return actions, logits.gather(-1, actions.unsqueeze(-1)).squeeze(-1)

    def judge(self, latent: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Return log probabilities (batch) and normalised logits (batch × actions)."""
        logits = self._logits(latent)
        return logits.gather(-1, actions.long().unsqueeze(-1)).squeeze(-1), logits

    def entropy(self, parameters: "Tensor | None") -> Tensor:
        """Return entropies (batch) from normalised logits."""
        assert parameters is not None
        # Gradients are summed in the order of these operations, which is that of the library.
        bounded = torch.clamp(parameters, min=torch.finfo(parameters.dtype).min)
        return -(bounded * softmax(parameters, dim=-1)).sum(-1)


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Continuous actions: `torch.distributions.Normal` with a standard deviation per dimension."""

    layer: nn.Linear
    log_std: nn.Parameter

    def _parameters(self, latent: Tensor) -> tuple[Tensor, Tensor]:
        mean = linear(latent, self.layer.weight, self.layer.bias)
        deviation = torch.ones_like(mean) * self.log_std.exp()
        require_finite(mean.detach().sum())
        require_positive(deviation.detach().min())
        return mean, deviation

    def _choose(self, mean: Tensor, deviation: Tensor, *, deterministic: bool) -> Tensor:
        if deterministic:
            return mean
        noise = torch.empty(mean.shape, dtype=mean.dtype, device=mean.device).normal_()
        return mean + noise * deviation

    def act(self, latent: Tensor, *, deterministic: bool) -> Tensor:
        """Return actions (batch × dimensions)."""
        return self._choose(*self._parameters(latent), deterministic=deterministic)

    def act_and_judge(self, latent: Tensor, *, deterministic: bool) -> tuple[Tensor, Tensor]:
        """Return actions (batch × dimensions) and their log probabilities (batch)."""
        mean, deviation = self._parameters(latent)
        actions = self._choose(mean, deviation, deterministic=deterministic)
        return actions, normal_log_probability(actions, mean, deviation).sum(dim=1)

    def judge(self, latent: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Return log probabilities (batch) and standard deviations (batch × dimensions)."""
        mean, deviation = self._parameters(latent)
        require_finite(actions.sum())
        return normal_log_probability(actions, mean, deviation).sum(dim=1), deviation

    def entropy(self, parameters: "Tensor | None") -> Tensor:
        """Return entropies (batch) from standard deviations."""
        assert parameters is not None
        return (0.5 + 0.5 * math.log(2 * math.pi) + torch.log(parameters)).sum(dim=1)


def normal_log_probability(values: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
    """Return the log density of each value, as `torch.distributions.Normal.log_prob` does."""
    variance = deviation**2
    log_scale = deviation.log()
    return -((values - mean) ** 2) / (2 * variance) - log_scale - HALF_LOG_2_PI


def clear_maxima(raw: Tensor) -> Tensor | None:
    """The position of the maximum of each row, where no rounding of probabilities can change it.

    The library subtracts a number from a row, takes exponentials, and divides by a number. Rounding never turns
    an order around there, but it may make different logits equal probabilities, of which the first is then
    chosen. The largest logit is between −log(actions) and 0 after the subtraction, so that the rounding of the difference of
    two logits is at most 1e-6 for fewer than 1,000 actions, and that of the exponential some units of 6e-8.

    Args:
        raw: Logits (batch × actions), single precision.

    Returns:
        Positions (batch). None if the two largest logits of a row are closer than `CLEAR_GAP`, or if a
        row holds infinite or no numbers, or is too short or too long.
    """
    logits = raw.detach().numpy()
    count = logits.shape[1]
    if not 2 <= count < MOST_ACTIONS:
        return None
    # Comparisons with NaN are false.
    if count == 2:
        # For few rows, numbers of Python are faster than arrays.
        clear = all(CLEAR_GAP < abs(a - b) < LARGEST_LOGIT for a, b in logits.tolist())
    else:
        ordered = np.sort(logits, axis=1)
        clear = bool(
            np.abs(ordered[:, [0, -1]]).max(initial=0) < LARGEST_LOGIT
            and (ordered[:, -1] - ordered[:, -2]).min(initial=np.inf) > CLEAR_GAP
        )
    return torch.from_numpy(logits.argmax(axis=1)) if clear else None


def require_finite(total: Tensor) -> None:
    """Raise `NotFinite` if a sum of parameters is no finite number."""
    if not math.isfinite(total.item()):
        raise NotFinite


def require_positive(least: Tensor) -> None:
    """Raise `NotFinite` if the least of some scales is not positive."""
    # NaN is not greater than 0 either.
    if not least.item() > 0:
        raise NotFinite


@dataclass(frozen=True, slots=True)
class ActorCritic:
    """The networks of an `ActorCriticPolicy` as functions of observations (batch × shape)."""

    policy: ActorCriticPolicy
    actor: Chain
    critic: Chain
    head: Head

    def forward(self, obs: Tensor, deterministic: bool = False) -> Evaluated:
        """Return actions, values and log probabilities, as `ActorCriticPolicy.forward` does."""
        if torch.is_grad_enabled():
            return ActorCriticPolicy.forward(self.policy, obs, deterministic)
        try:
            with torch.inference_mode():
                inputs = as_input(obs)
                latent = self.actor(inputs)
                values = self.critic(inputs)
                actions, judged = self.head.act_and_judge(latent, deterministic=deterministic)
                return actions.reshape((-1, *self.policy.action_space.shape)), values, judged  # type: ignore[misc]
        # Raised before a random number is drawn, so the library draws the same one.
        except NotFinite:
            return ActorCriticPolicy.forward(self.policy, obs, deterministic)

    def evaluate_actions(self, obs: Tensor, actions: Tensor) -> Evaluated:
        """Return values, log probabilities and entropies, with gradients."""
        inputs = as_input(obs)
        hidden = self.actor(inputs)
        try:
            judged, parameters = self.head.judge(hidden, actions)
        except NotFinite:
            return ActorCriticPolicy.evaluate_actions(self.policy, obs, actions)  # type: ignore[return-value]
        values = self.critic(inputs)
        return values, judged, self.head.entropy(parameters)

    def act(self, obs: Tensor, deterministic: bool = False) -> Tensor:
        """Return actions, as `ActorCriticPolicy._predict` does."""
        try:
            return self.head.act(self.actor(as_input(obs)), deterministic=deterministic)
        except NotFinite:
            return ActorCriticPolicy._predict(self.policy, obs, deterministic)  # noqa: SLF001

    def predict_values(self, obs: Tensor) -> Tensor:
        """Return values (batch × 1), as `ActorCriticPolicy.predict_values` does."""
        return self.critic(as_input(obs))


def actor_critic_of(policy: object) -> ActorCritic | None:
    """Return the networks of a policy as functions; None where its class or a part is unknown."""
    if type(policy) is not ActorCriticPolicy or not reads_plain_vectors(policy):
        return None
    head = _head_of(policy)
    actor = chain_of(policy.mlp_extractor.policy_net)
    critic = chain_of(policy.mlp_extractor.value_net, policy.value_net)
    if head is None or actor is None or critic is None:
        return None
    return ActorCritic(policy, actor, critic, head)


def _head_of(policy: ActorCriticPolicy) -> Head | None:
    layer = policy.action_net
    if policy.use_sde or type(layer) is not nn.Linear:
        return None
    # By exact type: the squashed and the state-dependent distributions compute something else.
    if type(policy.action_dist) is CategoricalDistribution:
        return Categorical(layer)
    if type(policy.action_dist) is DiagGaussianDistribution:
        return Gaussian(layer, policy.log_std)
    return None
