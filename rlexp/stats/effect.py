"""How large a difference is, whatever the unit of the scores."""

from dataclasses import dataclass
from itertools import chain
from math import exp, lgamma, log, sqrt

import numpy as np

from rlexp.stats.difference import (
    TOO_LITTLE_SPREAD,
    Pair,
    mean_difference,
    no_spread,
    tasks_of_both,
    variance,
)
from rlexp.stats.task_scores import TaskScores


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectSize:
    """Three measures of the same difference, each positive (above ½) where the first is better.

    Attributes:
        cliffs_delta: From -1 to 1.
        vargha_delaney: The chance, from 0 to 1, that a run of the first beats one of the second.
        hedges_g: The difference in standard deviations, or nothing where `reason` says why not.
        reason: Why there is no g, in words.
    """

    cliffs_delta: float
    vargha_delaney: float
    hedges_g: float | None
    reason: str | None = None


def cliffs_delta(x: TaskScores, y: TaskScores) -> float:
    """How much more often a run of x beats one of y than loses to it; mean over tasks.

    Cliff 1993, "Dominance statistics": P(x > y) - P(x < y) over all pairs of runs of a task.

    Raises:
        ValueError: The labels cannot be compared (`tasks_of_both`).
    """
    return float(np.mean([_dominance(pair) for pair in tasks_of_both(x, y)]))


def vargha_delaney(x: TaskScores, y: TaskScores) -> float:
    """The chance that a run of x beats one of y, a tie counting half; mean over tasks.

    Vargha and Delaney 2000, "A critique and improvement of the CL common language effect size
    statistics of McGraw and Wong": A₁₂ = (1 + Cliff's delta) / 2. Over tasks it is the probability
    of improvement of Agarwal et al. 2021.

    Raises:
        ValueError: The labels cannot be compared (`tasks_of_both`).
    """
    return (1 + cliffs_delta(x, y)) / 2


def hedges_g(x: TaskScores, y: TaskScores) -> float | None:
    """The difference in pooled standard deviations, without the bias of few runs.

    Hedges 1981, "Distribution theory for Glass's estimator of effect size", with the exact
    correction Γ(f/2) / (√(f/2) Γ((f-1)/2)). The variance is pooled over both labels within tasks,
    and over tasks, with f degrees of freedom in all.

    Returns:
        Nothing where a task has one run of a label, or all runs of each task are equal.

    Raises:
        ValueError: The labels cannot be compared (`tasks_of_both`).
    """
    pairs = tasks_of_both(x, y)
    samples = list(chain.from_iterable(pairs))
    if no_spread(samples):
        return None
    freedom = sum(len(sample) - 1 for sample in samples)
    # By task first, so that swapping sides changes no bit.
    squares = sum((len(a) - 1) * variance(a) + (len(b) - 1) * variance(b) for a, b in pairs)
    if not squares > 0:
        return None
    return mean_difference(pairs) / sqrt(squares / freedom) * _correction(freedom)


def effect_size(x: TaskScores, y: TaskScores) -> EffectSize:
    """All measures of how far x is above y.

    Raises:
        ValueError: The labels cannot be compared (`tasks_of_both`).
    """
    g = hedges_g(x, y)
    samples = list(chain.from_iterable(tasks_of_both(x, y)))
    return EffectSize(
        cliffs_delta=cliffs_delta(x, y),
        vargha_delaney=vargha_delaney(x, y),
        hedges_g=g,
        reason=None if g is not None else no_spread(samples) or TOO_LITTLE_SPREAD,
    )


def _dominance(pair: Pair) -> float:
    a, b = pair
    wins = int(np.searchsorted(b, a, side="left").sum())
    losses = int(np.searchsorted(a, b, side="left").sum())
    return (wins - losses) / (len(a) * len(b))


def _correction(freedom: int) -> float:
    return exp(lgamma(freedom / 2) - lgamma((freedom - 1) / 2) - log(freedom / 2) / 2)
