"""PED-ANOVA: importance of parameters by the divergence of good trials from all trials."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

STEPS = 50
"""Number of grid points to which a range of real numbers is rounded."""
LEAST = 2
"""Fewest trials from which a density is estimated."""
NARROWEST = 0.5 / 1.64
"""Smallest width of a kernel: it has nine tenths of its weight within one cell of the grid."""
EMPTY = 1e-12
"""Added to densities, so that no ratio of densities is infinite."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The values of one parameter in the trials.

    Attributes:
        points: Grid index of each trial's value, −1 if it has none, of shape (trials,).
        size: Number of grid points.
        ordered: Whether the points are ordered; the values of a choice are not.
    """

    points: NDArray[np.intp]
    size: int
    ordered: bool

    def drawn(self, rows: NDArray[np.intp]) -> "Observed":
        """The values of some of the trials, of shape (rows,)."""
        return Observed(self.points[rows], self.size, self.ordered)


def best(values: Numbers, quantile: float) -> NDArray[np.bool_]:
    """Mask of the best trials; trials that tie with the last of them are included.

    Args:
        values: Of shape (n,); greater is better.
        quantile: Fraction of all trials that count as best.
    """
    position = len(values) - int(np.ceil(quantile * len(values)))
    return np.asarray(values >= np.partition(values, position)[position])


def divergences(parameters: Sequence[Observed], top: NDArray[np.bool_]) -> Numbers:
    """Importance of each parameter: a divergence of the best trials from all, (parameters,).

    It is the Pearson divergence of the density of the best trials from that of all trials
    (Watanabe, Bansal and Hutter 2023, "PED-ANOVA: Efficiently Quantifying Hyperparameter
    Importance in Arbitrary Subspaces", equation 16); both are Parzen estimates with Scott's
    bandwidth. Trials without the parameter form a separate regime, which adds nothing
    (Conditional PED-ANOVA, 2026, theorem 4.2). The numbers equal those of Optuna 5's
    `PedAnovaImportanceEvaluator`.

    Args:
        parameters: The parameters' values in n trials.
        top: Mask of the best trials, of shape (n,).
    """
    return np.array([_divergence(parameter, top) for parameter in parameters])


def _divergence(parameter: Observed, top: NDArray[np.bool_]) -> float:
    there = parameter.points >= 0
    active, good = np.count_nonzero(there), np.count_nonzero(there & top)
    if active < LEAST or good == 0 or parameter.size < 2:
        return 0.0
    counts = [
        np.bincount(parameter.points[chosen], minlength=parameter.size)
        for chosen in (there & top, there)
    ]
    density = _ordered_density if parameter.ordered else _choice_density
    p, q = (density(numbers) + EMPTY for numbers in counts)
    best_share, share = good / np.count_nonzero(top), active / len(top)
    everywhere = np.count_nonzero(top) / len(top)
    return float(everywhere**2 * best_share**2 / share * (q @ (p / q - 1) ** 2))


def _ordered_density(counts: NDArray[np.intp]) -> Numbers:
    """Density by truncated normal kernels at the values and one wide kernel, of shape (size,)."""
    size, total = len(counts), int(counts.sum())
    points = np.arange(size)
    weights = np.append(counts, 1) / (total + 1)
    widths = np.append(np.full(size, _bandwidth(counts, total)), size)
    centres = np.append(points, (size - 1) / 2)
    used = weights > 0
    kernels = _kernels(centres[used], widths[used], size)
    return np.asarray(weights[used] @ kernels)


def _bandwidth(counts: NDArray[np.intp], total: int) -> float:
    """Bandwidth by Scott's rule (1992, "Multivariate Density Estimation"), robust to outliers."""
    points = np.arange(len(counts))
    middle = counts @ points / total
    deviation = np.sqrt(counts @ (points - middle) ** 2 / max(1, total - 1))
    below = np.cumsum(counts)
    first = np.searchsorted(below, max(total // 4, 1), side="left")
    third = np.searchsorted(below, total * 3 // 4, side="right")
    width: float = 1.059 * min(float(third - first) / 1.34, float(deviation)) / float(total) ** 0.2
    return max(width, NARROWEST)


def _kernels(centres: Numbers, widths: Numbers, size: int) -> Numbers:
    """Normal weights of the cells around 0 … size − 1; each row sums to 1."""
    from scipy.special import ndtr

    edges = np.arange(size + 1) - 0.5
    below = ndtr((edges - centres[:, np.newaxis]) / widths[:, np.newaxis])
    return np.asarray(np.diff(below) / (below[:, -1:] - below[:, :1]))


def _choice_density(counts: NDArray[np.intp]) -> Numbers:
    """Density by kernels that give part of their weight to the other choices, of shape (size,)."""
    size, total = len(counts), counts.sum()
    leak = 1 / (np.count_nonzero(counts) + 1)
    seen = counts / (total + 1)
    return np.asarray((seen + leak * seen.sum()) / (1 + size * leak) + 1 / (total + 1) / size)
