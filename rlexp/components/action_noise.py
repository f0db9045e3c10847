"""Action noise: imprecise actuators (Dulac-Arnold et al. 2021)."""

from dataclasses import dataclass
from typing import Any, ClassVar, SupportsFloat

import gymnasium as gym

from rlexp.components.gaussian_noise import GaussianNoise, NoiseComponent
from rlexp.environments import Stage
from rlexp.protocol.identity import Identity

Env = gym.Env[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionNoise(NoiseComponent):
    """Independent Gaussian noise on every entry of every action, clipped to the space.

    The noise is part of the environment and hidden from the learner; it is not exploration.
    """

    identity: ClassVar = Identity("component", "action_noise")

    def wrap(self, environment: Env, stage: Stage) -> Env:
        """Return the environment with noisy actions, or unchanged if there is no noise.

        Raises:
            ConfigError: Actions are not arrays of numbers, or an entry has no range.
        """
        noise = self.gaussian(environment.action_space, component="action_noise", what="actions")
        if not self.acts(stage) or not noise.deviations.any():
            return environment
        return NoisyActions(environment, noise)


class NoisyActions(gym.Wrapper[Any, Any, Any, Any]):
    """Adds noise to actions, drawn from the environment's own generator."""

    def __init__(self, env: Env, noise: GaussianNoise) -> None:
        super().__init__(env)
        self._noise = noise

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step with a noisy copy of the action."""
        return self.env.step(self._noise.add(action, self.np_random))
