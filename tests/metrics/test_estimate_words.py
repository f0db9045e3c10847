"""Numbers, estimates and intervals in words."""

import math
from dataclasses import replace

import pytest
from study_blocks import impossible, interval

from rlexp.metrics.estimate import Estimate, Estimator
from rlexp.metrics.estimate_text import (
    ends,
    footnotes,
    full_text,
    method_text,
    runs_beside,
    sentence,
    with_ends,
)
from rlexp.metrics.iqm import InterquartileMean
from rlexp.metrics.mean import Mean
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores
from rlexp.text import (
    decimals_for_span,
    decimals_for_values,
    format_number,
    format_percentage,
    format_runs_by_task,
    format_score,
)


@pytest.mark.parametrize(
    ("value", "digits", "expected"),
    [
        (0.8449, 2, "0.84"),
        (-12300.5, 1, "−12,300.5"),
        (1234567.0, 0, "1,234,567"),
        (-0.0004, 2, "0.00"),
        (0.0, 1, "0.0"),
        (5.0, -3, "5"),
        (1e12, 0, "1e12"),
        (-1.23456e150, 0, "−1.235e150"),
        (999999999999.0, 0, "999,999,999,999"),
        (10**12, 0, "1,000,000,000,000"),
        (1e-300, 302, "1.00e−300"),
        (0.00001234, 8, "1.234e−5"),
        (-0.00001234, 8, "−1.234e−5"),
        (0.00001234, 6, "0.000012"),
        (0.00001234567, 13, "1.235e−5"),
        (0.5, 11, "0.500000"),
        (1e-300, 11, "0"),
        (0.0, 302, "0"),
        (-0.0, 2, "0.00"),
        (math.nan, 2, "not a number"),
        (math.inf, 2, "∞"),
        (-math.inf, 2, "−∞"),
    ],
)
def test_a_number_is_set_as_in_print(value: float, digits: int, expected: str) -> None:
    """Numbers have a true minus and separated thousands, no negative zero, and words for NaN."""
    assert expected == format_number(value, digits)


@pytest.mark.parametrize(
    ("span", "expected"),
    [(1.3, 2), (0.45, 2), (0.1, 3), (13.0, 1), (300.0, 0), (0.0, 2), (math.nan, 2), (1e-9, 11)],
)
def test_digits_tell_values_apart(span: float, expected: int) -> None:
    """A number has about two significant digits within the span of the values."""
    assert expected == decimals_for_span(span)


@pytest.mark.parametrize(
    ("largest", "expected"), [(500.0, 2), (0.01, 2), (0.0, 2), (0.004, 4), (1e-300, 302)]
)
def test_equal_values_are_not_shown_as_zero(largest: float, expected: int) -> None:
    """Where values have no span, two decimals are shown, or more for tiny values."""
    assert expected == decimals_for_span(0.0, largest)


@pytest.mark.parametrize(
    ("values", "expected"),
    [((), 2), ((475.0, 0.0, -0.3), 2), ((475.0, -0.0012), 5), ((475.0, 1e-300), 302)],
)
def test_no_number_of_a_column_is_shown_as_zero(values: tuple[float, ...], expected: int) -> None:
    """A column of unrelated numbers has two decimals, or more for its smallest number."""
    assert expected == decimals_for_values(values)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (-12300.5, "-12,300.50"),
        (0.25, "0.25"),
        (0.005, "0.01"),
        (0.001, "0.001"),
        (-0.0012345, "-0.001234"),
        (0.00001234, "1.234e-5"),
        (1e-300, "1e-300"),
        (-1e12, "-1e12"),
        (3.14159e150, "3.142e150"),
        (0.0, "0.00"),
        (-0.0, "0.00"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
    ],
)
def test_a_score_is_never_shown_as_zero_or_at_length(value: float, expected: str) -> None:
    """A score has two decimals, or a few significant digits if it is huge or tiny."""
    assert expected == format_score(value)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([1e-300, 2e-300, 4e-300], "2.3e−300"),
        ([5e-5, 5e-5, 5e-5], "0.000050"),
        ([1e150, 1e150, 1e150], "1e150"),
        ([-0.0, -0.0, 0.0], "0.00"),
        ([500.0, 500.0, 500.0], "500.00"),
    ],
)
def test_estimates_of_extreme_scores_can_be_read(scores: list[float], expected: str) -> None:
    """The estimate of tiny or huge scores is written in powers of ten."""
    estimate = Estimator(resampling=Resampling(repetitions=100)).estimate(
        TaskScores.from_tasks([scores]), Mean()
    )
    assert with_ends(estimate, 2).startswith(f"{expected} ")


def test_an_interval_says_how_it_was_made() -> None:
    """An interval names its level, method, repetitions, seed, runs, tasks and coverage."""
    expected = (
        "0.50 [0.40, 0.60]\n"
        "95 % interval, method t, 50,000 repetitions, seed 0\n"
        "10 runs on 3 tasks\n"
        "expected coverage 94 %"
    )
    assert expected == full_text(interval(0.5, 0.1), 2)


def test_an_exact_interval_has_no_seed() -> None:
    """An exact interval names no seed and no repetitions, and one task is not mentioned."""
    exact_interval = replace(interval(0.5, 0.1), method="exact", seed=None, repetitions=0, tasks=1)
    assert "95 % interval, method exact" == method_text(exact_interval)
    assert "\n10 runs\n" in full_text(exact_interval, 2)


