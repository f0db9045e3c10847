"""The base of replays whose buffer stands in place of the one that the library would make."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rlexp.algorithms import Algorithm, shown_name
from rlexp.environments import Environment
from rlexp.errors import ConfigError
from rlexp.protocol.identity import short_name_of
from rlexp.replay import BufferChoice

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryBuffer:
    """Base of replays: accepts every task, and keeps nothing that changes in place."""

    rewritten_bytes: ClassVar[int] = 0
    """Bytes of each stored transition that every checkpoint writes again."""
    added_bytes: ClassVar[int] = 0
    """Bytes in memory of each transition, besides those of an ordinary replay buffer."""

    def check(self, algorithm: Algorithm, environments: int, *, dictionary: bool) -> None:
        """Accept every algorithm with a replay buffer."""

    def check_task(self, environment: Environment, algorithm: Algorithm) -> None:
        """Accept every task."""

    def buffer(self, algorithm: Algorithm, *, dictionary: bool) -> BufferChoice:
        """The replay buffer with which a learner of this algorithm is built."""
        raise NotImplementedError

    def attach(self, model: "BaseAlgorithm", *, begins: float) -> None:
        """Connect nothing."""

    def length_settings(self) -> tuple[str, ...]:
        """No setting depends on the length of training."""
        return ()


def shown_replay(replay: Any) -> str:
    """A replay as it is typed: `replay=her`."""
    return f"replay={short_name_of(type(replay), 'replay')}"


def refuse_n_steps(replay: Any, algorithm: Algorithm) -> None:
    """Refuse n-step returns of the algorithm, which the library computes with its own buffer only.

    Raises:
        ConfigError: `algorithm.n_steps` is not 1.
    """
    if getattr(algorithm, "n_steps", 1) != 1:
        raise ConfigError(
            f"{shown_replay(replay)} computes one-step returns, and algorithm.n_steps is "
            f"{getattr(algorithm, 'n_steps', 1)}: set algorithm.n_steps=1",
            key="algorithm.n_steps",
        )


def refuse_saved_memory(replay: Any, algorithm: Algorithm) -> None:
    """Refuse a buffer that stores each observation once.

    Raises:
        ConfigError: `algorithm.optimize_memory_usage` is set.
    """
    if getattr(algorithm, "optimize_memory_usage", False):
        raise ConfigError(
            f"{shown_replay(replay)} needs the next observation of every transition: set "
            "algorithm.optimize_memory_usage=false",
            key="algorithm.optimize_memory_usage",
        )


def refuse_dictionaries(replay: Any, algorithm: Algorithm, *, dictionary: bool) -> None:
    """Refuse observations that are dictionaries.

    Raises:
        ConfigError: They are.
    """
    if dictionary:
        raise ConfigError(
            f"{shown_replay(replay)} takes no dictionaries as observations, which {shown_name(algorithm)} "
            "would get here: leave replay out, or choose replay=her for a task with goals",
            key="replay",
        )
