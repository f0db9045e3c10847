"""Prior data: a part of each minibatch comes from transitions of another training."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from annotated_types import Interval

from rlexp.algorithms import Algorithm
from rlexp.protocol.identity import Identity
from rlexp.records.prior_transitions import PriorTransitions
from rlexp.replay import BufferChoice
from rlexp.replay.library_buffer import LibraryBuffer, refuse_n_steps, refuse_saved_memory

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorData(LibraryBuffer):
    """Symmetric sampling: half of each minibatch is prior data, the other half is experience.

    Ball et al. 2023, Efficient Online Reinforcement Learning with Offline Data (RLPD),
    arXiv:2302.02948, section 4.1. Its further parts, layer normalisation and ensembles, are settings of
    agents and algorithms.
    """

    identity: ClassVar = Identity("replay", "prior_data")

    source: str
    """`dataset` for the dataset of the run, or a run (`EXPERIMENT/RUN`) whose replay buffer is the prior
    data; records hold its digest."""
    share: Annotated[float, Interval(ge=0, lt=1)]
    """Share of the prior data in each minibatch; with 0, no minibatch has prior data."""

    def check(self, algorithm: Algorithm, environments: int, *, dictionary: bool) -> None:
        """Refuse settings that do not combine with prior data.

        Raises:
            ConfigError: Names the setting.
        """
        del environments, dictionary
        refuse_saved_memory(self, algorithm)
        refuse_n_steps(self, algorithm)

    def buffer(self, algorithm: Algorithm, *, dictionary: bool) -> BufferChoice:
        """A buffer that also draws from prior data."""
        del algorithm
        from rlexp.replay.buffers.prior_buffer import PriorBuffer, PriorDictBuffer

        kind = PriorDictBuffer if dictionary else PriorBuffer
        return BufferChoice(kind=kind, arguments={"share": self.share})

    def feed(self, model: "BaseAlgorithm", transitions: PriorTransitions) -> None:
        """Give the replay buffer of a freshly built learner its prior data.

        Raises:
            ConfigError: The transitions are of other spaces.
        """
        learner: Any = model
        learner.replay_buffer.take(transitions)
