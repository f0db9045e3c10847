"""Scores of episodes by the value function of the learner, collected over rollouts."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from rlexp.components.teachers import Array
from rlexp.environments.run_teacher import ValuedRollout

Score = Literal["value_loss", "positive_value_loss", "max_mc"]
STEPS, SUM, RETURN, DISCOUNT = range(4)
"""Of an unfinished episode: its steps, the sum of what is scored, the discounted return, and the
discount of its next reward."""


class EpisodeScores:
    """The unfinished episode of each environment, and the largest return of each level."""

    def __init__(self, score: Score, levels: int) -> None:
        """Begin without episodes.

        Args:
            score: What is scored.
            levels: Number of levels.
        """
        self._score: Score = score
        self._unfinished = np.zeros((0, 4))
        self._largest = np.full(levels, -np.inf) if score == "max_mc" else np.zeros(0)

    def of_environment(
        self, rollout: ValuedRollout, position: int, levels: Sequence[int]
    ) -> Iterator[tuple[int, float]]:
        """Yield level and score of each episode of one environment that ended in a rollout.

        Args:
            rollout: The rollout.
            position: The environment.
            levels: The levels of its episodes, in order.
        """
        self._make_room(rollout.starts.shape[1])
        begins = np.flatnonzero(rollout.starts[:, position]).tolist()
        # The first stretch goes on with an episode of the last rollout, or begins one at step 0.
        cuts = [0, *(step for step in begins if step > 0), len(rollout.starts)]
        if begins[:1] == [0]:
            self._unfinished[position] = (0.0, 0.0, 0.0, 1.0)
        last = len(cuts) - 2
        for number in range(len(cuts) - 1):
            self._add(rollout, position, cuts[number], cuts[number + 1])
            if number < last or rollout.ended[position]:
                yield levels[number], self._finished(position, levels[number])

    def state(self) -> dict[str, Any]:
        """Return the unfinished episodes and the largest returns."""
        return {"unfinished": self._unfinished, "largest": self._largest}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the result of `state`."""
        self._unfinished, self._largest = state["unfinished"].copy(), state["largest"].copy()

    def _make_room(self, count: int) -> None:
        if len(self._unfinished) < count:
            self._unfinished = np.tile(np.array([0.0, 0.0, 0.0, 1.0]), (count, 1))

    def _add(self, rollout: ValuedRollout, position: int, begin: int, end: int) -> None:
        """Add the steps from `begin` to `end` to the episode of an environment."""
        episode, steps = self._unfinished[position], slice(begin, end)
        rewards: Array = rollout.rewards[steps, position].astype(np.float64)
        discounts = rollout.discount ** np.arange(end - begin)
        episode[STEPS] += end - begin
        episode[SUM] += float(self._scored(rollout, position, steps).sum())
        episode[RETURN] += episode[DISCOUNT] * float((discounts * rewards).sum())
        episode[DISCOUNT] *= rollout.discount ** (end - begin)

    def _scored(self, rollout: ValuedRollout, position: int, steps: slice) -> Array:
        if self._score == "max_mc":
            return rollout.values[steps, position].astype(np.float64)
        advantages: Array = rollout.advantages[steps, position].astype(np.float64)
        return np.abs(advantages) if self._score == "value_loss" else np.maximum(advantages, 0.0)

    def _finished(self, position: int, level: int) -> float:
        """Return the score of an episode that has ended, and make room for the next."""
        steps, total, collected, _ = self._unfinished[position].tolist()
        self._unfinished[position] = (0.0, 0.0, 0.0, 1.0)
        mean = total / max(steps, 1.0)
        if self._score != "max_mc":
            return float(mean)
        self._largest[level] = max(self._largest[level], collected)
        return float(self._largest[level] - mean)
