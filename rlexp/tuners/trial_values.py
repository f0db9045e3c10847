"""The values of trials as a model of the objective takes them."""

from collections.abc import Sequence
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from rlexp.records.trial import Trial, TrialState

Numbers = NDArray[np.float64]

PRUNED_QUANTILE = 0.25
"""Quantile of the complete trials that a pruned trial gets for the model, as with `tuner=gp`."""


def model_values(trials: Sequence[Trial]) -> Numbers:
    """The value of each trial for the model, greater is better, of shape (trials,).

    Args:
        trials: At least one of them is complete with a finite value.
    """
    finite = [is_scored(trial) for trial in trials]
    seen = np.array(
        [t.values[0] for t, is_finite in zip(trials, finite, strict=True) if is_finite]
    )
    pruned = float(np.quantile(seen, PRUNED_QUANTILE))
    values = np.array([pruned if t.state is TrialState.PRUNED else -np.inf for t in trials])
    values[finite] = seen
    return values


def is_scored(trial: Trial) -> bool:
    """Whether a trial is complete; a value that is not finite comes from a diverged training."""
    return bool(trial.values) and isfinite(trial.values[0])
