"""Delays of actions and observations, fixed or random."""

from collections import deque
from copy import deepcopy
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge

from rlexp.components.stages import Staged
from rlexp.errors import ConfigError

RedrawEvery = Literal["episode", "step"]
"""When a random delay is drawn: once per episode, or at every step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """A delay in steps, uniform from `least` to `most`."""

    least: int
    most: int
    each: RedrawEvery

    def draw(self, generator: np.random.Generator) -> int:
        """Return a delay in steps; a constant delay uses no random number."""
        if self.least == self.most:
            return self.least
        return int(generator.integers(self.least, self.most, endpoint=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Delayed(Staged):
    """Base of components that delay actions or observations."""

    least: Annotated[int, Ge(0)]
    """Smallest delay in steps."""
    most: Annotated[int, Ge(0)]
    """Largest delay in steps; delays between both are equally likely."""
    each: RedrawEvery
    """When a random delay is drawn: once per episode, or at every step."""

    @property
    def delay(self) -> Delay:
        """The delay in steps."""
        return Delay(least=self.least, most=self.most, each=self.each)

    def check_range(self, component: str) -> None:
        """Refuse an empty range of delays.

        Raises:
            ConfigError: `least` is greater than `most`.
        """
        if self.least > self.most:
            raise ConfigError(
                f"environment.components.{component}: least={self.least} is more than "
                f"most={self.most}: raise most or lower least"
            )


class DelayLine:
    """A queue of delayed items that returns the newest arrived one (Bouteiller et al. 2021).

    With random delays a later item may arrive earlier; the items that it overtakes are lost.
    """

    def __init__(self, delay: Delay) -> None:
        self.delay = delay
        # An item that is older than the largest delay is never returned.
        self.under_way: deque[Any] = deque(maxlen=delay.most + 1)
        self.age = 0
        self.steps = 0

    def begin(self, first: Any, age: int, generator: np.random.Generator) -> None:
        """Start an episode.

        Args:
            first: The item to return until another one arrives.
            age: Age of the first item in steps.
            generator: Draws the delay of an episode.
        """
        self.under_way.clear()
        # As if the first item had been sent `age` times before, so that indices by age exist.
        self.under_way.extend([deepcopy(first)] * (age + 1))
        self.age = age
        if self.delay.each == "episode":
            self.steps = self.delay.draw(generator)

    def pass_on(self, item: Any, generator: np.random.Generator) -> Any:
        """Send an item; returns the newest item that has arrived."""
        if self.delay.each == "step":
            self.steps = self.delay.draw(generator)
        # Copies, because an environment may reuse arrays that it returned or received.
        self.under_way.append(deepcopy(item))
        # The newest arrived item ages by one step unless a newer one arrives now.
        self.age = min(self.age + 1, self.steps)
        return deepcopy(self.under_way[-1 - self.age])
