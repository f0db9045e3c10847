"""Tasks of the gymnax interface: a twin for compiled training, and the same task for Gymnasium.

Lange 2022, gymnax: A JAX-based Reinforcement Learning Environment Library. `GymnaxTwin` is trained on.
`GymnaxTask` plays the same functions one step at a time, so that a task that exists in gymnax only
can score a policy. Observations are flattened to one vector.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

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
        installed = _installed_version()
        if self.version != installed:
            raise ValueError(f"version={self.version}, but gymnax {installed} is installed")

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
            known = ", ".join(gymnax.registered_envs)
            raise ValueError(f"gymnax has no task {self.name}; choose one of {known}") from error
        try:
            return environment, parameters.replace(**self.settings)
        except TypeError as error:
            raise ValueError(f"{self.name}: {error}") from error

    def reset(self, key: "jax.Array") -> Parts:
        """Return the state at the start of an episode, with its observation."""
        environment, parameters = self.made()
        observation, state = environment.reset_env(key, parameters)
        return _typed((state, observation))

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
        parts = _typed((following, observation))
        return parts, jnp.float32(reward), jnp.bool_(terminated)


class GymnaxTask(gymnasium.Env[Any, Any]):
    """A task of gymnax on the host, which scores policies; register it with `max_episode_steps`."""

    metadata = {"render_modes": []}  # noqa: RUF012 (Gymnasium declares it in this way)

    def __init__(self, name: str, settings: Mapping[str, Any] | None = None) -> None:
        """Make the task.

        Args:
            name: The name of the task in gymnax.
            settings: Parameters of the task that differ from its defaults.

        Raises:
            ValueError: gymnax has no such task or parameter, or a space is neither Box nor Discrete.
        """
        import jax

        self._twin = GymnaxTwin(name, _installed_version(), settings or {})
        environment, parameters = self._twin.made()
        self.observation_space = _flat(environment.observation_space(parameters))
        self.action_space = _actions(environment.action_space(parameters))
        self._begin = jax.jit(self._twin.reset)
        self._advance = jax.jit(self._twin.step)
        self._keys = jax.jit(jax.random.split)
        self._key: Any = None
        self._state: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode; its random numbers follow from the seed of the task.

        Raises:
            ValueError: The task was registered without a time limit.
        """
        import jax

        super().reset(seed=seed, options=options)
        # Gymnasium gives the limit to a wrapper, and removes it from the specification of this task.
        known = gymnasium.registry.get(self.spec.id) if self.spec is not None else None
        if known is None or known.max_episode_steps is None:
            raise ValueError(
                "a task of gymnax needs its time limit: register it with max_episode_steps=…"
            )
        drawn = int(self.np_random.integers(1 << 32, dtype=np.uint32))
        self._key, key = self._keys(jax.random.PRNGKey(np.uint32(drawn)))
        self._state = self._begin(key)
        return self._observation(), {}

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Take one step; the time limit is that of the registered task."""
        self._key, key = self._keys(self._key)
        self._state, reward, terminated = self._advance(key, self._state, action)
        return self._observation(), float(reward), bool(terminated), False, {}

    def _observation(self) -> NDArray[np.float32]:
        return np.asarray(self._twin.observe(self._state))


def _typed(parts: Parts) -> Parts:
    """Arrays with types of their own: a loop of JAX refuses a number of Python that becomes an array."""
    import jax
    import jax.numpy as jnp

    def typed(value: Any) -> "jax.Array":
        return jax.lax.convert_element_type(value, jnp.asarray(value).dtype)

    typed_parts: Parts = jax.tree.map(typed, parts)
    return typed_parts


def _installed_version() -> str:
    """The version of gymnax.

    Raises:
        ValueError: It is not installed.
    """
    try:
        return version("gymnax")
    except PackageNotFoundError as error:
        raise ValueError("gymnax is not installed") from error


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
