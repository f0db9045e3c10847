"""Observation noise: imprecise sensors (Dulac-Arnold et al. 2021)."""

from dataclasses import dataclass
from typing import Any, ClassVar, SupportsFloat

import gymnasium as gym

from rlexp.components.gaussian_noise import GaussianNoise, NoiseComponent
from rlexp.environments import Stage
from rlexp.protocol.identity import Identity

Env = gym.Env[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationNoise(NoiseComponent):
    """Independent Gaussian noise on every entry of every observation, clipped to the space."""

    identity: ClassVar = Identity("component", "observation_noise")

    def wrap(self, environment: Env, stage: Stage) -> Env:
        """Return the environment with noisy observations, or unchanged if there is no noise.

        Raises:
            ConfigError: Observations are not arrays of numbers, or an entry has no range.
        """
        noise = self.gaussian(
            environment.observation_space, component="observation_noise", what="observations"
        )
        if not self.acts(stage) or not noise.deviations.any():
            return environment
        return NoisyObservations(environment, noise)


class NoisyObservations(gym.Wrapper[Any, Any, Any, Any]):
    """Adds noise to observations, drawn from the environment's own generator."""

    def __init__(self, env: Env, noise: GaussianNoise) -> None:
        super().__init__(env)
        self._noise = noise

    def reset(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        """Reset, and return a noisy observation."""
        # The reset comes first, because it seeds the generator that draws the noise.
        observation, info = self.env.reset(**settings)
        return self._noise.add(observation, self.np_random), info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, and return a noisy observation."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        noisy = self._noise.add(observation, self.np_random)
        return noisy, reward, terminated, truncated, info
