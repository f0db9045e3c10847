"""Survival of runs that are still below a threshold, by golden numbers and by hand."""

import json
from math import exp, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

from rlexp.stats.survival import SurvivalCurve, kaplan_meier, median_time, restricted_mean

CASE: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "golden_stats.json").read_text()
)["time_to_threshold"]

runs = st.lists(st.tuples(st.integers(0, 12).map(float), st.booleans()), min_size=1, max_size=12)


def curve_of(pairs: list[tuple[float, bool]]) -> SurvivalCurve:
    """Kaplan–Meier curve of times and of whether the threshold was reached."""
    return kaplan_meier([time for time, _ in pairs], [reached for _, reached in pairs])


def test_the_curve_is_that_of_statsmodels() -> None:
    """Times, fractions and Greenwood's standard errors agree, with ties and censored runs."""
    curve = kaplan_meier(CASE["time_a"], CASE["event_a"])
    assert CASE["km_times"] == curve.times.tolist()
    assert CASE["km_surv"] == pytest.approx(curve.survival, rel=1e-12)
    assert CASE["km_se"] == pytest.approx(curve.standard_error, rel=1e-12)
    assert (7, 300.0) == (curve.n, curve.follow_up)


def test_runs_at_risk_are_those_still_on_their_way() -> None:
    """A run that is censored at a time is still at risk at that time."""
    curve = kaplan_meier([1.0, 2.0, 2.0, 3.0], [True, False, True, True])
    assert [4, 3, 1] == curve.at_risk.tolist()
    assert [1, 1, 1] == curve.events.tolist()
    assert [3 / 4, 1 / 2, 0.0] == pytest.approx(curve.survival)


def test_the_interval_is_on_the_log_minus_log_scale() -> None:
    """By hand for one of two runs: S = ½, and Greenwood's variance of log S is ½."""
    curve = kaplan_meier([1.0, 2.0], [True, False])
    width = exp(1.959963984540054 * sqrt(0.5) / log(2))
    assert [0.5**width, 0.5 ** (1 / width)] == pytest.approx([curve.low[0], curve.high[0]])


@given(runs, st.randoms(use_true_random=False))
def test_the_order_of_runs_does_not_matter(pairs: list[tuple[float, bool]], random: Any) -> None:
    """Runs in another order give the same curve to the last bit."""
    a, b = curve_of(pairs), curve_of(random.sample(pairs, len(pairs)))
    for name in ("times", "survival", "low", "high", "at_risk", "events"):
        assert getattr(a, name).tobytes() == getattr(b, name).tobytes()


@given(runs)
def test_without_censored_runs_the_curve_is_the_fraction_of_longer_times(
    pairs: list[tuple[float, bool]],
) -> None:
    """Without censoring, the curve at each time is the fraction of runs with a longer time."""
    times = np.asarray([time for time, _ in pairs])
    curve = kaplan_meier(times, np.ones(len(times), np.bool_))
    for time in range(14):
        assert (times > time).mean() == pytest.approx(curve.at(time))


@given(runs)
def test_an_interval_lies_about_its_share(pairs: list[tuple[float, bool]]) -> None:
    """An interval holds its share and is within 0 and 1; one run or a share of 0 has none."""
    curve = curve_of(pairs)
    has_interval = ~np.isnan(curve.low)
    assert ((curve.survival > 1e-12) & (len(pairs) > 1)).tolist() == has_interval.tolist()
    assert (curve.low[has_interval] >= 0).all()
    assert (curve.low[has_interval] <= curve.survival[has_interval]).all()
    assert (curve.survival[has_interval] <= curve.high[has_interval]).all()
    assert (curve.high[has_interval] <= 1).all()


def test_the_median_is_the_first_time_when_half_have_arrived() -> None:
    """The median is golden; its upper end is missing if the upper curve stays above ½."""
    median = median_time(kaplan_meier(CASE["time_a"], CASE["event_a"]))
    assert (CASE["median_a"], 120.0, None) == (median.estimate, median.low, median.high)
    assert 2.0 == median_time(kaplan_meier([1, 2, 3, 4], [True] * 4)).estimate


def test_the_median_may_be_unknown() -> None:
    """If two of five runs reach the threshold, the median time is missing."""
    median = median_time(kaplan_meier([1, 2, 9, 9, 9], [True, True, False, False, False]))
    assert (None, 5) == (median.estimate, median.n)


@pytest.mark.parametrize("side", ["a", "b"])
def test_the_restricted_mean_is_the_area(side: str) -> None:
    """The restricted mean is golden; runs that never arrive count as the horizon."""
    curve = kaplan_meier(CASE[f"time_{side}"], CASE[f"event_{side}"])
    interval = restricted_mean(curve, 300)
    assert CASE[f"rmst300_{side}"] == pytest.approx(interval.estimate, rel=1e-12)


