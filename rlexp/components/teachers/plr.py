"""Prioritised level replay (PLR): plays levels again whose scores are high or old.

The scores of episodes come from the value function of the learner.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Interval
from numpy.typing import NDArray

from rlexp.components.teachers import Array
from rlexp.components.teachers.taught import Env, LessonEnvironment, taught
from rlexp.environments import Stage
from rlexp.environments.run_teacher import ValuedRollout
from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity

MOST_LEVELS = 100_000
"""Largest number of training levels, whose scores are part of checkpoints."""
Share = Annotated[float, Interval(ge=0, le=1)]
Score = Literal["value_loss", "positive_value_loss", "max_mc"]
STEPS, SUM, RETURN, DISCOUNT = range(4)
"""Of an unfinished episode: its steps, the sum of what is scored, the discounted return, and the
discount of its next reward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrioritisedLevelReplay:
    """Levels whose scores rank high are played again more often, mixed with those played long ago.

    Jiang, Grefenstette & Rocktäschel 2021, Prioritized Level Replay, algorithm 1 and section 3. An
    episode plays a level that was played before with a probability that grows with the share of such
    levels, and otherwise a new one. Among those played before, level i has the probability
    (1 - staleness) · rank_i^(-1 / temperature) / Σ + staleness · age_i / Σ, where ages count
    episodes since a level began. The scores for regret are those of Jiang et al. 2021,
    Replay-Guided Adversarial Environment Design, section 5. Unlike there, the learner learns from
    new levels, too.
    """

    identity: ClassVar = Identity("teacher", "plr")
    splits: ClassVar = False
    """A teacher does not change evaluation."""
    shared: ClassVar = True
    """One teacher for all environments of a run."""
    needs_values: ClassVar = True
    """Scores come from the value function of the learner."""

    score: Literal["value_loss", "positive_value_loss", "max_mc"]
    """Score of an episode, a mean over its steps: of the absolute advantage (`value_loss`), of its
    positive part, or of the largest return of the level less the value (`max_mc`)."""
    temperature: Annotated[float, Interval(gt=0, le=100)]
    """Temperature of ranks, β: a high one makes levels equally likely."""
    staleness: Share
    """Weight of the time since a level was played, ρ."""
    replay_share: Share | None
    """Probability that a level is played again while there are new ones; null: the share of levels
    that were played."""

    def wrap(self, environment: Env, stage: Stage) -> Env:
        """Return the environment with levels from this teacher for training, else unchanged.

        Raises:
            ConfigError: The environment has no levels, or too many.
        """
        wrapped = taught(environment, stage, self, None, of="level")
        if isinstance(wrapped, LessonEnvironment):
            (low,), (high,) = wrapped.task_box
            if (count := int(high - low) + 1) > MOST_LEVELS:
                raise ConfigError(
                    f"teacher=plr keeps a score of each training level, of at most {MOST_LEVELS:,}: "
                    f"lower environment.components.levels.training={count}, or use teacher=none"
                )
        return wrapped

    def begin(self, low: Array, high: Array, generator: np.random.Generator) -> "LevelLessons":
        """Return new lessons for the levels from `low` to `high` (both of shape 1)."""
        return LevelLessons(self, int(low[0]), int(high[0]) - int(low[0]) + 1, generator)


class LevelLessons:
    """The scores and ages of all levels."""

    def __init__(
        self,
        teacher: PrioritisedLevelReplay,
        first: int,
        count: int,
        generator: np.random.Generator,
    ) -> None:
        """Begin without any score.

        Args:
            teacher: The settings.
            first: The first level.
            count: Number of levels.
            generator: The only source of random numbers.
        """
        self._teacher, self._first, self._generator = teacher, first, generator
        self.scores = np.full(count, np.nan)
        """Score of each level; NaN of those that have none yet (levels)."""
        self._begun_at = np.zeros(count, dtype=np.int64)
        self._begun = 0
        self._episodes = EpisodeScores(teacher.score, count)
        self.acted = 0
        """Levels that were chosen by their scores."""

    def propose(self) -> Array:
        """Draw a level that was played before, or a new one (1)."""
        seen = np.flatnonzero(~np.isnan(self.scores))
        level = self._again(seen) if self._plays_again(len(seen)) else self._new()
        self._begun += 1
        self._begun_at[level] = self._begun
        return np.array([self._first + level], dtype=np.float64)

    def learn(self, task: Array, outcome: float) -> None:
        """Ignore the outcome: scores come from rollouts."""
        del task, outcome

    def hear_rollout(self, rollout: ValuedRollout) -> None:
        """Score the levels of all episodes that ended in a rollout."""
        for position, tasks in enumerate(rollout.tasks):
            levels = [int(task[0]) - self._first for task in tasks]
            for level, score in self._episodes.of_environment(rollout, position, levels):
                self.scores[level] = score

    def state(self) -> dict[str, Any]:
        """Return scores, ages, unfinished episodes, and the count of choices."""
        return {
            "scores": self.scores,
            "begun_at": self._begun_at,
            "begun": self._begun,
            "episodes": self._episodes.state(),
            "acted": self.acted,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the result of `state`."""
        self.scores, self._begun_at = state["scores"].copy(), state["begun_at"].copy()
        self._begun, self.acted = state["begun"], state["acted"]
        self._episodes.restore(state["episodes"])

    def _plays_again(self, seen: int) -> bool:
        if seen in {0, len(self.scores)}:
            return seen > 0
        share = self._teacher.replay_share
        chance = seen / len(self.scores) if share is None else share
        return bool(self._generator.random() < chance)

    def _new(self) -> int:
        return int(self._generator.choice(np.flatnonzero(np.isnan(self.scores))))

    def _again(self, seen: NDArray[np.intp]) -> int:
        self.acted += 1
        return int(self._generator.choice(seen, p=self.chances(seen)))

    def chances(self, seen: NDArray[np.intp]) -> Array:
        """Return the probability of each level that was played before (levels)."""
        # The sort is stable, so that equal scores rank in the order of levels.
        ranks = np.empty(len(seen))
        ranks[np.argsort(-self.scores[seen], kind="stable")] = np.arange(1, len(seen) + 1)
        # As powers of numbers up to 1: a low temperature would overflow otherwise.
        by_score = np.exp(-np.log(ranks) / self._teacher.temperature)
        ages = (self._begun - self._begun_at[seen]).astype(np.float64)
        by_age = ages / ages.sum() if ages.sum() > 0 else np.full(len(seen), 1 / len(seen))
        staleness = self._teacher.staleness
        mixed = (1 - staleness) * by_score / by_score.sum() + staleness * by_age
        chances: Array = mixed / mixed.sum()
        return chances


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
