"""Optimism: Welch's interval of the gap, and the gap that the Gaussian model expects."""

from math import pi, sqrt
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rlexp.stats.resampling import Resampling
from rlexp.stats.selection_bias import (
    ScoredConfiguration,
    TuningModel,
    expected_maximum,
    expected_optimism,
    fit_tuning_model,
    optimism,
    overstatement_of_best,
)

scores = st.lists(st.floats(-100, 100), min_size=2, max_size=8)


def test_the_gap_has_welchs_interval() -> None:
    """The interval of the optimism equals SciPy's Welch interval."""
    tuning, test = [10.0, 12.0, 11.0], [8.0, 9.0, 7.0, 10.0, 6.0]
    interval = optimism(tuning, test)
    expected = stats.ttest_ind(tuning, test, equal_var=False).confidence_interval()
    assert (3, "Welch t", 8, None) == (
        interval.estimate,
        interval.method,
        interval.n,
        interval.seed,
    )
    assert pytest.approx([expected.low, expected.high]) == [interval.low, interval.high]


@given(scores, scores, st.randoms())
def test_the_order_of_the_runs_does_not_matter(
    tuning: list[float], test: list[float], random: Random
) -> None:
    """Runs of either phase in another order give the same interval."""
    shuffled = random.sample(tuning, len(tuning)), random.sample(test, len(test))
    assert optimism(tuning, test) == optimism(*shuffled)


@pytest.mark.parametrize(
    ("tuning", "test", "reason"),
    [([3.0], [1.0, 2.0], "one run alone shows no spread"), ([3.0, 3.0], [2.0, 2.0], "are equal")],
)
def test_without_spread_the_gap_has_no_interval(
    tuning: list[float], test: list[float], reason: str
) -> None:
    """Runs without spread have a reason instead of an interval."""
    interval = optimism(tuning, test)
    assert 3 - np.mean(test) == interval.estimate
    assert (None, None) == (interval.low, interval.high)
    assert reason in str(interval.reason)


@pytest.mark.parametrize(("tuning", "test"), [([], [1.0]), ([1.0], [float("nan")])])
def test_missing_scores_are_refused(tuning: list[float], test: list[float]) -> None:
    """An empty list of scores, and NaN as a score, are refused."""
    with pytest.raises(ValueError, match="score"):
        optimism(tuning, test)


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1, 0),
        (2, 1 / sqrt(pi)),
        (3, 1.5 / sqrt(pi)),
        (10, 1.5387527308),
        (16, 1.7660),
        (32, 2.0697),
        (64, 2.3437),
        (128, 2.5946),
    ],
)
def test_the_expected_maximum_has_its_known_values(count: int, expected: float) -> None:
    """The expected maximum equals closed forms for two and three values, and tables beyond."""
    tolerance = 1e-9 if count <= 10 else 5e-5
    assert pytest.approx(expected, abs=tolerance) == expected_maximum(count)


@pytest.mark.parametrize("count", [1000, 100_000, 10**9])
def test_the_expected_maximum_is_found_for_many(count: int) -> None:
    """The expected maximum of K values is between the quantile of 1 - 1/K and √(2 ln K)."""
    high = sqrt(2 * np.log(count))
    low = stats.norm.isf(1 / count)
    assert low < expected_maximum(count) < high


def simulated(model: TuningModel, studies: int) -> tuple[float, float, float]:
    """Mean tuning score of the winner, mean gap to its true mean, and the gap's standard error."""
    generator = np.random.default_rng(3)
    means = generator.normal(model.mean, model.spread, (studies, model.configurations))
    noise = generator.normal(0, model.noise, (studies, model.configurations, model.seeds))
    tuning = means + noise.mean(axis=2)
    winner = tuning.argmax(axis=1)[:, None]
    best = np.take_along_axis(tuning, winner, axis=1)
    gap = best - np.take_along_axis(means, winner, axis=1)
    return float(best.mean()), float(gap.mean()), float(gap.std() / sqrt(studies))


@pytest.mark.parametrize(("configurations", "seeds"), [(5, 1), (20, 3), (50, 5)])
def test_the_expected_optimism_is_that_of_simulated_searches(
    configurations: int, seeds: int
) -> None:
    """The formula agrees with simulated searches to within four standard errors."""
    model = TuningModel(configurations=configurations, seeds=seeds, noise=2.0, spread=1.0)
    _, gap, error = simulated(model, 20_000)
    assert abs(gap - expected_optimism(configurations, seeds, 2.0, 1.0)) < 4 * error


def test_nothing_is_overstated_without_choice_or_noise() -> None:
    """The expected optimism is 0 for one configuration, and for scores without noise."""
    assert pytest.approx(0, abs=1e-9) == expected_optimism(1, 3, 1.0, 1.0)
    assert 0 == expected_optimism(50, 3, 0.0, 1.0)
    assert 0 == expected_optimism(50, 3, 0.0, 0.0)


def test_a_study_tells_its_model() -> None:
    """By hand for two configurations of two seeds: variances 2 and 2, means 1 and 5, τ² = 8 - 1."""
    model = fit_tuning_model([[0, 2], [4, 6]])
    assert (2, 2, 3) == (model.configurations, model.seeds, model.mean)
    assert pytest.approx([sqrt(2), sqrt(7)]) == [model.noise, model.spread]
    assert pytest.approx(3 + 7 / 8 * 2) == model.shrunken(5)


