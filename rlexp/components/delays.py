"""Delays: what comes now is used some steps later, and newer news displaces older."""

from collections import deque
from copy import deepcopy
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge

from rlexp.components.stages import Staged
from rlexp.errors import ConfigError

RedrawEvery = Literal["episode", "step"]
"""How often a random delay is drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """How many steps a delay takes: a number from `least` to `most`, all of them as likely."""

    least: int
    most: int
    each: RedrawEvery

    def draw(self, generator: np.random.Generator) -> int:
        """A delay; one that is known is not drawn."""
        if self.least == self.most:
            return self.least
        return int(generator.integers(self.least, self.most, endpoint=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Delayed(Staged):
    """The settings of a component that delays."""

    least: Annotated[int, Ge(0)]
    """Steps that it takes at least."""
    most: Annotated[int, Ge(0)]
    """Steps that it takes at most; where that is more, each number is as likely."""
    each: RedrawEvery
    """How often a random delay is drawn: once an episode, or at every step."""

    @property
    def delay(self) -> Delay:
        """How many steps it takes."""
        return Delay(least=self.least, most=self.most, each=self.each)

    def check_order(self, component: str) -> None:
        """Refuse a range without numbers.

        Raises:
            ConfigError: The least is more than the most.
        """
        if self.least > self.most:
            raise ConfigError(
                f"environment.components.{component}: least={self.least} is more than "
                f"most={self.most}; let most be as large"
            )


class DelayLine:
    """What is under way; of all that has arrived, the newest is used (Bouteiller et al. 2021).

    With random delays what was sent later may arrive earlier: then what it overtook is lost.
    """

    def __init__(self, delay: Delay) -> None:
        self.delay = delay
        self.under_way: deque[Any] = deque(maxlen=delay.most + 1)
        self.age = 0
        self.steps = 0

    def begin(self, first: Any, age: int, generator: np.random.Generator) -> None:
        """Forget the last episode.

        Args:
            first: What is used until something arrives.
            age: For how many steps it has been used already.
            generator: Draws the delay of an episode.
        """
        self.under_way.clear()
        self.under_way.extend([deepcopy(first)] * (age + 1))
        self.age = age
        if self.delay.each == "episode":
            self.steps = self.delay.draw(generator)

    def pass_on(self, item: Any, generator: np.random.Generator) -> Any:
        """Send something, and get what is used now."""
        if self.delay.each == "step":
            self.steps = self.delay.draw(generator)
        # Copies, for an environment may work in arrays that it gave or was given.
        self.under_way.append(deepcopy(item))
        self.age = min(self.age + 1, self.steps)
        return deepcopy(self.under_way[-1 - self.age])
