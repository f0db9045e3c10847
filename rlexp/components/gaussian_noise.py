"""Gaussian noise on the members of a space."""

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
"""A standard deviation of all entries, or one of each."""
Unit = Literal["absolute", "range"]
"""What a deviation of 1 is: 1, or the width of an entry's range."""


@dataclass(frozen=True, slots=True)
class GaussianNoise:
    """Independent noise on every entry; what leaves the space is put back onto its border."""

    deviations: NDArray[np.float64]
    """In units of the entries; shape: that of the space."""
    space: gym.spaces.Box

    def add(self, value: Any, generator: np.random.Generator) -> NDArray[Any]:
        """A noisy copy; shape and type of the space."""
        noisy = value + self.deviations * generator.standard_normal(self.deviations.shape)
        noisy = np.clip(noisy, self.space.low, self.space.high)
        if self.space.dtype.kind in "iu":
            noisy = np.rint(noisy)
        return noisy.astype(self.space.dtype)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseComponent(Staged):
    """The settings of a component that adds noise to the members of a space."""

    deviation: Deviation
    """Its standard deviation: of all entries, or of each."""
    unit: Unit
    """What a deviation of 1 is: 1, or the width of an entry's range."""

    def gaussian(self, space: gym.Space[Any], *, component: str, what: str) -> GaussianNoise:
        """The noise on the members of a space; raises ConfigError as `gaussian` does."""
        return gaussian_noise(space, self.deviation, self.unit, component=component, what=what)


def gaussian_noise(
    space: gym.Space[Any], deviation: Deviation, unit: Unit, *, component: str, what: str
) -> GaussianNoise:
    """The noise on the members of a space.

    Args:
        space: Whose members are disturbed.
        deviation: Of all entries, or of each.
        unit: What a deviation of 1 is.
        component: Who asks, for errors.
        what: Of which kind the members are: observations or actions.

    Raises:
        ConfigError: The space is no array of numbers, has another number of entries, or no range.
    """
    box = require_box(space, component, what)
    given = np.asarray(deviation, dtype=np.float64)
    if given.ndim and given.size != box.low.size:
        raise ConfigError(
            f"environment.components.{component}.deviation has {given.size} numbers, {what} have "
            f"{box.low.size} entries: give one number to all, or one to each"
        )
    deviations = np.broadcast_to(given.reshape(box.shape) if given.ndim else given, box.shape)
    if unit == "absolute":
        return GaussianNoise(deviations.copy(), box)
    ranges = np.where(np.isfinite(box.low) & np.isfinite(box.high), 1.0, np.nan)
    endless = np.flatnonzero(np.isnan(ranges) & (deviations > 0))
    if endless.size:
        raise ConfigError(
            f"component {component}: entries {', '.join(map(str, endless))} of {what} have no "
            f"range; set environment.components.{component}.unit=absolute"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        widths = np.where(np.isnan(ranges), 0.0, box.high.astype(np.float64) - box.low)
    return GaussianNoise(deviations * widths, box)
