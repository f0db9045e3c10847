"""A Gaussian process over hyperparameters whose memory fades with time.

The kernel is that of Parker-Holder et al. 2020 (arXiv:2002.02518, section 4), after Bogunovic et al. 2016:
σ² · exp(−‖x − x′‖² / 2ℓ²) · (1 − ε)^(|t − t′| / 2), with x = (score before, hyperparameters) and the
generation t. The next point maximises mean + √β · deviation, where the deviation also knows the points
that other members have in this generation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RESTARTS = 10
"""Random points from which the bound is climbed."""
FORGETTING = (0.0, 0.5)
"""The range of ε."""
LOG_BOUNDS = ((-6.0, 3.0), (-4.0, 3.0), (-9.0, 1.0))
"""Ranges of the logarithms of σ², ℓ and the variance of the noise."""
JITTER = 1e-8


@dataclass(frozen=True, slots=True)
class TimeVaryingData:
    """Parts of trainings.

    Attributes:
        generations: Their generations, of shape (n,).
        levels: The scores before them, of shape (n,).
        gains: How much the score grew in each, of shape (n,).
        points: Their hyperparameters in the unit cube, of shape (n, d).
    """

    generations: Array
    levels: Array
    gains: Array
    points: Array


@dataclass(frozen=True, slots=True)
class Kernel:
    """Parameters of the process: σ², ℓ, ε and the variance of the noise."""

    variance: float
    length: float
    forgetting: float
    noise: float

    def between(self, first: Array, second: Array) -> Array:
        """Covariances of rows (n, 2 + d) and (m, 2 + d), whose first column is t: shape (n, m)."""
        squares = ((first[:, None, 1:] - second[None, :, 1:]) ** 2).sum(axis=-1)
        ages = np.abs(first[:, None, 0] - second[None, :, 0])
        fading = (1 - self.forgetting) ** (ages / 2)
        covariances: Array = self.variance * np.exp(-squares / (2 * self.length**2)) * fading
        return covariances

    def of_data(self, rows: Array) -> Array:
        """The covariances of observed rows (n, 2 + d), with noise: shape (n, n)."""
        return self.between(rows, rows) + (self.noise + JITTER) * np.eye(len(rows))


def fitted_kernel(rows: Array, targets: Array) -> Kernel:
    """The kernel with the largest marginal likelihood of targets (n,) at rows (n, 2 + d)."""
    from scipy.optimize import minimize

    begin = np.array([0.0, 0.0, log(0.1), 0.1])
    bounds = [*LOG_BOUNDS, FORGETTING]
    result = minimize(
        lambda x: negative_likelihood(kernel_of(x), rows, targets),
        begin,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": 100},
    )
    return kernel_of(result.x)


def kernel_of(x: Sequence[float] | Array) -> Kernel:
    """The kernel of log σ², log ℓ, the logarithm of the noise, and ε."""
    variance, length, noise = np.exp(np.asarray(x[:3], dtype=np.float64))
    return Kernel(float(variance), float(length), float(x[3]), float(noise))


def negative_likelihood(kernel: Kernel, rows: Array, targets: Array) -> tuple[float, Array]:
    """The negative logarithm of the marginal likelihood, up to a constant, and its gradient (4,).

    The gradient is that by log σ², log ℓ, the logarithm of the noise, and ε (Rasmussen and Williams
    2006, equation 5.9).
    """
    from scipy.linalg import cho_solve

    factor = np.linalg.cholesky(kernel.of_data(rows))
    weights = cho_solve((factor, True), targets)
    value = float(targets @ weights / 2 + np.log(np.diag(factor)).sum())
    inner = cho_solve((factor, True), np.eye(len(rows))) - np.outer(weights, weights)
    signal = kernel.between(rows, rows)
    squares = ((rows[:, None, 1:] - rows[None, :, 1:]) ** 2).sum(axis=-1)
    ages = np.abs(rows[:, None, 0] - rows[None, :, 0])
    slopes = (
        signal,
        signal * squares / kernel.length**2,
        kernel.noise * np.eye(len(rows)),
        signal * (-ages / 2) / (1 - kernel.forgetting),
    )
    return value, np.array([(inner * slope).sum() / 2 for slope in slopes])


def exploration_weight(count: int) -> float:
    """β of the upper confidence bound after so many rows, as the authors' code has it."""
    return max(0.2 * log(0.4 * count), 0.0)


