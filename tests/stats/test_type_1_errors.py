"""The simulated tests of the benchmark of type I errors are those of SciPy."""

import numpy as np
import pytest
from scipy import stats
from type_1_errors import (
    Array,
    adaptive_error,
    fixed_errors,
    iqm_of,
    iqm_weights,
    mean_of,
    mean_weights,
    permutation_p,
    welch_p,
)

SIZES = [(3, 3), (4, 4), (3, 6), (6, 3)]


def two_samples(sizes: tuple[int, int]) -> tuple[Array, Array]:
    """Eight samples of two labels, of shapes (8, n) and (8, k)."""
    generator = np.random.default_rng(1)
    return generator.normal(size=(8, sizes[0])), 2 * generator.normal(1, size=(8, sizes[1]))


def quarter_trimmed(scores: Array, axis: int) -> Array:
    """The interquartile mean: every score four times, without the outer quarters."""
    copies = np.sort(np.repeat(scores, 4, axis=axis), axis=axis)
    return np.asarray(stats.trim_mean(copies, 0.25, axis=axis))


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("iqm", [False, True], ids=["mean", "iqm"])
def test_permutation_p_values_are_those_of_scipy(sizes: tuple[int, int], iqm: bool) -> None:
    """Enumerated p-values equal those of scipy.stats.permutation_test."""
    x, y = two_samples(sizes)
    statistic = quarter_trimmed if iqm else np.mean
    expected = [
        stats.permutation_test(
            (a, b),
            lambda a, b, axis: statistic(a, axis=axis) - statistic(b, axis=axis),
            vectorized=True,
            n_resamples=np.inf,
        ).pvalue
        for a, b in zip(x, y, strict=True)
    ]
    weights = iqm_weights if iqm else mean_weights
    computed = permutation_p(x, y, weights, np.random.default_rng(0))
    assert expected == pytest.approx(computed.tolist(), abs=1e-12)


@pytest.mark.parametrize("sizes", SIZES)
def test_welch_p_values_are_those_of_scipy(sizes: tuple[int, int]) -> None:
    """p-values of Welch's test equal those of scipy.stats.ttest_ind."""
    x, y = two_samples(sizes)
    expected = stats.ttest_ind(x, y, axis=1, equal_var=False).pvalue
    assert expected.tolist() == pytest.approx(welch_p(x, y).tolist(), abs=1e-12)


def test_labels_that_do_not_vary_are_not_told_apart_by_welch() -> None:
    """Welch's test without any spread has p = 1."""
    assert [1.0] == welch_p(np.zeros((1, 3)), np.ones((1, 3))).tolist()


def test_the_centres_of_the_laws_are_right() -> None:
    """Means and interquartile means of the laws equal those of formulas."""
    assert np.exp(0.5) == pytest.approx(mean_of("lognormal"), rel=1e-3)
    # E[X; a < X < b] of a lognormal law is e^½ (Φ(ln b - 1) - Φ(ln a - 1)).
    low, high = stats.norm.ppf([0.25, 0.75])
    share = stats.norm.cdf(high - 1) - stats.norm.cdf(low - 1)
    assert np.exp(0.5) * share / 0.5 == pytest.approx(iqm_of("lognormal"), rel=1e-5)
    assert mean_of("bimodal") == pytest.approx(0.7, abs=1e-4)
    assert mean_of("heavy left tail") == pytest.approx(-1.5, rel=1e-3)


def test_equal_laws_hold_the_level() -> None:
    """Of labels with the same law, the permutation tests tell at most about 5 % apart."""
    errors = fixed_errors("bimodal", (5, 5), 1.0, 4000)
    # Four standard errors are 1.4 %.
    assert max(errors.mean, errors.iqm) < 0.064


def test_different_spreads_of_solved_and_failed_runs_break_the_level() -> None:
    """Of labels that solve or fail with spreads of 3 : 1, far more than 5 % are told apart."""
    # Simulated with 20,000 samples: 24.4 % and, by the sequential test, 20.5 %.
    assert fixed_errors("bimodal", (4, 4), 3.0, 4000).mean == pytest.approx(0.244, abs=0.027)
    assert adaptive_error("bimodal", 3.0, 500) == pytest.approx(0.205, abs=0.072)
