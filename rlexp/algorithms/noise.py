"""Exploration noise on the actions of a deterministic policy during training."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rlexp.algorithms.ranges import Positive

if TYPE_CHECKING:
    from stable_baselines3.common.noise import ActionNoise


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplorationNoise:
    """Noise with mean 0 on every action dimension, in units of actions scaled to [-1, 1]."""

    kind: Literal["normal", "ornstein_uhlenbeck"]
    """`normal` is independent over steps; `ornstein_uhlenbeck` correlated (theta 0.15, dt 0.01)."""
    sigma: Positive
    """Scale of the noise: for `normal`, its standard deviation."""


def make_action_noise(noise: ExplorationNoise, dimensions: tuple[int, ...]) -> "ActionNoise":
    """Return the library's noise for actions of shape `dimensions`."""
    import numpy as np
    from stable_baselines3.common.noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise

    mean, sigma = np.zeros(dimensions), np.full(dimensions, noise.sigma)
    if noise.kind == "normal":
        return NormalActionNoise(mean, sigma)
    return OrnsteinUhlenbeckActionNoise(mean, sigma)
