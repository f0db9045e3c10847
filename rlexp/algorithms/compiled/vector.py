"""The training environments of a compiled algorithm, as the library sees them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from rlexp.environments.twins import Twin
from rlexp.protocol.budget import Compute

if TYPE_CHECKING:
    import gymnasium


class CompiledVector(VecEnv):
    """Names the twin, the seeds and the time limit of environments that a program steps.

    The environments exist within the program only, and their state is part of the learner's state.
    """

    def __init__(
        self,
        twin: Twin,
        seeds: Sequence[int],
        task: "gymnasium.Env[Any, Any]",
        compute: Compute,
    ) -> None:
        """Stand for `len(seeds)` environments.

        Args:
            twin: The twin of the task.
            seeds: The seed of each environment.
            task: An environment of Gymnasium, which gives the spaces and the time limit.
            compute: The device, and how many runs a call of the program advances together.
        """
        self.lanes, self.device = compute.batch, compute.device
        self.twin, self.seeds, self.spec = twin, tuple(seeds), task.spec
        super().__init__(len(seeds), task.observation_space, task.action_space)

    @property
    def time_limit(self) -> int | None:
        """Steps after which an episode is truncated; None for no limit."""
        return None if self.spec is None else self.spec.max_episode_steps

    def reset(self) -> Any:
        """Return zeros: the program makes and keeps the observations."""
        shape = self.observation_space.shape or ()
        return np.zeros((self.num_envs, *shape), dtype=np.float32)

    def step_async(self, actions: Any) -> None:
        """Refuse: the program steps the environments."""
        raise NotImplementedError("a compiled program steps these environments")

    def step_wait(self) -> Any:
        """Refuse: the program steps the environments."""
        raise NotImplementedError("a compiled program steps these environments")

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute once for each environment; None stands for a missing one."""
        value = self.spec if attr_name == "spec" else None
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refuse: the environments have no attributes."""
        del value, indices
        raise AttributeError(f"compiled environments have no attribute {attr_name}")

    def env_method(
        self, method_name: str, *arguments: Any, indices: Any = None, **settings: Any
    ) -> list[Any]:
        """Answer the calls of checkpoints: the state is part of the learner's state."""
        del arguments, settings
        answers: dict[str, Any] = {"env_state": {"held_by": "learner"}, "resume": None}
        if method_name not in answers:
            raise AttributeError(f"compiled environments have no method {method_name}")
        return [answers[method_name] for _ in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        """No environment is wrapped."""
        del wrapper_class
        return [False for _ in self._get_indices(indices)]
