"""Counts the contexts or levels that a training plays, for the measure of its shift."""

from collections.abc import Mapping

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

from rlexp.environments import MEASURES
from rlexp.environments.task_bins import Counts, TaskBins


class PlayedTasks(BaseCallback):
    """Counts the tasks of all training episodes that have ended, by their bins."""

    def __init__(self, bins: Mapping[str, TaskBins]) -> None:
        """Begin with no episode.

        Args:
            bins: The bins by the measure that reports the number.
        """
        super().__init__()
        self._bins = bins
        self.counts: dict[str, Counts] = {
            name: np.zeros(len(each.target), dtype=np.int64) for name, each in bins.items()
        }
        self._complete = True

    def __bool__(self) -> bool:
        """Whether there is anything to count."""
        return bool(self._bins)

    def _on_step(self) -> bool:
        dones = self.locals["dones"]
        if dones.any():
            for position in np.flatnonzero(dones).tolist():
                self._count(self.locals["infos"][position].get(MEASURES, {}))
        return True

    def _count(self, measures: Mapping[str, float]) -> None:
        for name, bins in self._bins.items():
            if name in measures:
                self.counts[name][bins.position(measures[name])] += 1

    def restore(self, counts: Mapping[str, Counts]) -> None:
        """Go on with the counts of a checkpoint; one that holds none makes the shift unknown."""
        self._complete = set(counts) == set(self.counts)
        if self._complete:
            self.counts = {name: counts[name].copy() for name in self.counts}

    @property
    def shift(self) -> float | None:
        """The mean divergence over the numbers of a task; None without a count of all episodes."""
        if not self._bins or not self._complete or not all(c.sum() for c in self.counts.values()):
            return None
        shifts = [bins.shift(self.counts[name]) for name, bins in self._bins.items()]
        return float(np.mean(shifts))
