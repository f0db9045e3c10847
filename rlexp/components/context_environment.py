"""An environment in which every episode has a context of its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlexp.components.context_distributions import (
    Distribution,
    bounds,
    draw,
    is_drawn,
    nearest,
    normalised,
)
from rlexp.components.context_fields import Field, follow
from rlexp.environments import MEASURES
from rlexp.errors import ConfigError

Env = gym.Env[Any, Any]
Contexts = NDArray[np.float64]
"""Shape: contexts × parameters."""


@dataclass(frozen=True, slots=True, eq=False)
class Dial:
    """One parameter of an environment: where it acts, and what training makes of it."""

    name: str
    fields: tuple[Field, ...]
    relative: bool
    training: Distribution


class ContextEnvironment(gym.Wrapper[Any, Any, Any, Any]):
    """Draws a context at each reset, or takes the next of a list; it holds for the episode."""

    def __init__(
        self, env: Env, dials: Sequence[Dial], listed: Contexts | None, *, visible: bool
    ) -> None:
        """Wrap `env`.

        Args:
            env: The environment.
            dials: Its parameters.
            listed: Contexts that are played in this order, again and again; none: they are drawn
                from the distributions of training.
            visible: Whether observations end with the context.

        Raises:
            ConfigError: Observations are no row of numbers, so that none can be appended.
        """
        super().__init__(env)
        box = np.array([bounds(dial.training) for dial in dials])
        self.context_names: tuple[str, ...] = tuple(dial.name for dial in dials)
        """Parameters of a context, in its order."""
        self.context_low, self.context_high = box[:, 0], box[:, 1]
        """Bounds of training; shape: parameters."""
        self._dials = tuple(dials)
        self._fields = tuple(field for dial in dials for field in dial.fields)
        self._listed = listed
        self._position, self._stride = 0, 1
        self._planned: NDArray[np.float64] | None = None
        self._context = np.full(len(dials), np.nan)
        self._visible = visible
        if visible:
            self.observation_space = _with_context(env.observation_space, len(dials))

    def deal(self, position: int, of: int) -> None:
        """Play every `of`-th of the list, from `position` on."""
        self._position, self._stride = position, of
        if self.env.has_wrapper_attr("deal"):
            self.env.get_wrapper_attr("deal")(position, of)

    def plan_next(self, context: NDArray[np.float64]) -> None:
        """Let the next reset play this context (shape: parameters)."""
        self._planned = np.array(context, dtype=np.float64).reshape(len(self._dials))

    def as_trained(self, context: NDArray[np.float64]) -> NDArray[np.float64]:
        """The nearest context of training: of a list of values only those are (shape: parameters)."""
        pairs = zip(self._dials, context, strict=True)
        return np.array([nearest(dial.training, float(value)) for dial, value in pairs])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset in another context."""
        context = self._next()
        if context is None:
            if seed is not None and any(is_drawn(dial.training) for dial in self._dials):
                # The environment's own generator draws the context, so it must be seeded before.
                self.env.reset(seed=seed, options=options)
                seed = None
            context = np.array([draw(dial.training, self.np_random) for dial in self._dials])
        self._apply(context)
        observation, info = self.env.reset(seed=seed, options=options)
        for dial, value in zip(self._dials, context, strict=True):
            for field in dial.fields:
                field.check_kept(self.unwrapped, float(value), relative=dial.relative)
        return self._shown(observation), info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step; the last one tells the context."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if terminated or truncated:
            told = info.setdefault(MEASURES, {})
            for name, value in zip(self.context_names, self._context, strict=True):
                told[f"context/{name}"] = float(value)
        return self._shown(observation), reward, terminated, truncated, info

    def _next(self) -> NDArray[np.float64] | None:
        """What was planned, or stands in the list; nothing if the context is to be drawn."""
        if self._listed is not None:
            context: NDArray[np.float64] = self._listed[self._position % len(self._listed)]
            self._position += self._stride
            return context
        planned, self._planned = self._planned, None
        return planned

    def _apply(self, context: NDArray[np.float64]) -> None:
        if np.array_equal(context, self._context):
            return
        for dial, value in zip(self._dials, context, strict=True):
            for field in dial.fields:
                field.write(self.unwrapped, float(value), relative=dial.relative)
        follow(self.unwrapped, self._fields)
        self._context = context

    def _shown(self, observation: Any) -> Any:
        if not self._visible:
            return observation
        shown = [
            normalised(dial.training, float(value))
            for dial, value in zip(self._dials, self._context, strict=True)
        ]
        return np.append(observation, np.asarray(shown, dtype=observation.dtype))


def _with_context(space: Any, count: int) -> gym.spaces.Box:
    if not (
        isinstance(space, gym.spaces.Box) and len(space.shape) == 1 and space.dtype.kind == "f"
    ):
        raise ConfigError(
            "a context can be visible only beside observations that are a row of numbers (a Box "
            f"of floats), not {space}: set environment.components.context.visible=false"
        )
    infinite = np.full(count, np.inf)
    low, high = np.append(space.low, -infinite), np.append(space.high, infinite)
    kind: Any = space.dtype.type
    return gym.spaces.Box(low.astype(kind), high.astype(kind), dtype=kind)
