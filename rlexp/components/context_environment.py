"""The wrapper that gives every episode a context: values of physical parameters."""

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
from rlexp.components.context_fields import Field, update_derived_values
from rlexp.environments import MEASURES
from rlexp.errors import ConfigError

Env = gym.Env[Any, Any]
Contexts = NDArray[np.float64]
"""Shape: contexts × parameters."""


@dataclass(frozen=True, slots=True, eq=False)
class Dial:
    """One context parameter: the fields that it sets, and its training distribution."""

    name: str
    fields: tuple[Field, ...]
    relative: bool
    training: Distribution


class ContextEnvironment(gym.Wrapper[Any, Any, Any, Any]):
    """Sets a context at each reset, drawn or the next of a list, for the whole episode."""

    def __init__(
        self, env: Env, dials: Sequence[Dial], listed: Contexts | None, *, visible: bool
    ) -> None:
        """Wrap `env`.

        Args:
            env: The environment.
            dials: Its context parameters.
            listed: Contexts to play in this order, repeatedly; None draws contexts from the
                training distributions.
            visible: Whether the context is appended to observations.

        Raises:
            ConfigError: The context is visible, and observations are not flat arrays.
        """
        super().__init__(env)
        box = np.array([bounds(dial.training) for dial in dials])
        self.context_names: tuple[str, ...] = tuple(dial.name for dial in dials)
        """Names of the parameters, in the order of a context."""
        self.context_low, self.context_high = box[:, 0], box[:, 1]
        """Bounds of the training distributions; shape: parameters."""
        self._dials = tuple(dials)
        self._fields = tuple(field for dial in dials for field in dial.fields)
        self._listed = listed
        self._position, self._stride = 0, 1
        self._planned: NDArray[np.float64] | None = None
        # NaN differs from every number, so the first context is always written.
        self._context = np.full(len(dials), np.nan)
        self._visible = visible
        if visible:
            self.observation_space = _with_context(env.observation_space, len(dials))

    def deal(self, position: int, of: int) -> None:
        """Play every `of`-th context of the list, from `position` on."""
        self._position, self._stride = position, of
        if self.env.has_wrapper_attr("deal"):
            self.env.get_wrapper_attr("deal")(position, of)

    def plan_next(self, context: NDArray[np.float64]) -> None:
        """Set the context of the next episode (shape: parameters)."""
        self._planned = np.array(context, dtype=np.float64).reshape(len(self._dials))

    def as_trained(self, context: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the nearest context of the training distributions (shape: parameters).

        A parameter with a list of training values takes only these values.
        """
        pairs = zip(self._dials, context, strict=True)
        return np.array([nearest(dial.training, float(value)) for dial, value in pairs])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset with the next context."""
        context = self._next()
        if context is None:
            if seed is not None and any(is_drawn(dial.training) for dial in self._dials):
                # The environment's own generator draws the context, so it must be seeded before.
                self.env.reset(seed=seed, options=options)
                seed = None
            context = np.array([draw(dial.training, self.np_random) for dial in self._dials])
        # Written before the reset, which computes the first state from the fields.
        self._apply(context)
        observation, info = self.env.reset(seed=seed, options=options)
        for dial, value in zip(self._dials, context, strict=True):
            for field in dial.fields:
                if field.cleared_by_resets:
                    field.write(self.unwrapped, float(value), relative=dial.relative)
                field.check_kept(self.unwrapped, float(value), relative=dial.relative)
        return self._shown(observation), info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step; the last step of an episode reports the context as measures."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if terminated or truncated:
            measures = info.setdefault(MEASURES, {})
            for name, value in zip(self.context_names, self._context, strict=True):
                measures[f"context/{name}"] = float(value)
        return self._shown(observation), reward, terminated, truncated, info

    def _next(self) -> NDArray[np.float64] | None:
        """Return the next context of the list or the planned one, or None to draw a context."""
        if self._listed is not None:
            context: NDArray[np.float64] = self._listed[self._position % len(self._listed)]
            self._position += self._stride
            return context
        planned, self._planned = self._planned, None
        return planned

    def _apply(self, context: NDArray[np.float64]) -> None:
        # Recomputing the constants of a MuJoCo model takes time: skip it for an unchanged context.
        if np.array_equal(context, self._context):
            return
        for dial, value in zip(self._dials, context, strict=True):
            for field in dial.fields:
                field.write(self.unwrapped, float(value), relative=dial.relative)
        update_derived_values(self.unwrapped, self._fields)
        self._context = context

    def _shown(self, observation: Any) -> Any:
        if not self._visible:
            return observation
        shown = [
            normalised(dial.training, float(value))
            for dial, value in zip(self._dials, self._context, strict=True)
        ]
        # Without this type, `append` would turn observations of float32 into float64.
        return np.append(observation, np.asarray(shown, dtype=observation.dtype))


def _with_context(space: Any, count: int) -> gym.spaces.Box:
    if not (
        isinstance(space, gym.spaces.Box) and len(space.shape) == 1 and space.dtype.kind == "f"
    ):
        raise ConfigError(
            "a context can be visible only beside observations that are a row of numbers (a Box "
            f"of floats), not {space}: set environment.components.context.visible=false"
        )
    # Test contexts may lie outside of the training range, so there are no bounds.
    infinite = np.full(count, np.inf)
    low, high = np.append(space.low, -infinite), np.append(space.high, infinite)
    kind: Any = space.dtype.type
    return gym.spaces.Box(low.astype(kind), high.astype(kind), dtype=kind)
