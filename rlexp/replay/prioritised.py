"""Prioritised replay: transitions with large errors are drawn more often."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rlexp.algorithms import Algorithm, shown_name
from rlexp.algorithms.ranges import Discount, Positive
from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity, short_name_of
from rlexp.replay import BufferChoice
from rlexp.replay.library_buffer import LibraryBuffer, refuse_n_steps, refuse_saved_memory

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

ALGORITHMS = ("dqn", "ddpg", "sac", "td3")
"""Algorithms whose errors and losses are taken from their value networks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prioritised(LibraryBuffer):
    """A transition is drawn in proportion to the size of its last error, to the power of `alpha`.

    Its loss is weighted to correct for that. With several critics, its error is their mean.

    Schaul et al. 2016, Prioritized Experience Replay, arXiv:1511.05952: the proportional variant.
    """

    identity: ClassVar = Identity("replay", "prioritised")
    rewritten_bytes: ClassVar[int] = 8
    """The priority of a transition."""
    added_bytes: ClassVar[int] = 32
    """A leaf of the tree of priorities and its share of the sums, at most."""

    alpha: Discount
    """Exponent of priorities: 0 draws uniformly, 1 in proportion to errors."""
    beta: Discount
    """Exponent of importance weights at the beginning, which rises to 1 at the end of training."""
    epsilon: Positive
    """Added to the size of an error, so that every transition can be drawn."""

    def check(self, algorithm: Algorithm, environments: int, *, dictionary: bool) -> None:
        """Refuse an algorithm whose errors are of another kind, and settings that do not combine.

        Raises:
            ConfigError: Names what is in the way.
        """
        del environments, dictionary
        if short_name_of(type(algorithm), "algorithm") not in ALGORITHMS:
            raise ConfigError(
                f"replay=prioritised needs the error of each transition, and it is not defined for "
                f"{shown_name(algorithm)}: choose algorithm={', '.join(ALGORITHMS[:-1])} or "
                f"{ALGORITHMS[-1]}, or leave replay out",
                key="replay",
            )
        refuse_saved_memory(self, algorithm)
        refuse_n_steps(self, algorithm)

    def buffer(self, algorithm: Algorithm, *, dictionary: bool) -> BufferChoice:
        """A buffer with priorities."""
        del algorithm
        from rlexp.replay.buffers.prioritised_buffer import (
            PrioritisedBuffer,
            PrioritisedDictBuffer,
        )

        return BufferChoice(
            kind=PrioritisedDictBuffer if dictionary else PrioritisedBuffer,
            arguments={"alpha": self.alpha, "beta": self.beta, "epsilon": self.epsilon},
        )

    def attach(self, model: "BaseAlgorithm", *, begins: float) -> None:
        """Let the learner weight its minibatches and report its errors."""
        from rlexp.replay.buffers.error_weights import weight_errors

        learner: Any = model
        drawing = learner.replay_buffer.drawing
        drawing.progress = lambda: _share(1.0 - learner._current_progress_remaining, begins)  # noqa: SLF001
        weight_errors(model, drawing)

    def length_settings(self) -> tuple[str, ...]:
        """The exponent that rises over the training."""
        return () if self.beta == 1.0 else ("beta",)


def _share(done: float, begins: float) -> float:
    """The share of a schedule that is done, if it begins after a share of the training."""
    return (done - begins) / (1.0 - begins)
