"""The simulated tests of the benchmark of type I errors are those of verdicts and of SciPy."""

import numpy as np
import pytest
from comparison_cases import family_of, label
from scipy import stats
from type_1_errors import (
    ALPHA,
    Array,
    adaptive_error,
    fixed_errors,
    iqm_of,
    mean_of,
    verdict_p,
    welch_p,
)

from rlexp.stats.aggregate import Statistic, interquartile_mean, mean
from rlexp.stats.pairs.pairwise_family import decide

SIZES = [(4, 4), (3, 6), (6, 3), (8, 8)]


def two_samples(sizes: tuple[int, int]) -> tuple[Array, Array]:
    """Eight samples of two labels, of shapes (8, n) and (8, k)."""
    generator = np.random.default_rng(1)
    return generator.normal(size=(8, sizes[0])), 2 * generator.normal(1, size=(8, sizes[1]))


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("statistic", [mean, interquartile_mean])
def test_simulated_p_values_are_those_of_verdicts(
    sizes: tuple[int, int], statistic: Statistic
) -> None:
    """The simulated p-values at or below 5 % are those of the verdicts, and the others above."""
    x, y = two_samples(sizes)
    for a, b, p in zip(x, y, verdict_p(x, y, statistic), strict=True):
        (member,) = decide(family_of([label(a), label(b)], statistic))
        assert member.adjusted_p is not None
        assert member.different == (p <= ALPHA)
        assert min(p, member.adjusted_p) > ALPHA or p == pytest.approx(member.adjusted_p)


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
    """Of labels with the same law, verdicts tell at most about 5 % apart."""
    errors = fixed_errors("bimodal", (5, 5), 1.0, 4000)
    # Four standard errors are 1.4 %.
    assert max(errors.mean, errors.iqm) < 0.064


def test_different_spreads_of_solved_and_failed_runs_break_the_level() -> None:
    """Of labels that solve or fail with spreads of 3 : 1, far more than 5 % are told apart."""
    # Simulated with 20,000 samples: 25 % and, by the sequential test, 20.5 %.
    assert fixed_errors("bimodal", (4, 4), 3.0, 4000).mean == pytest.approx(0.25, abs=0.031)
    assert adaptive_error("bimodal", 3.0, 500) == pytest.approx(0.205, abs=0.072)
