"""Replay: plug-ins that choose how an off-policy algorithm stores and draws its experience."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from rlexp.algorithms import Algorithm
from rlexp.environments import Environment
from rlexp.records.prior_transitions import PriorTransitions

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferChoice:
    """The class of a replay buffer, and its arguments besides those of the algorithm."""

    kind: type[Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)


class Replay(Protocol):
    """A way to store and draw experience; its fields are its settings.

    Its class variable `identity` (`rlexp.protocol.identity.Identity`) names it in records.
    """

    rewritten_bytes: ClassVar[int]
    """Bytes of each stored transition that every checkpoint writes again."""
    added_bytes: ClassVar[int]
    """Bytes in memory of each transition, besides those of an ordinary replay buffer."""

    def check(self, algorithm: Algorithm, environments: int, *, dictionary: bool) -> None:
        """Refuse an algorithm, or settings of it, before any run starts.

        Args:
            algorithm: The algorithm, which has a replay buffer of its library.
            environments: Environments of the vector.
            dictionary: Whether observations are dictionaries.

        Raises:
            ConfigError: Names what is in the way, and what to change.
        """
        ...

    def check_task(self, environment: Environment, algorithm: Algorithm) -> None:
        """Make the environment and refuse a task that does not fit; called in a separate process.

        Raises:
            ConfigError: Names what the task lacks.
        """
        ...

    def buffer(self, algorithm: Algorithm, *, dictionary: bool) -> BufferChoice:
        """The replay buffer with which a learner of this algorithm is built.

        Args:
            algorithm: The algorithm.
            dictionary: Whether observations are dictionaries.
        """
        ...

    def attach(self, model: "BaseAlgorithm", *, begins: float) -> None:
        """Connect the replay buffer of a freshly built learner with the learner.

        Args:
            model: The learner.
            begins: The share of the training after which schedules begin again, in [0, 1).
        """
        ...

    def length_settings(self) -> tuple[str, ...]:
        """The settings whose effect depends on the length of training."""
        ...


@runtime_checkable
class TakesPriorData(Protocol):
    """A replay that begins with transitions of another training."""

    def feed(self, model: "BaseAlgorithm", transitions: PriorTransitions) -> None:
        """Give the replay buffer of a freshly built learner its prior data.

        Raises:
            ConfigError: The transitions are of other spaces.
        """
        ...


@runtime_checkable
class CheckpointedBuffer(Protocol):
    """A replay buffer of which a checkpoint holds more than rows that never change.

    Its arrays with one row a step are saved once, in the chunks of the run, as those of every replay
    buffer. An array of mappings is one of them, if the mappings hold arrays and JSON values. What
    changes in place is saved whole at each checkpoint.
    """

    changing: ClassVar[frozenset[str]]
    """Names of its attributes that change in place, which are no rows."""

    def changing_state(self) -> dict[str, Any]:
        """A copy of what changes in place, as a tree of arrays and JSON values."""
        ...

    def restore_changing_state(self, state: dict[str, Any]) -> None:
        """Restore what changes in place, after the rows and the position were restored.

        Raises:
            KeyError: The state lacks a part.
            ValueError: The state does not fit the buffer.
        """
        ...
