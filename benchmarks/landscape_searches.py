"""Tuners on real landscapes: many searches in two stages with common draws, without the engine.

A search in two stages screens configurations on one seed, and runs the best twelfth on four further
seeds. Nothing is pruned, so that the suggestions do not depend on the budget: one search of the
largest budget holds those of the smaller ones. A test compares it with `landscape_replay.run`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

import numpy as np
from landscape_draws import RepeatDraws
from landscape_snapping import Snapping
from landscape_table import Landscape
from numpy.typing import NDArray

from rlexp.protocol.space import Prior, Space
from rlexp.records.trial import Trial, TrialState
from rlexp.tuners import Problem, Tuner
from rlexp.tuners.prior import with_prior

PROMOTED = 1 / 12
"""Share of the screened trials that continue on all tuning seeds."""
TUNING_SEEDS = 5


@dataclass(frozen=True, slots=True)
class Guess:
    """What a user expects to be the best configuration of a landscape.

    Attributes:
        row: The configuration.
        width: Width of the prior of every parameter.
    """

    row: int
    width: float

    def of(self, landscape: Landscape) -> Space:
        """The space of a landscape with the priors; a parameter that the guess lacks has none."""
        values = landscape.rows[self.row]
        return Space(
            parameters=tuple(
                replace(p, prior=Prior(values[p.key], self.width)) if p.key in values else p
                for p in landscape.space.parameters
            )
        )


class SearchDraws(RepeatDraws):
    """The draws of a search in two stages, with the scores that they lead to."""

    @cached_property
    def tuning(self) -> NDArray[np.float64]:
        """Scores on the tuning seeds, of shape (configurations, seeds); −∞ where a run crashed."""
        scores = self.landscape.final[:, self.order[:TUNING_SEEDS]]
        return np.where(np.isnan(scores), -np.inf, scores)

    @cached_property
    def test(self) -> NDArray[np.float64]:
        """True normalised score of each configuration: the mean over all seeds but the tuning seeds."""
        scores = self.landscape.scores[:, self.order[TUNING_SEEDS:]].mean(axis=1)
        low, high = self.landscape.ends
        return np.asarray((scores - low) / (high - low))


def most_screened(runs: int) -> int:
    """The most trials that can be screened and promoted with a number of runs."""
    screened = runs
    while screened + ceil(PROMOTED * screened - 1e-9) * (TUNING_SEEDS - 1) > runs:
        screened -= 1
    return screened


def screened_rows(
    tuner: Tuner, draws: SearchDraws, trials: int, guess: Guess | None = None
) -> list[int]:
    """The configurations that a tuner screens on the first seed, trial 0 first.

    Args:
        tuner: The tuner.
        draws: The draws of the repeat.
        trials: Number of trials, trial 0 among them.
        guess: The prior of every parameter, whose guess is trial 1; None without priors.
    """
    landscape = draws.landscape
    space = landscape.space if guess is None else guess.of(landscape)
    problem = Problem(space=space, objectives=1, steps=landscape.steps[-1], seed=draws.number)
    suggester = Snapping(with_prior(tuner.open(problem), problem), landscape, draws.default)
    rows = [draws.default]
    if guess is not None:
        suggester.take(1, guess.row)
        rows.append(guess.row)
    history = [screening_trial(draws, number, row) for number, row in enumerate(rows)]
    while len(rows) < trials:
        suggestion = suggester.suggest(history, len(rows))
        if suggestion is None:
            break
        rows.append(landscape.nearest(suggestion.parameters))
        history.append(screening_trial(draws, len(history), rows[-1]))
    return rows


def two_stage_winner(draws: SearchDraws, rows: Sequence[int], runs: int) -> float:
    """The true score of the winner of a search in two stages.

    Args:
        draws: The draws of the repeat.
        rows: The configurations in the order of the trials.
        runs: The budget.
    """
    return winner_of_screened(draws, rows[: most_screened(runs)])


def winner_of_screened(draws: SearchDraws, rows: Sequence[int]) -> float:
    """The true score of the best of some screened configurations, after their promotion."""
    screened = list(dict.fromkeys(rows))
    first = draws.tuning[screened, 0]
    best = np.argsort(-first, kind="stable")[: ceil(PROMOTED * len(screened) - 1e-9)]
    promoted = [screened[i] for i in best]
    winner = promoted[int(draws.tuning[promoted].mean(axis=1).argmax())]
    return float(draws.test[winner])


def screening_trial(draws: SearchDraws, number: int, row: int) -> Trial:
    """A trial after its screening run on the first tuning seed."""
    score = float(draws.tuning[row, 0])
    failed = not math.isfinite(score)
    return Trial(
        number=number,
        parameters=draws.landscape.rows[row],
        steps=draws.landscape.steps[-1],
        state=TrialState.FAILED if failed else TrialState.COMPLETE,
        values=() if failed else (score,),
        scores=() if failed else (score,),
    )
