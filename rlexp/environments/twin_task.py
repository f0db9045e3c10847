"""Tasks of Gymnasium that play a compiled twin on the host, one step at a time.

Some tasks exist as pure functions of JAX only. A policy that was trained on them is scored by the same
functions. Such a score shows no error that training and scoring share.
"""

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlexp.environments.twins import Tree, Twin

if TYPE_CHECKING:
    import jax


class TwinTask(gymnasium.Env[Any, Any]):
    """A twin as a task of Gymnasium; register it with `max_episode_steps`."""

    metadata = {"render_modes": []}  # noqa: RUF012 (Gymnasium declares it in this way)

    def __init__(
        self, twin: Twin, observation_space: spaces.Box, action_space: "spaces.Space[Any]"
    ) -> None:
        """Make the task.

        Args:
            twin: The pure functions.
            observation_space: The space of the observations that the twin returns.
            action_space: The space of the actions that the twin takes.
        """
        import jax

        self.twin = twin
        self.observation_space = observation_space
        self.action_space = action_space
        self._begin = jax.jit(twin.reset)
        self._advance = jax.jit(twin.step)
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
        registered = gymnasium.registry.get(self.spec.id) if self.spec is not None else None
        if registered is None or registered.max_episode_steps is None:
            raise ValueError(
                f"a {type(self).__name__} needs its time limit: register it with max_episode_steps=…"
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
        return np.asarray(self.twin.observe(self._state))


def with_own_types(state: Tree) -> Tree:
    """Arrays with types of their own: a loop of JAX refuses a number of Python that becomes an array."""
    import jax
    import jax.numpy as jnp

    def typed(value: Any) -> "jax.Array":
        return jax.lax.convert_element_type(value, jnp.asarray(value).dtype)

    return jax.tree.map(typed, state)


def installed_version(package: str) -> str:
    """The version of a package.

    Raises:
        ValueError: It is not installed.
    """
    try:
        return version(package)
    except PackageNotFoundError as error:
        raise ValueError(f"{package} is not installed") from error


def check_version(package: str, expected: str) -> None:
    """Refuse another version than the one that is part of a run's identity.

    Raises:
        ValueError: Another version is installed, or none.
    """
    installed = installed_version(package)
    if expected != installed:
        raise ValueError(f"version={expected}, but {package} {installed} is installed")
