"""N-step replay: returns over several steps before the value of a state is taken."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge

from rlexp.algorithms import Algorithm
from rlexp.algorithms.schedules import first_value
from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity
from rlexp.replay import BufferChoice
from rlexp.replay.library_buffer import (
    LibraryBuffer,
    refuse_dictionaries,
    refuse_saved_memory,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NStep(LibraryBuffer):
    """Uniform replay of n-step returns; the library computes them when it draws a minibatch.

    Equation 1 of Hessel et al. 2018, Rainbow: Combining Improvements in Deep Reinforcement Learning,
    without a correction for actions of older policies.
    """

    identity: ClassVar = Identity("replay", "n_step")

    n_steps: Annotated[int, Ge(2)]
    """Rewards that a return adds up before the value of the state that follows."""

    def check(self, algorithm: Algorithm, environments: int, *, dictionary: bool) -> None:
        """Refuse n-step returns that are set twice, dictionaries, and a buffer too short.

        Raises:
            ConfigError: Names the setting.
        """
        refuse_dictionaries(self, algorithm, dictionary=dictionary)
        refuse_saved_memory(self, algorithm)
        if getattr(algorithm, "n_steps", 1) != 1:
            raise ConfigError(
                "replay=n_step and algorithm.n_steps both set the steps of a return: set "
                "algorithm.n_steps=1, or leave replay out",
                key="algorithm.n_steps",
            )
        rows = getattr(algorithm, "buffer_size", self.n_steps) // environments
        if rows < self.n_steps:
            raise ConfigError(
                f"replay.n_steps={self.n_steps} is more than the {rows} steps that the replay buffer "
                "holds of each environment: lower it, or raise algorithm.buffer_size",
                key="replay.n_steps",
            )

    def buffer(self, algorithm: Algorithm, *, dictionary: bool) -> BufferChoice:
        """The library's buffer of n-step returns, with the discount of the algorithm."""
        del dictionary
        from stable_baselines3.common.buffers import NStepReplayBuffer

        gamma = float(first_value(getattr(algorithm, "gamma")))  # noqa: B009 (only off-policy algorithms have it)
        return BufferChoice(
            kind=NStepReplayBuffer, arguments={"n_steps": self.n_steps, "gamma": gamma}
        )
