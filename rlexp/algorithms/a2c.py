"""A2C: advantage actor-critic."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rlexp.algorithms.library import TREE_POLICY, LibraryAlgorithm
from rlexp.algorithms.on_policy import OnPolicy
from rlexp.algorithms.ranges import CountOrAll, NonNegative, Positive
from rlexp.protocol.identity import Identity
from rlexp.protocol.step_schedule import Stepped

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm


@dataclass(frozen=True, slots=True, kw_only=True)
class A2C(OnPolicy):
    """Advantage actor-critic: one synchronous policy-gradient step for each short rollout.

    Mnih et al. 2016, Asynchronous Methods for Deep Reinforcement Learning, arXiv:1602.01783.
    """

    identity: ClassVar = Identity("algorithm", "a2c")
    policies: ClassVar[tuple[str, ...]] = (*LibraryAlgorithm.policies, TREE_POLICY)

    ent_coef: Stepped[NonNegative]
    """Weight of the entropy bonus in the loss."""
    vf_coef: Stepped[NonNegative]
    """Weight of the value loss."""
    max_grad_norm: Stepped[Positive]
    """Largest norm of a gradient."""
    rms_prop_eps: Positive
    """Epsilon of RMSprop."""
    use_rms_prop: bool
    """Whether the optimiser is RMSprop instead of Adam."""
    use_sde: bool
    """Whether exploration noise is state-dependent (gSDE) instead of drawn at each step."""
    sde_sample_freq: CountOrAll
    """Steps between two draws of the gSDE noise; -1 draws once per rollout."""

    @staticmethod
    def learner_class() -> type["BaseAlgorithm"]:
        """The class of stable-baselines3."""
        import stable_baselines3

        return stable_baselines3.A2C
