"""Noise added to the actions of a deterministic policy while it trains."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rlexp.algorithms.ranges import Positive

if TYPE_CHECKING:
    from stable_baselines3.common.noise import ActionNoise


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Noise of mean zero on every action dimension, in units of actions scaled to [-1, 1]."""

    kind: Literal["normal", "ornstein_uhlenbeck"]
    """`normal` is independent at each step; `ornstein_uhlenbeck` drifts (theta 0.15, dt 0.01)."""
    sigma: Positive
    """Scale: the standard deviation, where the kind is `normal`."""


def action_noise(noise: Noise, dimensions: tuple[int, ...]) -> "ActionNoise":
    """Return the library's noise for actions of shape `dimensions`."""
    import numpy as np
    from stable_baselines3.common.noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise

    mean, sigma = np.zeros(dimensions), np.full(dimensions, noise.sigma)
    if noise.kind == "normal":
        return NormalActionNoise(mean, sigma)
    return OrnsteinUhlenbeckActionNoise(mean, sigma)