def test_the_variance_of_the_restricted_mean_by_hand() -> None:
    """Areas of 25/4 and 1 remain after 1 and 8: variance 2 ((25/4)²/12 + 1²/6)."""
    curve = kaplan_meier([1, 8, 9, 10], [True, True, False, False])
    interval = restricted_mean(curve, 10)
    assert 1 + 7 * 3 / 4 + 2 / 2 == interval.estimate
    variance = 2 * ((21 / 4 + 1) ** 2 / 12 + 1 / 6)
    assert interval.low is not None
    assert max(0, interval.estimate - student.ppf(0.975, 1) * sqrt(variance)) == interval.low
    assert 10.0 == interval.high
    narrow = restricted_mean(kaplan_meier([1, 8, 9, 10], [True, True, False, False], 0.2), 10)
    assert narrow.low is not None
    half = student.ppf(0.6, 1) * sqrt(variance)
    assert narrow.estimate - half == pytest.approx(narrow.low)


def test_without_censored_runs_the_interval_is_students() -> None:
    """Without censoring, the interval is Student's interval of the mean time."""
    times = np.asarray([5.0, 6.0, 6.0, 8.0, 11.0])
    interval = restricted_mean(kaplan_meier(times, [True] * 5), 100)
    half = student.ppf(0.975, 4) * times.std(ddof=1) / sqrt(5)
    assert times.mean() == pytest.approx(interval.estimate)
    assert [times.mean() - half, times.mean() + half] == pytest.approx(
        [interval.low, interval.high]
    )


@pytest.mark.parametrize("n", [3, 5, 10, 20])
def test_coverage_of_the_restricted_mean(n: int) -> None:
    """Intervals of 2,000 exponential samples contain the truth about as often as stated."""
    generator = np.random.default_rng(n)
    hits, stated_coverages = [], set()
    for _ in range(2000):
        times = generator.exponential(size=n)
        interval = restricted_mean(kaplan_meier(np.minimum(times, 2), times < 2), 2)
        if interval.low is not None and interval.high is not None:
            hits.append(interval.low <= 1 - np.exp(-2) <= interval.high)
            stated_coverages.add(interval.coverage)
        else:
            assert interval.coverage is None
    assert len(hits) > 1800
    assert [np.mean(hits)] == pytest.approx(list(stated_coverages), abs=0.02)


@pytest.mark.parametrize(
    ("n", "level", "expected"),
    [(2, 0.95, None), (4, 0.95, 0.908), (20, 0.95, 0.948), (21, 0.95, None), (5, 0.9, None)],
)
def test_coverage_is_told_where_it_was_simulated(
    n: int, level: float, expected: float | None
) -> None:
    """Coverage is that of the next smaller simulated number of runs, and None beyond."""
    curve = kaplan_meier(np.arange(1.0, n + 1), [True] * n, level)
    assert expected == restricted_mean(curve, 30).coverage


def test_what_comes_after_the_horizon_does_not_count() -> None:
    """The runs that arrive at 8 and 9 count as 7."""
    interval = restricted_mean(kaplan_meier([2, 4, 8, 9], [True] * 4), 7)
    assert (2 + 4 + 7 + 7) / 4 == interval.estimate


@pytest.mark.parametrize(
    ("times", "observed", "reason"),
    [
        ([9, 9], [False, False], "no run reached the threshold within the horizon"),
        ([3, 9], [True, False], "one run reached the threshold within the horizon"),
        ([3, 3], [True, True], "all runs took the same time"),
    ],
)
def test_without_spread_the_restricted_mean_has_no_interval(
    times: list[float], observed: list[bool], reason: str
) -> None:
    """Runs without spread have a mean and a reason, but no interval."""
    interval = restricted_mean(kaplan_meier(times, observed), 9)
    assert (float(np.mean(times)), None, None) == (interval.estimate, interval.low, interval.high)
    assert reason == interval.reason


@pytest.mark.parametrize(
    ("horizon", "message"),
    [(0.0, "above 0, not 0"), (float("nan"), "above 0, not nan"), (9.1, "use at most 9")],
)
def test_an_invalid_horizon_is_refused(horizon: float, message: str) -> None:
    """A horizon beyond the longest follow-up is refused, as is one that is not above 0."""
    with pytest.raises(ValueError, match=message):
        restricted_mean(kaplan_meier([3, 9], [True, False]), horizon)


@pytest.mark.parametrize(
    ("times", "observed", "level", "message"),
    [
        ([], [], 0.95, "one value of each for each run"),
        ([1.0, 2.0], [True], 0.95, "one value of each for each run"),
        ([-1.0], [True], 0.95, "a finite number ≥ 0"),
        ([float("nan")], [True], 0.95, "a finite number ≥ 0"),
        ([1.0], [True], 1.0, "between 0 and 1"),
    ],
)
def test_invalid_times_are_refused(
    times: list[float], observed: list[bool], level: float, message: str
) -> None:
    """Missing, negative or NaN times, and an invalid level, are refused."""
    with pytest.raises(ValueError, match=message):
        kaplan_meier(times, observed, level)
