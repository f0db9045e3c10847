"""Gaussian noise on the elements of a Box space."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import gymnasium as gym
import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from rlexp.components.spaces import require_box
from rlexp.components.stages import Staged
from rlexp.errors import ConfigError

Deviation = Annotated[float, Ge(0)] | tuple[Annotated[float, Ge(0)], ...]
"""One standard deviation for all entries, or one for each."""
Unit = Literal["absolute", "range"]
"""Unit of deviations: that of the entry, or the width of its range."""


@dataclass(frozen=True, slots=True)
class GaussianNoise:
    """Independent noise on every entry; the result is clipped to the space."""

    deviations: NDArray[np.float64]
    """Standard deviations in units of the entries; shape: that of the space."""
    space: gym.spaces.Box

    def add(self, value: Any, generator: np.random.Generator) -> NDArray[Any]:
        """Return a noisy copy of `value`, with the shape and type of the space."""
        # One draw for every entry, so that the sequence does not depend on which deviations are 0.
        noisy = value + self.deviations * generator.standard_normal(self.deviations.shape)
        noisy = np.clip(noisy, self.space.low, self.space.high)
        if self.space.dtype.kind in "iu":
            # A cast alone would round towards 0, which would bias the noise.
            noisy = np.rint(noisy)
        return noisy.astype(self.space.dtype)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseComponent(Staged):
    """Base of components that add noise to actions or observations."""

    deviation: Deviation
    """Standard deviation: one for all entries, or one for each."""
    unit: Unit
    """Unit of deviations: that of the entry, or the width of its range."""

    def gaussian(self, space: gym.Space[Any], *, component: str, what: str) -> GaussianNoise:
        """Return the noise for a space; raises ConfigError as `gaussian_noise` does."""
        return gaussian_noise(space, self.deviation, self.unit, component=component, what=what)


def gaussian_noise(
    space: gym.Space[Any], deviation: Deviation, unit: Unit, *, component: str, what: str
) -> GaussianNoise:
    """Return the noise for a space.

    Args:
        space: The space of actions or observations.
        deviation: One standard deviation for all entries, or one for each.
        unit: Unit of the deviations.
        component: Name of the component, for errors.
        what: "observations" or "actions", for errors.

    Raises:
        ConfigError: The space is not a Box, the number of deviations is not that of entries, or
            an entry has no finite range.
    """
    box = require_box(space, component, what)
    numbers = np.asarray(deviation, dtype=np.float64)
    if numbers.ndim and numbers.size != box.low.size:
        raise ConfigError(
            f"environment.components.{component}.deviation has {numbers.size} numbers, {what} have "
            f"{box.low.size} entries: give one number to all, or one to each"
        )
    deviations = np.broadcast_to(
        numbers.reshape(box.shape) if numbers.ndim else numbers, box.shape
    )
    if unit == "absolute":
        # `broadcast_to` returns a read-only view whose entries share memory.
        return GaussianNoise(deviations.copy(), box)
    ranges = np.where(np.isfinite(box.low) & np.isfinite(box.high), 1.0, np.nan)
    endless = np.flatnonzero(np.isnan(ranges) & (deviations > 0))
    if endless.size:
        raise ConfigError(
            f"component {component}: entries {', '.join(map(str, endless))} of {what} have no "
            f"range; set environment.components.{component}.unit=absolute"
        )
    # Widths are subtracted in float64: bounds of a float32 or integer type could overflow.
    with np.errstate(over="ignore", invalid="ignore"):
        widths = np.where(np.isnan(ranges), 0.0, box.high.astype(np.float64) - box.low)
    return GaussianNoise(deviations * widths, box)
