"""Times to a threshold, shares of runs that reach it, and the test between two labels."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlexp.stats.threshold import log_rank, time_to_threshold, wilson

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "golden_stats.json").read_text()
)
CASE: dict[str, Any] = GOLDEN["time_to_threshold"]
STEPS = [10, 20, 30, 40, 50]

runs = st.lists(st.tuples(st.integers(1, 9).map(float), st.booleans()), min_size=1, max_size=9)


@pytest.mark.parametrize(
    ("values", "stays", "expected"),
    [
        ([0, 5, 1, 6, 7], 1, (20.0, True)),
        ([0, 5, 1, 6, 7], 2, (40.0, True)),
        ([0, 5, 1, 6, 7], 3, (50.0, False)),
        ([5, 5, 5, 5, 5], 5, (10.0, True)),
        ([5, 5, 5, 5, 5], 6, (50.0, False)),
        ([0, 1, 2, 3, 4], 1, (50.0, False)),
        ([0, float("nan"), 2, 3, 6], 1, (50.0, True)),
        ([0, 6, float("nan"), 7, 6], 2, (40.0, True)),
    ],
)
def test_the_first_evaluation_at_the_threshold_counts(
    values: list[float], stays: int, expected: tuple[float, bool]
) -> None:
    """The first of the consecutive evaluations gives the time; else the run is censored."""
    assert expected == time_to_threshold((STEPS, values), 5.0, stays=stays)


@pytest.mark.parametrize(
    ("curve", "threshold", "stays", "message"),
    [
        (([], []), 1.0, 1, "leave it out, and report it"),
        (([1], [1.0]), 1.0, 0, "stays at least 1"),
        (([1], [1.0]), float("nan"), 1, "a finite number"),
        (([2, 1], [1.0, 1.0]), 1.0, 1, "sort its evaluations"),
    ],
)
def test_invalid_arguments_are_refused(
    curve: Any, threshold: float, stays: int, message: str
) -> None:
    """Empty or unsorted curves, and invalid thresholds, are refused with the mistake."""
    with pytest.raises(ValueError, match=message):
        time_to_threshold(curve, threshold, stays=stays)


def test_the_log_rank_test_is_that_of_statsmodels() -> None:
    """χ² and p equal those of statsmodels, with ties and censored runs."""
    result = log_rank((CASE["time_a"], CASE["time_b"]), (CASE["event_a"], CASE["event_b"]))
    assert CASE["logrank"] == pytest.approx([result.statistic, result.p_value], rel=1e-12)
    assert 14 == result.n


@given(runs, runs)
def test_either_label_may_come_first(a: Any, b: Any) -> None:
    """Swapping the labels, and reordering their runs, changes no result."""
    (s, d), (t, e) = zip(*a, strict=True), zip(*b, strict=True)
    forward, swapped = log_rank((s, t), (d, e)), log_rank((t[::-1], s[::-1]), (e[::-1], d[::-1]))
    assert forward.reason == swapped.reason
    if forward.reason is None:
        assert forward.statistic == pytest.approx(swapped.statistic, abs=1e-9)


@pytest.mark.parametrize(
    ("times", "observed", "reason"),
    [
        (([9, 9], [9]), ([False, False], [False]), "no run reached the threshold"),
        (([9, 9], [9]), ([True, True], [True]), "no time at which runs differ"),
    ],
)
def test_without_events_that_differ_there_is_no_test(
    times: Any, observed: Any, reason: str
) -> None:
    """Without differing events there is a reason instead of a test."""
    result = log_rank(times, observed)
    assert (None, None, 3, reason) == (result.statistic, result.p_value, result.n, result.reason)


def test_the_log_rank_test_keeps_its_level() -> None:
    """Of 1,500 pairs of equal labels of ten runs, 5 ± 2 % are found different."""
    generator = np.random.default_rng(1)
    times = generator.exponential(size=(1_500, 2, 10))
    results = [log_rank((a, b), (a < 1.5, b < 1.5)) for a, b in np.minimum(times, 1.5)]
    rejection_rate = np.mean(
        [result.p_value is not None and result.p_value < 0.05 for result in results]
    )
    assert 0.03 < rejection_rate < 0.07


@pytest.mark.parametrize("case", GOLDEN["proportion_ci"], ids=lambda c: f"{c['k']} of {c['n']}")
def test_wilsons_interval_is_that_of_statsmodels(case: dict[str, Any]) -> None:
    """Wilson's interval agrees with statsmodels, and the estimate is the fraction of all runs."""
    interval = wilson(case["k"], case["n"])
    assert case["wilson"] == pytest.approx([interval.low, interval.high], rel=1e-12, abs=1e-15)
    assert (case["k"] / case["n"], case["n"]) == (interval.estimate, interval.n)


@pytest.mark.parametrize(("successes", "n"), [(1, 0), (-1, 3), (4, 3), (0, 0)])
def test_impossible_fractions_are_refused(successes: int, n: int) -> None:
    """No runs, fewer than 0 successes, and more successes than runs are refused."""
    with pytest.raises(ValueError, match="count all runs"):
        wilson(successes, n)
