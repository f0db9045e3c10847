"""The check of the spaces of an environment that components share."""

from typing import Any

import gymnasium as gym

from rlexp.errors import ConfigError


def require_box(space: gym.Space[Any], component: str, what: str) -> gym.spaces.Box:
    """Return the space if it is a Box.

    Args:
        space: A space of the environment.
        component: Name of the component, for the error.
        what: "observations" or "actions", for the error.

    Raises:
        ConfigError: The space is not a Box.
    """
    if not isinstance(space, gym.spaces.Box):
        raise ConfigError(
            f"component {component} needs {what} that are arrays of numbers (Box), not "
            f"{type(space).__name__}: leave it out, or take another environment"
        )
    return space
