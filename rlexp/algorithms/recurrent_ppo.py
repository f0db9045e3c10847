"""RecurrentPPO: PPO with LSTM policies."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rlexp.algorithms.on_policy import ClippedPolicyGradient
from rlexp.algorithms.ranges import CountOrAll
from rlexp.protocol.identity import Identity

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrentPPO(ClippedPolicyGradient):
    """PPO with LSTM policies, for partially observed tasks.

    Pleines et al. 2022, Generalization, Mayhems and Limits in Recurrent PPO, arXiv:2205.11104.
    """

    identity: ClassVar = Identity("algorithm", "recurrent_ppo")
    fixed_rollouts: ClassVar[bool] = True
    """Whether the length of rollouts is also that of the memory, and cannot change."""

    policies: ClassVar[tuple[str, ...]] = (
        "MlpLstmPolicy",
        "CnnLstmPolicy",
        "MultiInputLstmPolicy",
    )
    actions: ClassVar[tuple[str, ...]] = ("Box", "Discrete", "MultiDiscrete")
    # MultiBinary is declared by sb3-contrib 2.9.2, but its recurrent buffer keeps such actions as
    # int8, and the first update raises "Float can't be cast to the desired output type Char".

    use_sde: bool
    """Whether exploration noise is state-dependent (gSDE) instead of drawn at each step."""
    sde_sample_freq: CountOrAll
    """Steps between two draws of the gSDE noise; -1 draws once per rollout."""

    def check(self, environments: int) -> None:
        """Refuse a rollout that is too short, or whose last minibatch has one step."""
        ClippedPolicyGradient.check(self, environments)
        self.check_last_minibatch(environments)

    @staticmethod
    def learner_class() -> type["BaseAlgorithm"]:
        """The class of sb3-contrib."""
        import sb3_contrib

        return sb3_contrib.RecurrentPPO
