"""Uniform replay: the buffer that the library makes for the algorithm."""

from dataclasses import dataclass
from typing import ClassVar

from rlexp.algorithms import Algorithm
from rlexp.protocol.identity import Identity
from rlexp.replay import BufferChoice
from rlexp.replay.library_buffer import LibraryBuffer


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniform(LibraryBuffer):
    """Every stored transition is drawn with the same probability.

    It is the default, also of algorithms without a replay buffer, and no part of a run's identity: the
    runs from before there were other replays keep theirs.

    Lin 1992, Self-Improving Reactive Agents Based on Reinforcement Learning, Planning and Teaching.
    """

    identity: ClassVar = Identity("replay", "uniform")

    def buffer(self, algorithm: Algorithm, *, dictionary: bool) -> BufferChoice:
        """The buffer of the library; a training without a replay builds the same."""
        del algorithm
        from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer

        return BufferChoice(kind=DictReplayBuffer if dictionary else ReplayBuffer)
