"""Adjusted p-values for a family of tests: compare them with the level of the whole family."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def bonferroni(p_values: ArrayLike) -> NDArray[np.float64]:
    """p-values of k tests, times k.

    Args:
        p_values: Of shape (k,).

    Returns:
        Adjusted p-values in the order given, of shape (k,), none above 1.

    Raises:
        ValueError: One is not a probability; a test that could not be made has no p-value.
    """
    p = _checked(p_values)
    return np.minimum(p * len(p), 1)


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Step-down adjustment that holds the family-wise error rate under any dependence.

    Holm 1979, "A simple sequentially rejective multiple test procedure": the i-th smallest of k
    is multiplied by k - i + 1, and is never below a smaller one's.

    Args:
        p_values: Of shape (k,).

    Returns:
        Adjusted p-values in the order given, of shape (k,), none above 1.

    Raises:
        ValueError: One is not a probability; a test that could not be made has no p-value.
    """
    p = _checked(p_values)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return _restored(steps, order)


def _checked(p_values: ArrayLike) -> NDArray[np.float64]:
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise ValueError(
            "p-values must be a list of numbers from 0 to 1: "
            "leave out a test that could not be made, or count it as 1"
        )
    return p


def _restored(steps: NDArray[np.float64], order: NDArray[np.intp]) -> NDArray[np.float64]:
    adjusted = np.empty_like(steps)
    adjusted[order] = np.minimum(steps, 1)
    return adjusted
