"""Reliability metrics of training and of rollouts have intervals over whole runs, or reasons."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlexp.stats.reliability.estimates import Reliability
from rlexp.stats.reliability.metrics import LearningCurves
from rlexp.stats.reliability.summary import rollout_reliability, training_reliability
from rlexp.stats.resampling import Resampling

FEW = Resampling(seed=1, repetitions=500)
TRAINING = (
    "dispersion across time",
    "short-term risk",
    "long-term risk",
    "dispersion across runs",
    "risk across runs",
    "median performance",
)


def curves_of(n: int, evaluations: int = 41, seed: int = 0) -> NDArray[np.float64]:
    """Noisy runs that rise from about 0 to about 40, of shape (n, evaluations)."""
    noise = np.random.default_rng(seed).normal(size=(n, evaluations))
    return np.asarray(np.linspace(0, 40, evaluations) + noise)


def summary(
    values: NDArray[np.float64],
    *,
    baseline: float | None = None,
    points: int = 20,
    period: float | None = None,
    resampling: Resampling = FEW,
) -> dict[str, Reliability]:
    """Metrics by name, of evaluations every 100 steps."""
    curves = LearningCurves.of(100 * np.arange(values.shape[1]), values)
    metrics = training_reliability(
        curves, resampling, baseline=baseline, points=points, period=period
    )
    return {metric.metric: metric for metric in metrics}


def comparable(metrics: dict[str, Reliability]) -> list[object]:
    """All fields of the metrics, in a form that can be compared."""
    return [
        (
            m.metric,
            m.interval,
            m.note,
            m.reason,
            None if m.values is None else m.values.tobytes(),
        )
        for m in metrics.values()
    ]


def test_every_metric_has_an_interval_with_enough_runs() -> None:
    """With enough runs, every metric has an interval that contains its estimate."""
    metrics = summary(curves_of(25))
    assert TRAINING == tuple(metrics)
    for metric in metrics.values():
        assert metric.interval is not None
        assert metric.interval.low is not None
        assert metric.interval.high is not None
        assert metric.interval.low < metric.interval.estimate < metric.interval.high
        assert (25, None, None) == (metric.interval.n, metric.reason, metric.note)


def test_two_runs_by_hand() -> None:
    """By hand for ranges 4 and 8: both runs fall by half of their range, and end 4 apart."""
    values = np.array([[0, 4, 2, 4, 4.0], [0, 8, 4, 8, 8]])
    metrics = summary(values, points=5)
    risk, fall = metrics["short-term risk"], metrics["long-term risk"]
    spread, worst = metrics["dispersion across runs"], metrics["risk across runs"]
    for metric, expected in (
        (risk, [-0.005, -0.005]),
        (fall, [0.5, 0.5]),
        (spread, [0, 2 / 6, 1 / 6, 2 / 6, 2 / 6]),
        (worst, [0, 1, 0.5, 1, 1]),
    ):
        assert pytest.approx(expected) == metric.values
    assert spread.interval is not None
    assert pytest.approx(2 / 6) == spread.interval.estimate
    assert [0, 100, 200, 300, 400] == (spread.steps if spread.steps is None else [*spread.steps])


def test_a_baseline_replaces_the_range() -> None:
    """With a baseline no range is needed, and metrics are divided by the baseline."""
    falling = -curves_of(6)
    assert summary(falling)["long-term risk"].interval is None
    unit, tenfold = summary(falling, baseline=1), summary(falling, baseline=10)
    for name in TRAINING[:-1]:
        first, second = unit[name].values, tenfold[name].values
        assert first is not None
        assert second is not None
        assert pytest.approx(first / 10) == second


def test_runs_that_never_rise_have_no_range() -> None:
    """Runs that never rise have a reason instead of metrics that are divided by the range."""
    values = curves_of(6)
    values[0] = 0
    metrics = summary(values)
    expected = (
        "1 of 6 runs hardly ever rise above their first value, so the metric cannot be divided by it: "
        "give a baseline"
    )
    assert [expected] * 5 + [None] == [metric.reason for metric in metrics.values()]
    assert metrics["median performance"].interval is not None


def test_one_run_has_metrics_of_its_own_but_none_across_runs() -> None:
    """A single run has metrics within the run, and a reason instead of metrics across runs."""
    metrics = summary(curves_of(1))
    for name in ("dispersion across runs", "risk across runs"):
        assert "a single run shows no difference between runs: add seeds" == metrics[name].reason
    interval = metrics["long-term risk"].interval
    assert interval is not None
    assert (None, "one run alone shows no spread") == (interval.low, interval.reason)


def test_few_runs_get_no_interval_that_would_mislead() -> None:
    """Up to 20 runs have no interval of the risk, and four have none of the dispersion."""
    for n, dispersion in ((4, False), (5, True), (20, True)):
        metrics = summary(curves_of(n))
        spread, worst = metrics["dispersion across runs"], metrics["risk across runs"]
        assert spread.interval is not None
        assert worst.interval is not None
        assert dispersion == (spread.interval.low is not None)
        assert f"the worst 5 % of {n} runs is the worst one alone" == worst.note
        assert (None, None) == (worst.interval.low, worst.interval.high)
        assert (0, None) == (worst.interval.repetitions, worst.interval.seed)
        assert "resamples vary it less than new runs" in str(worst.interval.reason)


def test_few_evaluations_say_what_the_metrics_lack() -> None:
    """With three evaluations the dispersion is missing, and each risk is a single value."""
    metrics = summary(curves_of(6, evaluations=3))
    reason = metrics["dispersion across time"].reason
    assert "2 differences between evaluations in steps 0 to 200" in str(reason)
    assert (
        "the worst 5 % of 2 differences is the worst one alone" == metrics["short-term risk"].note
    )
    assert (
        "the worst 5 % of 3 evaluations is the worst one alone" == metrics["long-term risk"].note
    )


def test_one_evaluation_is_no_curve_but_no_fault() -> None:
    """With one evaluation, metrics over time have a reason, and metrics across runs exist."""
    metrics = summary(curves_of(6, evaluations=1), baseline=1)
    assert "one evaluation shows no change" in str(metrics["short-term risk"].reason)
    assert "one evaluation shows no change" in str(metrics["long-term risk"].reason)
    assert "0 differences" in str(metrics["dispersion across time"].reason)
    assert metrics["dispersion across runs"].reason is None
    assert metrics["median performance"].reason is None


def test_equal_runs_have_no_interval() -> None:
    """Equal runs have a reason instead of an interval, for every metric."""
    metrics = summary(np.repeat(curves_of(1), 8, axis=0))
    for metric in metrics.values():
        assert metric.interval is not None
        assert metric.interval.low is None
        assert metric.interval.reason
    spread = metrics["dispersion across runs"].interval
    assert spread is not None
    assert (0, "all resamples give the same value") == (spread.estimate, spread.reason)


def test_smoothing_narrows_the_dispersion_across_runs() -> None:
    """Smoothing removes noise of single evaluations; too few evaluations have a reason."""
    values = curves_of(10, evaluations=101)
    rough, smooth = summary(values), summary(values, period=3000)
    first, second = (metrics["dispersion across runs"].interval for metrics in (rough, smooth))
    assert first is not None
    assert second is not None
    assert second.estimate < first.estimate / 2
    short = summary(curves_of(10, evaluations=20), period=3000)["risk across runs"]
    assert "20 evaluations: smoothing needs at least 28" in str(short.reason)


def test_intervals_of_what_cannot_be_negative_end_at_zero() -> None:
    """The interval of a metric that cannot be negative is cut at 0."""
    values = curves_of(3)
    values[0] += 30 * (np.arange(41) == 20)
    interval = summary(values)["long-term risk"].interval
    assert interval is not None
    assert 0 == interval.low


@given(st.integers(1, 8), st.integers(0, 99), st.randoms())
@settings(max_examples=20)
def test_the_order_of_the_runs_does_not_matter(n: int, seed: int, random: Random) -> None:
    """Runs in another order have the same metrics to the last bit."""
    values = curves_of(n, seed=seed)
    shuffled = values[random.sample(range(n), n)]
    assert comparable(summary(values)) == comparable(summary(shuffled))


def test_whole_runs_are_resampled() -> None:
    """Resamples draw whole runs, so that intervals vary as runs do and not as evaluations do."""
    offsets = np.array([[0.0], [1], [2], [3], [4], [5], [6], [7]])
    values = np.linspace(0, 10, 21) + offsets
    interval = summary(values, baseline=1)["dispersion across runs"].interval
    assert interval is not None
    resamples = np.random.default_rng(0).choice(offsets[:, 0], (20_000, 8))
    quartiles = np.quantile(resamples, [0.25, 0.75], axis=1)
    expected = np.quantile(quartiles[1] - quartiles[0], [0.025, 0.975])
    assert pytest.approx(expected, abs=0.26) == [interval.low, interval.high]


def test_the_range_is_that_of_the_resampled_runs() -> None:
    """The dispersion of a resample is divided by the median range of its own runs."""
    rates = np.random.default_rng(1).lognormal(sigma=1.5, size=25)
    values = rates[:, None] * np.minimum(np.arange(21), 10)
    resampling = Resampling(repetitions=20_000)
    interval = summary(values, points=3, resampling=resampling)["dispersion across runs"].interval
    assert interval is not None
    resamples = np.random.default_rng(0).choice(rates, (20_000, 25))
    quartiles = np.quantile(resamples, [0.25, 0.75], axis=1)
    shares = (quartiles[1] - quartiles[0]) / np.median(resamples, axis=1)
    expected = np.quantile(shares, [0.025, 0.975])
    assert pytest.approx(expected, rel=0.03) == [interval.low, interval.high]


def test_rollouts_by_hand() -> None:
    """By hand for returns 8 to 12: interquartile range 2, median 10, worst return 8."""
    spread, worst = rollout_reliability([[12, 8, 10, 9, 11], [24, 16, 20, 18, 22]], FEW)
    assert ("dispersion across rollouts", "lower") == (spread.metric, spread.better)
    assert ("risk across rollouts", "higher") == (worst.metric, worst.better)
    assert [0.2, 0.2] == (spread.values if spread.values is None else [*spread.values])
    assert [0.8, 0.8] == (worst.values if worst.values is None else [*worst.values])
    assert "the worst 5 % of 5 episodes is the worst one alone" == worst.note


def test_rollouts_in_units_of_the_return() -> None:
    """Negative returns need a baseline, because they are no share of their median."""
    returns = [np.array([-8.0, -10, -12, -14]), np.array([-1.0, -2, -3, -4])]
    expected = (
        "2 of 2 runs have a median return of 0 or less, so the metric cannot be divided by it"
    )
    assert all(expected in str(metric.reason) for metric in rollout_reliability(returns, FEW))
    _, worst = rollout_reliability(returns, FEW, baseline=1)
    assert [-14, -4] == (worst.values if worst.values is None else [*worst.values])


def test_few_rollouts_have_no_dispersion() -> None:
    """If one policy has only three episodes, the dispersion has a reason instead of a value."""
    spread, worst = rollout_reliability([[1, 2, 3], [1, 2, 3, 4]], FEW)
    assert "a policy has 3 final episodes: an interquartile range needs 4" == spread.reason
    assert worst.interval is not None


@pytest.mark.parametrize("baseline", [0.0, -1.0, float("nan"), float("inf")])
def test_an_invalid_baseline_is_refused(baseline: float) -> None:
    """A baseline that is not above 0 is refused for curves and for rollouts."""
    with pytest.raises(ValueError, match="the baseline must be a finite number above 0"):
        summary(curves_of(3), baseline=baseline)
    with pytest.raises(ValueError, match="the baseline must be a finite number above 0"):
        rollout_reliability([[1, 2, 3, 4]], FEW, baseline=baseline)


def test_no_point_to_compare_at_is_refused() -> None:
    """A number of points below 1 is refused."""
    with pytest.raises(ValueError, match="points must be at least 1, not 0"):
        summary(curves_of(3), points=0)