def test_a_caveat_of_an_interval_is_told() -> None:
    """A reason is shown even if the interval has ends."""
    assert full_text(replace(interval(0.5, 0.1), reason="few runs"), 2).endswith("\nfew runs")


def test_no_interval_has_a_reason() -> None:
    """A missing interval is shown by its reason, and never as an interval of width 0."""
    reason = "one run has no spread; a second seed would give an interval"
    assert f"no interval: {reason}" == ends(impossible(3.0), 1)
    assert f"3.0 (no interval: {reason})\n1 run" == full_text(impossible(3.0), 1)
    assert "no interval" == ends(replace(impossible(3.0), reason=None), 1)


def test_a_table_says_once_what_its_intervals_share() -> None:
    """Footnotes name each method once, and the coverage of the marked intervals."""
    method_note = "95 % interval, method t, 50,000 repetitions, seed 0."
    coverage_90, coverage_88, coverage_72 = (
        interval(0.5, 0.1, coverage=c) for c in (0.9, 0.88, 0.72)
    )
    assert (method_note,) == footnotes([coverage_90, coverage_90, impossible(1.0)])
    assert (method_note, "† Too narrow: its expected coverage is 88 %.") == footnotes(
        [coverage_88, coverage_90]
    )
    assert "† Too narrow: its expected coverage is 72 % to 88 %." in footnotes(
        [coverage_88, coverage_72]
    )
    assert () == footnotes([])


def test_shares_have_no_needless_digits() -> None:
    """A percentage has three significant digits at most."""
    assert ["95 %", "99.9 %", "87.5 %"] == [format_percentage(s) for s in (0.95, 0.999, 0.875)]


def estimate(*tasks: list[float]) -> Estimate:
    """The IQM of runs within [0, 500]."""
    scores = TaskScores.from_tasks(tasks)
    return Estimator().estimate(scores, InterquartileMean(), (0.0, 500.0))


def test_few_runs_stand_beside_the_number_that_they_make() -> None:
    """Up to five runs are listed in ascending order; more runs are only counted."""
    three_runs = estimate([420.0, 110.0, 500.0])
    # 3/4 of a run are cut at each end: (110 + 4 · 420 + 500) / 6.
    assert "382 [0, 500] (n = 3: 110, 420, 500)" == with_ends(three_runs, 9)
    six_runs = estimate([420.0, 110.0, 500.0, 300.0, 310.0, 320.0])
    assert "n = 6" == runs_beside(six_runs)
    assert "(" not in with_ends(six_runs, 9)


def test_two_runs_have_no_interval() -> None:
    """Two runs are shown with the reason why there is no interval."""
    text = "265 (n = 2: 110, 420; too few runs for an interval)"
    assert f"IQM {text}" == sentence("IQM", estimate([420.0, 110.0]))
    assert text == with_ends(estimate([420.0, 110.0]), 9)


def test_a_sentence_says_how_an_estimate_was_made() -> None:
    """A sentence has the title, interval, runs, method and expected coverage on one line."""
    assert (
        "IQM 382 [0, 500] (n = 3: 110, 420, 500), 95 % interval, method t with bootstrap standard "
        "error, 50,000 repetitions, seed 0, expected coverage 93.4 %, 343 with rliable's cut of "
        "whole runs, three runs show little of their spread"
    ) == sentence("IQM", estimate([420.0, 110.0, 500.0]))


def test_an_interval_of_three_runs_has_a_warning() -> None:
    """Three runs of one task have the warning in every form; four runs have none."""
    three, four = estimate([420.0, 110.0, 500.0]), estimate([1.0, 2.0, 3.0, 9.0])
    for text in (sentence("IQM", three), full_text(three, 0), " ".join(footnotes([three, four]))):
        assert "three runs show little of their spread" in text
    for text in (sentence("IQM", four), full_text(four, 0), " ".join(footnotes([four]))):
        assert "three runs" not in text


def test_a_table_says_what_rliable_gives() -> None:
    """A footnote pairs the values with rliable's, where they differ; with four runs none does."""
    differing = estimate([420.0, 110.0, 500.0])
    assert "\n343 with rliable's cut of whole runs\n" in full_text(differing, 0)
    notes = footnotes([differing, estimate([10.0, 20.0, 400.0]), estimate([420.0, 110.0])])
    # rliable cuts none of three runs: their mean is 1,030 / 3 and 430 / 3.
    assert (
        "rliable, which cuts whole runs, gives 343 for 382 and 143 for 82 (--set iqm=rliable)."
        in notes
    )
    assert not any("rliable" in note for note in footnotes([estimate([1.0, 2.0, 3.0, 9.0])]))


def test_equal_runs_have_no_interval_either() -> None:
    """Equal runs have a reason instead of an interval, followed by the number of runs."""
    text = "IQM 500.00 (no interval: all runs are equal) (n = 6)"
    assert text == sentence("IQM", estimate([500.0] * 6))


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ((3,), "3"),
        ((3, 3), "3 on each of 2 tasks"),
        ((3, 2), "3 + 2"),
        ((5, 2, *[3] * 24), "2 to 5 on 26 tasks"),
    ],
)
def test_runs_are_counted_by_task(sizes: tuple[int, ...], text: str) -> None:
    """The text names the number of runs of every task, or their range."""
    assert text == format_runs_by_task(sizes)


def test_runs_of_several_tasks_stand_apart() -> None:
    """A semicolon separates the runs of different tasks."""
    assert "n = 2 + 3: 0.10, 0.40; 0.20, 0.30, 0.90" == runs_beside(
        estimate([0.4, 0.1], [0.3, 0.2, 0.9])
    )
