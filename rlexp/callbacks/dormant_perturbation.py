"""Perturbation of the networks: the more neurons are dormant, the more fresh parameters are mixed in."""

from dataclasses import dataclass
from typing import Any, ClassVar

from stable_baselines3.common.callbacks import BaseCallback

from rlexp.algorithms.ranges import Count, Discount, NonNegative
from rlexp.callbacks.dormancy import Measuring
from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity
from rlexp.training.acting.renewal import renew


@dataclass(frozen=True, slots=True, kw_only=True)
class DormantPerturbation:
    """Mixes fresh parameters into the networks by their dormant ratio.

    Xu et al. 2024, DrM: Mastering Visual Reinforcement Learning through Dormant Ratio Minimization:
    parameters become alpha × old + (1 - alpha) × fresh, with alpha = 1 - rate × ratio, kept within
    `least` and `most`. The exploration and the exploitation of DrM are not part of it.
    """

    identity: ClassVar = Identity("callback", "dormant_perturbation")
    fits_shortcuts: ClassVar[bool] = True
    keeps_state: ClassVar[bool] = True
    depends_on_length: ClassVar[bool] = False

    every: Count
    """Environment steps between two perturbations."""
    threshold: NonNegative
    """Share of the mean activity of a layer up to which a neuron is dormant."""
    samples: Count
    """Observations for a measurement of the ratio."""
    rate: NonNegative
    """How fast alpha falls with the ratio."""
    least: Discount
    """Smallest share of the old parameters, in [0, 1]."""
    most: Discount
    """Largest share of the old parameters, in [0, 1]."""

    def __post_init__(self) -> None:
        """Refuse bounds in the wrong order."""
        if self.least > self.most:
            raise ConfigError(
                f"callback.dormant_perturbation.least={self.least:g} is more than most={self.most:g}: "
                "give the smaller number to least"
            )

    def alpha(self, ratio: float) -> float:
        """The share of the old parameters for a dormant ratio in [0, 1]."""
        return min(max(1 - self.rate * ratio, self.least), self.most)

    def acts_from(self) -> int:
        """The environment step from which the callback acts."""
        return self.every

    def begin(self) -> BaseCallback:
        """Return the callback of one training."""
        return Perturbing(self)


class Perturbing(Measuring):
    """Perturbs the networks at the start of the rollout that follows a measurement."""

    def __init__(self, settings: DormantPerturbation) -> None:
        super().__init__(
            every=settings.every, threshold=settings.threshold, samples=settings.samples
        )
        self._settings = settings
        self.acted = 0

    def _on_rollout_start(self) -> None:
        if self.ratio is None:
            return
        keep, self.ratio = self._settings.alpha(self.ratio), None
        # With all of the old parameters kept, only the optimisers would forget.
        if keep < 1:
            seed = int(self.run.generator().integers(2**63))  # type: ignore[attr-defined]
            renew(self.model, seed, keep=keep)
            self.acted += 1
            self.logger.record("callback/perturbation_alpha", keep)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        return {**super().state_dict(), "acted": self.acted}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint."""
        super().load_state_dict(state)
        self.acted = state["acted"]
