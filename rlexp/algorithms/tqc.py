"""TQC: truncated quantile critics."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rlexp.algorithms.off_policy import MaximumEntropy
from rlexp.algorithms.ranges import Count, Share, ZeroOrMore
from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity
from rlexp.protocol.step_schedule import Stepped

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm


@dataclass(frozen=True, slots=True, kw_only=True)
class TQC(MaximumEntropy):
    """Truncated quantile critics: SAC whose distributional critics drop their top quantiles.

    Kuznetsov et al. 2020, Controlling Overestimation Bias, arXiv:2005.04269.
    """

    identity: ClassVar = Identity("algorithm", "tqc")

    tau: Stepped[Share]
    """How far a target network moves towards its network at an update; 1 copies it."""
    target_update_interval: Count
    """Gradient steps between two updates of the target network."""
    top_quantiles_to_drop_per_net: ZeroOrMore
    """Number of largest quantiles of each critic that the target drops."""

    def check_network(self, arguments: dict[str, Any]) -> None:
        """Refuse to drop every quantile of a critic."""
        _check_quantiles(self, arguments)

    @staticmethod
    def learner_class() -> type["BaseAlgorithm"]:
        """The class of sb3-contrib."""
        import sb3_contrib

        return sb3_contrib.TQC


def _check_quantiles(member: TQC, arguments: dict[str, Any]) -> None:
    # 25 is the default of the policies of TQC in sb3-contrib.
    quantiles = arguments.get("n_quantiles", 25)
    dropped = member.top_quantiles_to_drop_per_net
    if dropped >= quantiles:
        raise ConfigError(
            f"algorithm.top_quantiles_to_drop_per_net={dropped} leaves none of a critic's "
            f"{quantiles} quantiles: drop {quantiles - 1} or fewer"
        )
