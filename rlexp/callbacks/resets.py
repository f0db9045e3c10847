"""Resets: the networks, or their last layers, begin anew at regular steps."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from stable_baselines3.common.callbacks import BaseCallback

from rlexp.algorithms.ranges import Count
from rlexp.protocol.identity import Identity
from rlexp.training.acting.renewal import renew


@dataclass(frozen=True, slots=True, kw_only=True)
class Resets:
    """Replaces parameters by fresh ones, so that early experience loses its grip on the networks.

    Nikishin et al. 2022, The Primacy Bias in Deep Reinforcement Learning.
    """

    identity: ClassVar = Identity("callback", "resets")
    fits_shortcuts: ClassVar[bool] = True
    keeps_state: ClassVar[bool] = True
    depends_on_length: ClassVar[bool] = False

    every: Count
    """Environment steps from reset to reset."""
    layers: Literal["last", "all"]
    """`last`: the last layer of each network; `all`: all of them."""
    until: Count | None
    """Environment step after which nothing is reset any more; null: the end of training."""

    def acts_from(self) -> int:
        """The environment step from which the callback acts."""
        return self.every

    def begin(self) -> BaseCallback:
        """Return the callback of one training."""
        return Resetting(self)


class Resetting(BaseCallback):
    """Resets networks where the first rollout at or after a multiple of the interval starts."""

    def __init__(self, settings: Resets) -> None:
        super().__init__()
        self._settings = settings
        self.acted = 0
        self._done = 0

    def _on_rollout_start(self) -> None:
        step, settings = self.model.num_timesteps, self._settings
        if settings.until is not None and step > settings.until:
            return
        if (due := step // settings.every) > self._done:
            self._done = due
            seed = int(self.run.generator().integers(2**63))  # type: ignore[attr-defined]
            renew(self.model, seed, keep=0.0, last_only=settings.layers == "last")
            self.acted += 1
            self.logger.record("callback/resets", self.acted)

    def _on_step(self) -> bool:
        return True

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        return {"acted": self.acted, "done": self._done}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint."""
        self.acted, self._done = state["acted"], state["done"]
