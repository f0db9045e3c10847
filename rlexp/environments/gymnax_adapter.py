"""Tasks of the gymnax interface: a twin for compiled training, and the same task for Gymnasium.

Lange 2022, gymnax: A JAX-based Reinforcement Learning Environment Library. `GymnaxTwin` is trained on.
`GymnaxTask` plays the same functions one step at a time, so that a task that exists in gymnax only
can score a policy. Observations are flattened to one vector.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from rlexp.environments.twin_task import (
    TwinTask,
    check_version,
    installed_version,
    with_own_types,
)

if TYPE_CHECKING:
    import jax

Parts = tuple[Any, Any]
"""A state of gymnax and its observation."""


@dataclass(frozen=True)
class GymnaxTwin:
    """A task of gymnax by its name.

    Attributes:
        name: The name of the task in gymnax (`Catch-bsuite`).
        version: The version of gymnax, which becomes part of a run's identity.
        settings: Parameters of the task that differ from its defaults.
    """

    name: str
    version: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_version("gymnax", self.version)

    def made(self) -> tuple[Any, Any]:
        """The environment of gymnax with its parameters.

        Raises:
            ValueError: gymnax has no task of this name, or a task has no parameter of a name.
        """
        import gymnax

        try:
            environment, parameters = gymnax.make(self.name)
        # gymnax raises different errors for an unknown name.
        except Exception as error:
            names = ", ".join(gymnax.registered_envs)
            raise ValueError(f"gymnax has no task {self.name}; choose one of {names}") from error
        try:
            return environment, parameters.replace(**self.settings)
        except TypeError as error:
            raise ValueError(f"{self.name}: {error}") from error

    def reset(self, key: "jax.Array") -> Parts:
        """Return the state at the start of an episode, with its observation."""
        environment, parameters = self.made()
        observation, state = environment.reset_env(key, parameters)
        parts: Parts = with_own_types((state, observation))
        return parts

    def observe(self, state: Parts) -> "jax.Array":
        """Return the observation as a vector of 32-bit floats."""
        import jax.numpy as jnp

        return jnp.ravel(jnp.asarray(state[1], jnp.float32))

    def step(
        self, key: "jax.Array", state: Parts, action: "jax.Array"
    ) -> tuple[Parts, "jax.Array", "jax.Array"]:
        """Return the next state, the reward, and whether the episode terminates."""
        import jax.numpy as jnp

        environment, parameters = self.made()
        observation, following, reward, terminated, _ = environment.step_env(
            key, state[0], action, parameters
        )
        parts = with_own_types((following, observation))
        return parts, jnp.float32(reward), jnp.bool_(terminated)


class GymnaxTask(TwinTask):
    """A task of gymnax on the host, which scores policies; register it with `max_episode_steps`."""

    def __init__(self, name: str, settings: Mapping[str, Any] | None = None) -> None:
        """Make the task.

        Args:
            name: The name of the task in gymnax.
            settings: Parameters of the task that differ from its defaults.

        Raises:
            ValueError: gymnax has no such task or parameter, or a space is neither Box nor Discrete.
        """
        twin = GymnaxTwin(name, installed_version("gymnax"), settings or {})
        environment, parameters = twin.made()
        super().__init__(
            twin,
            _flat(environment.observation_space(parameters)),
            _actions(environment.action_space(parameters)),
        )


def _flat(space: Any) -> spaces.Box:
    """The space of flattened observations.

    Raises:
        ValueError: The space is no box.
    """
    if not (hasattr(space, "low") and hasattr(space, "shape")):
        raise ValueError(f"observations are {space}: only arrays can be flattened")
    low, high = (
        np.broadcast_to(np.asarray(bound, np.float32), space.shape).ravel()
        for bound in (space.low, space.high)
    )
    return spaces.Box(low, high, dtype=np.float32)


def _actions(space: Any) -> "spaces.Space[Any]":
    """The space of actions in Gymnasium.

    Raises:
        ValueError: The space is neither discrete nor a box.
    """
    if hasattr(space, "n"):
        return spaces.Discrete(int(space.n))
    if not hasattr(space, "low"):
        raise ValueError(f"actions are {space}: only Discrete and Box can be learned")
    low, high = (
        np.broadcast_to(np.asarray(bound, np.float32), space.shape)
        for bound in (space.low, space.high)
    )
    return spaces.Box(low.copy(), high.copy(), dtype=np.float32)