def best_point(
    data: TimeVaryingData,
    *,
    generation: int,
    level: float,
    assigned: Array,
    random: np.random.Generator,
) -> Array:
    """The point of the unit cube, of shape (d,), with the largest upper confidence bound.

    Without data, it is drawn uniformly.

    Args:
        data: Parts of trainings.
        generation: The generation of the point.
        level: The score of the member before it.
        assigned: The points of other members in this generation, of shape (m, d).
        random: The generator of the starting points.
    """
    dimensions = data.points.shape[1]
    starts = random.random((RESTARTS, dimensions))
    if len(data.gains) < 2:
        drawn: Array = starts[0]
        return drawn
    scale = _Scale.of(data)
    rows = np.column_stack([data.generations, scale.levels(data.levels), data.points])
    targets = scale.gains(data.gains)
    kernel = fitted_kernel(rows, targets)
    fixed = np.array([generation, float(scale.levels(np.array([level]))[0])])
    others = np.column_stack([np.tile(fixed, (len(assigned), 1)), assigned])
    bound = _Bound.of(kernel, rows, targets, others, fixed)
    return bound.climbed(starts)


@dataclass(frozen=True, slots=True)
class _Scale:
    """How scores become columns and targets of the process."""

    low: float
    width: float
    mean: float
    deviation: float

    @classmethod
    def of(cls, data: TimeVaryingData) -> "_Scale":
        low, high = float(data.levels.min()), float(data.levels.max())
        # Squares of the largest scores would overflow.
        unit = float(np.abs(data.gains).max()) or 1.0
        shares = data.gains / unit
        deviation = unit * float(shares.std())
        return cls(low, (high - low) or 1.0, unit * float(shares.mean()), deviation or 1.0)

    def levels(self, levels: Array) -> Array:
        return (levels - self.low) / self.width

    def gains(self, gains: Array) -> Array:
        return (gains - self.mean) / self.deviation


@dataclass(frozen=True, slots=True)
class _Bound:
    """The upper confidence bound of the gain, as a function of a point."""

    kernel: Kernel
    rows: Array
    weights: Array
    known: Array
    factor: Array
    fixed: Array
    beta: float

    @classmethod
    def of(
        cls, kernel: Kernel, rows: Array, targets: Array, others: Array, fixed: Array
    ) -> "_Bound":
        from scipy.linalg import cho_solve

        factor = np.linalg.cholesky(kernel.of_data(rows))
        weights = cho_solve((factor, True), targets)
        # The deviation falls where another member will be, although its gain is not known yet.
        points = np.concatenate([rows, others])
        wide = np.linalg.cholesky(kernel.of_data(points)).astype(np.float64)
        return cls(kernel, rows, weights, points, wide, fixed, exploration_weight(len(rows)))

    def at(self, point: Array) -> float:
        """The bound at a point of shape (d,)."""
        from scipy.linalg import solve_triangular

        row = np.concatenate([self.fixed, point])[None]
        mean = float((self.kernel.between(row, self.rows) @ self.weights)[0])
        explained = solve_triangular(
            self.factor, self.kernel.between(self.known, row)[:, 0], lower=True
        )
        variance = max(self.kernel.variance - float(explained @ explained), 0.0)
        return mean + float((self.beta * variance) ** 0.5)

    def climbed(self, starts: Array) -> Array:
        """The best point that is reached from starting points of shape (k, d)."""
        from scipy.optimize import minimize

        best: Array = starts[0]
        height = -np.inf
        for start in starts:
            result = minimize(
                lambda x: -self.at(x),
                start,
                method="L-BFGS-B",
                bounds=[(0.0, 1.0)] * len(start),
                options={"maxiter": 200},
            )
            if -result.fun > height:
                best, height = np.clip(result.x, 0.0, 1.0), -result.fun
        return best
