"""ARS: augmented random search."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rlexp.algorithms.library import LibraryAlgorithm, check_one_network
from rlexp.algorithms.ranges import Count, Finite
from rlexp.algorithms.schedules import Scheduled
from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm


@dataclass(frozen=True, slots=True, kw_only=True)
class ARS(LibraryAlgorithm):
    """Augmented random search: finite differences of return along random directions.

    Mania et al. 2018, Simple Random Search Is Competitive, arXiv:1803.07055.
    """

    identity: ClassVar = Identity("algorithm", "ars")

    policies: ClassVar[tuple[str, ...]] = ("LinearPolicy", "MlpPolicy")
    actions: ClassVar[tuple[str, ...]] = ("Box", "Discrete")
    networks_can_change: ClassVar[bool] = False

    n_delta: Count
    """Number of random directions at each update; each is evaluated with both signs."""
    n_top: Count | None
    """Number of best directions that an update uses; null uses all."""
    delta_std: Scheduled
    """Deviation of a random direction, in units of weights; a number or a schedule."""
    zero_policy: bool
    """Whether all initial weights are zero."""
    alive_bonus_offset: Finite
    """Added to the reward of each step, to cancel a bonus for survival."""
    n_eval_episodes: Count
    """Number of episodes that evaluate a direction."""

    def __post_init__(self) -> None:
        """Refuse more best directions than directions, and values that change at given steps."""
        for name in self.step_schedules():
            raise ConfigError(
                f"algorithm.{name}: ARS has no rollouts between which a value could change: give it "
                "a number or a linear schedule",
                key=f"algorithm.{name}",
            )
        if self.n_top is not None and self.n_top > self.n_delta:
            raise ConfigError(
                f"algorithm.n_top={self.n_top} is more than algorithm.n_delta={self.n_delta}: "
                "lower n_top, or raise n_delta"
            )

    def check_network(self, arguments: dict[str, Any]) -> None:
        """Refuse separate layers for actor and critic, because the policy is one network."""
        check_one_network(self, arguments)

    @staticmethod
    def learner_class() -> type["BaseAlgorithm"]:
        """The class of sb3-contrib."""
        import sb3_contrib

        return sb3_contrib.ARS
