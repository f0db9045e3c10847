"""Tasks of Brax: a twin for compiled training, and the same task for Gymnasium.

Freeman et al. 2021, Brax: A Differentiable Physics Engine for Large Scale Rigid Body Simulation.
`BraxTwin` is trained on. `BraxTask` plays the same functions one step at a time, and scores policies.
Actions lie between -1 and 1, as Brax defines them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
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


@dataclass(frozen=True)
class BraxTwin:
    """A task of Brax by its name.

    Attributes:
        name: The name of the task in Brax (`inverted_pendulum`).
        version: The version of Brax, which becomes part of a run's identity.
        settings: Arguments of the task that differ from its defaults (`backend: spring`).
    """

    name: str
    version: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_version("brax", self.version)

    # Making one reads a model and takes seconds, and every traced function needs it.
    @cached_property
    def environment(self) -> Any:
        """The environment of Brax, without its wrappers for time limits and resets.

        Raises:
            ValueError: Brax has no task of this name, or a task takes no such settings.
        """
        import jax
        from brax import envs

        try:
            # A function that is being traced may be the first that asks, and what is kept must hold
            # numbers and not its symbols.
            with jax.ensure_compile_time_eval():
                return envs.get_environment(self.name, **self.settings)
        except KeyError as error:
            raise ValueError(f"brax has no task {error}: brax.envs registers its tasks") from error
        # A task passes unknown settings on, and each layer refuses them in its own way.
        except (AssertionError, TypeError, ValueError) as error:
            raise ValueError(
                f"{self.name} with {dict(self.settings)}: {error or type(error).__name__}"
            ) from error

    def reset(self, key: "jax.Array") -> Any:
        """Return the state at the start of an episode."""
        return with_own_types(self.environment.reset(key))

    def observe(self, state: Any) -> "jax.Array":
        """Return the observation as a vector of 32-bit floats."""
        import jax.numpy as jnp

        return jnp.asarray(state.obs, jnp.float32)

    def step(
        self, key: "jax.Array", state: Any, action: "jax.Array"
    ) -> tuple[Any, "jax.Array", "jax.Array"]:
        """Return the next state, the reward, and whether the episode terminates.

        Tasks of Brax draw no random numbers in a step, so the key is not used.
        """
        import jax.numpy as jnp

        del key
        following = with_own_types(self.environment.step(state, action))
        return following, jnp.float32(following.reward), jnp.bool_(following.done)


class BraxTask(TwinTask):
    """A task of Brax on the host, which scores policies; register it with `max_episode_steps`."""

    def __init__(self, name: str, settings: Mapping[str, Any] | None = None) -> None:
        """Make the task.

        Args:
            name: The name of the task in Brax.
            settings: Arguments of the task that differ from its defaults.

        Raises:
            ValueError: Brax has no such task, or the task takes no such settings.
        """
        twin = BraxTwin(name, installed_version("brax"), settings or {})
        observations = (int(twin.environment.observation_size),)
        actions = (int(twin.environment.action_size),)
        super().__init__(
            twin,
            spaces.Box(-np.inf, np.inf, observations, dtype=np.float32),
            spaces.Box(-1.0, 1.0, actions, dtype=np.float32),
        )
