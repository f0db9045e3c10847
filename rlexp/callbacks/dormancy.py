"""The dormant ratio of the networks, measured at regular steps; what its callbacks share."""

from typing import Any

from stable_baselines3.common.callbacks import BaseCallback

from rlexp.training.acting.dormant import dormant_ratio

RATIO = "callback/dormant_ratio"
"""Name of the logged ratio."""


class Measuring(BaseCallback):
    """Logs the dormant ratio at the end of the first rollout that reaches a multiple of an interval."""

    def __init__(self, *, every: int, threshold: float, samples: int) -> None:
        """Set what is measured.

        Args:
            every: Environment steps between two measurements.
            threshold: The score up to which a neuron is dormant.
            samples: Observations for a measurement.
        """
        super().__init__()
        self._every, self._threshold, self._samples = every, threshold, samples
        self._done = 0
        self.ratio: float | None = None
        """The last ratio, until it is used."""

    def _on_rollout_end(self) -> None:
        due = self.model.num_timesteps // self._every
        if due <= self._done:
            return
        self._done = due
        run: Any = self.run  # type: ignore[attr-defined]
        self.ratio = dormant_ratio(
            self.model, run.generator(), samples=self._samples, threshold=self._threshold
        )
        if self.ratio is not None:
            self.logger.record(RATIO, self.ratio)

    def _on_step(self) -> bool:
        return True

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        return {"done": self._done, "ratio": self.ratio}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint."""
        self._done, self.ratio = state["done"], state["ratio"]
