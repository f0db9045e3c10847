"""The actor of SAC without distribution objects: a Gaussian behind a hyperbolic tangent."""

from dataclasses import dataclass
from typing import cast

import torch
from stable_baselines3.common.distributions import SquashedDiagGaussianDistribution
from stable_baselines3.sac.policies import LOG_STD_MAX, LOG_STD_MIN, Actor
from torch import Tensor, nn

from rlexp.training.lean.actor_critic import (
    NotFinite,
    normal_log_probability,
    require_finite,
    require_positive,
)
from rlexp.training.lean.layers import Chain, as_input, chain_of, reads_plain_vectors


@dataclass(frozen=True, slots=True)
class SquashedActor:
    """The actor of SAC as functions of observations (batch × shape)."""

    actor: Actor
    hidden: Chain
    mean: Chain
    log_std: Chain
    epsilon: float

    def _parameters(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and standard deviation (batch × dimensions)."""
        latent = self.hidden(as_input(observations))
        mean = self.mean(latent)
        log_std = torch.clamp(self.log_std(latent), LOG_STD_MIN, LOG_STD_MAX)
        deviation = torch.ones_like(mean) * log_std.exp()
        require_finite(mean.detach().sum())
        require_positive(deviation.detach().min())
        return mean, deviation

    def forward(self, obs: Tensor, deterministic: bool = False) -> Tensor:
        """Return actions in [-1, 1] (batch × dimensions), as `Actor.forward` does."""
        try:
            mean, deviation = self._parameters(obs)
        # Raised before a random number is drawn, so the library draws the same one.
        except NotFinite:
            return Actor.forward(self.actor, obs, deterministic)
        return torch.tanh(mean if deterministic else _sample(mean, deviation))

    def action_log_prob(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Return sampled actions and their log probabilities (batch), with gradients."""
        try:
            mean, deviation = self._parameters(obs)
        except NotFinite:
            return Actor.action_log_prob(self.actor, obs)
        gaussian = _sample(mean, deviation)
        actions = torch.tanh(gaussian)
        judged = normal_log_probability(gaussian, mean, deviation).sum(dim=1)
        judged -= torch.sum(torch.log(1 - actions**2 + self.epsilon), dim=1)
        return actions, judged


def _sample(mean: Tensor, deviation: Tensor) -> Tensor:
    noise = torch.empty(mean.shape, dtype=mean.dtype, device=mean.device).normal_()
    return mean + noise * deviation


def squashed_actor_of(actor: object) -> SquashedActor | None:
    """Return an actor of SAC as functions; None where its class or a part is unknown."""
    if type(actor) is not Actor or actor.use_sde or not reads_plain_vectors(actor):
        return None
    distribution: object = actor.action_dist
    if type(distribution) is not SquashedDiagGaussianDistribution:
        return None
    hidden, mean = chain_of(actor.latent_pi), chain_of(actor.mu)
    # With gSDE, which is refused above, this would be a parameter.
    log_std = chain_of(cast("nn.Module", actor.log_std))
    if hidden is None or mean is None or log_std is None:
        return None
    return SquashedActor(actor, hidden, mean, log_std, distribution.epsilon)