def test_noise_alone_is_not_taken_for_spread() -> None:
    """Means that vary less than their noise have no spread, and shrink to the mean of all."""
    model = fit_tuning_model([[0, 4], [4, 0]])
    assert 0 == model.spread == model.reliability
    assert 2 == model.shrunken(9)


def test_the_model_of_many_simulated_scores_is_recovered() -> None:
    """The model fitted to 4000 simulated configurations on 3 seeds is right within 5 %."""
    generator = np.random.default_rng(0)
    table = generator.normal(0, 2, (4000, 1)) + generator.normal(0, 1, (4000, 3))
    model = fit_tuning_model(list(table))
    assert pytest.approx([1, 2], rel=0.05) == [model.noise, model.spread]


@given(st.lists(st.lists(st.floats(-9, 9), min_size=2, max_size=2), min_size=2), st.randoms())
def test_neither_configurations_nor_runs_have_an_order(
    table: list[list[float]], random: Random
) -> None:
    """Configurations and runs in another order give the same model to the last bit."""
    shuffled = [random.sample(runs, 2) for runs in random.sample(table, len(table))]
    assert fit_tuning_model(table) == fit_tuning_model(shuffled)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([[1, 2]], "noise and spread need at least two configurations and two tuning seeds"),
        ([[1], [2]], "with one seed they cannot be separated"),
        ([], "noise and spread need at least two configurations"),
        ([[1, 2], [3]], "configurations have different numbers of runs"),
        ([[1, 2], [3, float("nan")]], "a score must be a finite number"),
    ],
)
def test_studies_too_small_for_a_model_are_refused(table: list[list[float]], message: str) -> None:
    """A study that is too small or invalid for a model is refused with the reason."""
    with pytest.raises(ValueError, match=message):
        fit_tuning_model(table)


@pytest.mark.parametrize(
    ("configurations", "seeds", "noise", "spread"),
    [(0, 1, 1.0, 1.0), (1, 0, 1.0, 1.0), (1, 1, -1.0, 1.0), (1, 1, 1.0, float("nan"))],
)
def test_invalid_models_are_refused(
    configurations: int, seeds: int, noise: float, spread: float
) -> None:
    """Counts below 1 and invalid standard deviations are refused."""
    with pytest.raises(ValueError, match=r"needed|finite numbers ≥ 0"):
        expected_optimism(configurations, seeds, noise, spread)


def scored(table: np.ndarray) -> list[ScoredConfiguration]:
    """The configurations of a table of scores, of shape (configurations, seeds)."""
    return [
        ScoredConfiguration(
            runs=len(row), mean=float(row.mean()), deviation=float(row.std(ddof=1))
        )
        for row in table
    ]


@pytest.mark.parametrize(
    ("configurations", "seeds", "spread"), [(2, 5, 1.0), (5, 3, 0.0), (20, 5, 0.5)]
)
def test_the_overstatement_of_the_best_is_within_its_interval(
    configurations: int, seeds: int, spread: float
) -> None:
    """Over 300 simulated workspaces, 95 % intervals contain the truth as often as they should.

    The truth is the mean amount by which the best mean score of such a workspace exceeds its true mean.
    """
    model = TuningModel(configurations=configurations, seeds=seeds, noise=2.0, spread=spread)
    _, truth, _ = simulated(model, 20_000)
    generator = np.random.default_rng(11)
    resampling = Resampling(repetitions=1_000)
    contained, estimates = 0, []
    for _ in range(300):
        means = generator.normal(0, spread, (configurations, 1))
        table = means + generator.normal(0, 2.0, (configurations, seeds))
        stated = overstatement_of_best(scored(table), resampling)
        assert stated is not None
        assert stated.low is not None
        assert stated.high is not None
        contained += stated.low <= truth <= stated.high
        estimates.append(stated.estimate)
    # Four standard errors of the share below 95 %.
    assert contained >= 300 * (0.95 - 4 * sqrt(0.95 * 0.05 / 300))
    assert pytest.approx(truth, rel=0.25) == np.mean(estimates)


def test_the_overstatement_by_hand() -> None:
    """Two configurations of two seeds with variance 2, and equal means: m_2 times 1."""
    table = np.array([[0.0, 2.0], [0.0, 2.0]])
    stated = overstatement_of_best(scored(table), Resampling())
    assert stated is not None
    assert pytest.approx(expected_maximum(2)) == stated.estimate
    assert (4, 0, 50_000, 0.95) == (stated.n, stated.seed, stated.repetitions, stated.level)


def test_more_configurations_overstate_more() -> None:
    """With the same known scores, the best of ten configurations overstates more than of two."""
    known = scored(np.array([[0.0, 2.0], [1.0, 5.0]]))
    two, ten = (overstatement_of_best(known, Resampling(), count) for count in (2, 10))
    assert two is not None
    assert ten is not None
    assert ten.estimate / two.estimate == pytest.approx(expected_maximum(10) / expected_maximum(2))


def test_the_overstatement_needs_two_configurations_and_two_seeds() -> None:
    """One configuration, or one seed of each, says nothing; equal scores overstate nothing."""
    single = [ScoredConfiguration(runs=1, mean=mean, deviation=None) for mean in (1.0, 2.0)]
    assert None is overstatement_of_best(single, Resampling())
    assert None is overstatement_of_best(scored(np.array([[0.0, 2.0]])), Resampling())
    equal = overstatement_of_best(scored(np.ones((2, 3))), Resampling())
    assert equal is not None
    assert (0.0, None) == (equal.estimate, equal.low)
    assert "same score" in str(equal.reason)
