"""Order statistics of resampled runs, computed from how often each run is drawn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlexp.stats.reliability.metrics import dispersion_across_runs, risk_across_runs
from rlexp.stats.reliability.risk import cvar
from rlexp.stats.reliability.summary import (
    BootstrapOrderStatistics,
    buffer_like,
    resampled_dispersion,
    resampled_risk,
)

ROWS = 7


def draw_counts(positions: NDArray[np.int64]) -> NDArray[np.signedinteger]:
    """How often each run is drawn, of shape (n, rows), from positions of shape (rows, n)."""
    n = positions.shape[1]
    counts = np.stack([np.bincount(row, minlength=n) for row in positions], axis=1)
    return np.asarray(counts.astype(np.min_scalar_type(-n)))


@given(
    # Few distinct values, so that ties are frequent.
    values=st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=60),
    share=st.floats(0, 1),
    seed=st.integers(0, 1000),
)
def test_order_statistics_are_those_of_the_drawn_runs(
    values: list[float], share: float, seed: int
) -> None:
    """Quantiles and the mean of the worst runs equal those of each sorted resample."""
    runs = np.array(values)
    positions = np.random.default_rng(seed).integers(0, len(runs), size=(ROWS, len(runs)))
    counts = draw_counts(positions)
    ranks = BootstrapOrderStatistics.of(runs, counts, buffer_like(counts))
    resamples = runs[positions]
    assert pytest.approx(np.quantile(resamples, share, axis=1)) == ranks.quantile(share)
    assert pytest.approx(cvar(resamples)) == ranks.worst_mean()
    if share:
        assert pytest.approx(cvar(resamples, share)) == ranks.worst_mean(share)


def test_metrics_across_runs_are_those_of_the_drawn_runs() -> None:
    """At each point, resampled metrics equal the metrics computed from the drawn runs."""
    generator = np.random.default_rng(3)
    curves = generator.normal(size=(45, 6)).round(1)
    ranges = generator.uniform(1, 2, size=(45, 1))
    positions = generator.integers(0, 45, size=(ROWS, 45))
    counts = draw_counts(positions)
    medians = np.median(ranges[positions, 0], axis=1)
    dispersion = dispersion_across_runs(curves[positions]) / medians[:, np.newaxis]
    actual = resampled_dispersion(np.hstack([curves, ranges]), counts)
    assert pytest.approx(dispersion.T) == actual
    assert pytest.approx(risk_across_runs(curves[positions]).T) == resampled_risk(curves, counts)


@pytest.mark.parametrize("n", [127, 128, 129])
def test_all_runs_are_counted(n: int) -> None:
    """If only the lowest score is drawn, every order statistic is the lowest score."""
    runs = np.full(n, -200.0)
    runs[-1] = -199.0
    counts = draw_counts(np.arange(n)[np.newaxis] % (n - 1))
    ranks = BootstrapOrderStatistics.of(runs, counts, buffer_like(counts))
    statistics = [ranks.worst_mean(), *(ranks.quantile(share) for share in (0, 1 / 2, 1))]
    assert [[-200.0]] * 4 == [statistic.tolist() for statistic in statistics]


def test_the_mean_of_equal_runs_is_what_they_are() -> None:
    """The mean of equal runs is exactly their score, so that it is seen not to vary."""
    runs = np.full(25, 478 / 453)
    counts = draw_counts(np.random.default_rng(0).integers(0, 25, size=(50, 25)))
    means = BootstrapOrderStatistics.of(runs, counts, buffer_like(counts)).worst_mean()
    assert {478 / 453} == set(means.tolist())
