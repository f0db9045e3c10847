"""Spaces that a component asks for."""

from typing import Any

import gymnasium as gym

from rlexp.errors import ConfigError


def require_box(space: gym.Space[Any], component: str, what: str) -> gym.spaces.Box:
    """The space, where it is an array of numbers.

    Args:
        space: What the environment has.
        component: Who asks, for the error.
        what: Of which kind its members are: observations or actions.

    Raises:
        ConfigError: It is of another kind.
    """
    if not isinstance(space, gym.spaces.Box):
        raise ConfigError(
            f"component {component} needs {what} that are arrays of numbers (Box), not "
            f"{type(space).__name__}: leave it out, or take another environment"
        )
    return space
