"""A bound on what more trials of a search could gain, from a random forest over its trials."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlexp.protocol.space import Space
from rlexp.records.trial import Trial
from rlexp.stats.sensitivity.regression_forest import ForestPredictor, UnitGrid, bagged, grow
from rlexp.tuners.conditional_cube import ConditionalCube
from rlexp.tuners.trial_values import model_values

Numbers = NDArray[np.float64]

FEWEST = 32
"""Fewest trials for a bound: with fewer, forests do not know what they do not know."""
DEVIATIONS = 1.5
"""Standard deviations between trees that a bound allows on both sides.

With 1.5 and at least 32 trials, the bound held at 99 % of the numbers of trials in searches on ten published
landscapes, and at 94 % on the landscape where it held least (`benchmarks/regret_bounds.py`).
"""
TREES, POINTS = 30, 512
"""Trees of the forest, and random points of the space at which it is asked."""
MOST_TRIALS = 1_000
"""Most trials in the forest, the latest ones, which bounds the time of a bound."""
_USE = 7
"""Number that keeps these draws apart from those of tuners, which have the same root."""


@dataclass(frozen=True, slots=True)
class RegretBound:
    """A bound on what more trials could gain.

    Attributes:
        gain: The bound, in units of the objective, 0 or more.
        trials: Number of trials that it was computed from.
    """

    gain: float
    trials: int


@dataclass(frozen=True, slots=True)
class TrialForest:
    """Predictions of a forest at its trials, then at random points of the space.

    Attributes:
        mean: Of shape (trials + points,), in units of the objective, greater is better.
        deviation: Standard deviation between the trees, of the same shape.
        trials: Number of trials.
    """

    mean: Numbers
    deviation: Numbers
    trials: int

    def gain(self, deviations: float) -> float:
        """The largest upper bound in the space minus the largest lower bound of a trial.

        Args:
            deviations: Standard deviations that are allowed on both sides.
        """
        margin = deviations * self.deviation
        upper, lower = self.mean + margin, (self.mean - margin)[: self.trials]
        return max(float(upper.max() - lower.max()), 0.0)


def regret_bound(
    space: Space, trials: Sequence[Trial], steps: int, root: int
) -> RegretBound | None:
    """How much better than the best trial a configuration of the space could be, at most.

    As in Makarova et al. (2022), "Automatic termination for hyperparameter optimization": the largest
    upper confidence bound in the space, minus the largest lower confidence bound of a trial. In place of
    a Gaussian process, a random forest predicts, whose deviation between trees does not hold the noise of
    single runs.

    Args:
        space: The search space.
        trials: The trials that have ended.
        steps: Environment steps of the full budget; trials with fewer steps are left out.
        root: Root of the random draws. Equal trials and roots give equal bounds.

    Returns:
        None with fewer than `FEWEST` trials, or where none has a score.
    """
    forest = trial_forest(space, trials, steps, root)
    return None if forest is None else RegretBound(forest.gain(DEVIATIONS), forest.trials)


def trial_forest(
    space: Space, trials: Sequence[Trial], steps: int, root: int
) -> TrialForest | None:
    """The forest of the trials, as it predicts; see `regret_bound` for the arguments.

    Failed trials count as the worst score, pruned trials as the lower quartile.
    """
    full = sorted((t for t in trials if t.steps >= steps), key=lambda trial: trial.number)
    if len(full) < FEWEST or not any(np.isfinite(trial.values[:1]).any() for trial in full):
        return None
    latest = full[-MOST_TRIALS:]
    values = model_values(latest)
    values = np.maximum(values, values[np.isfinite(values)].min())
    entropy = np.random.SeedSequence([root, len(latest), _USE])
    generator = np.random.Generator(np.random.PCG64(entropy))
    cube = ConditionalCube(space)
    grid = UnitGrid(cube.cells(cube.points(latest)), cube.sizes)
    forest = grow(grid, values, bagged(np.arange(len(values)), TREES, generator))
    drawn = cube.cells(generator.random((POINTS, len(cube.sizes))))
    predictor, cells = (
        ForestPredictor.of(forest, grid, values),
        np.concatenate([grid.cells, drawn]),
    )
    deviation = np.sqrt(predictor.between_trees(cells))
    return TrialForest(predictor.predict(cells).mean, deviation, len(latest))
