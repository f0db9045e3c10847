"""A callback that logs the dormant ratio of the networks and changes nothing."""

from dataclasses import dataclass
from typing import ClassVar

from stable_baselines3.common.callbacks import BaseCallback

from rlexp.algorithms.ranges import Count, NonNegative
from rlexp.callbacks.dormancy import Measuring
from rlexp.protocol.identity import Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class DormantRatio:
    """Logs `callback/dormant_ratio`: the share of neurons that are inactive.

    Sokar et al. 2023, The Dormant Neuron Phenomenon in Deep Reinforcement Learning.
    """

    identity: ClassVar = Identity("callback", "dormant_ratio")
    fits_shortcuts: ClassVar[bool] = True
    keeps_state: ClassVar[bool] = True
    depends_on_length: ClassVar[bool] = False

    every: Count
    """Environment steps between two measurements."""
    threshold: NonNegative
    """Share of the mean activity of a layer up to which a neuron is dormant."""
    samples: Count
    """Observations for a measurement."""

    def acts_from(self) -> int:
        """The environment step from which the callback measures."""
        return self.every

    def begin(self) -> BaseCallback:
        """Return the callback of one training."""
        return Measuring(every=self.every, threshold=self.threshold, samples=self.samples)
