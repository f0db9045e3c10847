"""The coverage of intervals equals the stored simulations and the simulations made here."""

import json
from collections.abc import Mapping
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from in_full import IN_FULL
from scipy.special import ndtr

from rlexp.stats import coverage
from rlexp.stats.aggregate import (
    CENTRE_BY_CUT,
    CENTRES,
    Aggregate,
    Centre,
    Statistic,
    interquartile_mean,
)
from rlexp.stats.bootstrap import METHODS, intervals
from rlexp.stats.coverage import TABLE, expected_coverage
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

GOLDEN = Path(__file__).parents[1] / "golden"
SAMPLES = 1500 if IN_FULL else 500
FEW = Resampling(repetitions=250)


def golden(name: str) -> Any:
    """Stored simulations, as lists that begin with the coverage."""
    return json.loads((GOLDEN / f"coverage_{name}.json").read_text())


@pytest.mark.parametrize(("method", "statistic"), TABLE)
def test_the_table_is_the_worst_of_the_simulated_sources(method: str, statistic: str) -> None:
    """Each cell is the least coverage of the sources that made the table, as simulated."""
    short = {"interquartile mean": "iqm", "mean": "mean"}[statistic]
    for tasks, row in TABLE[method, statistic].items():
        for n, tabulated_coverage in row.items():
            shares = [
                cells[f"{tasks} × {n}"][f"{short} {method}"]
                for cells in golden("pools")["table"].values()
            ]
            assert min(shares) == pytest.approx(tabulated_coverage, abs=5.1e-4)


def test_the_table_holds_for_sources_that_did_not_make_it() -> None:
    """On pools kept aside, intervals cover no more than three points less than printed."""
    for source, cells in golden("pools")["check"].items():
        for cell, shares in cells.items():
            tasks, n = (int(word) for word in cell.split(" × "))
            printed = expected_coverage("t", "interquartile mean", n, tasks)
            assert printed is not None
            assert printed - shares["iqm t"] <= 0.03, (source, cell)


def test_the_exact_cut_covers_on_real_runs_kept_aside() -> None:
    """On IQN's runs on Atari, which made no table, 3 tasks × 5 runs cover as printed.

    With rliable's cut of whole runs, the same intervals hold the value in less than 75 % of samples.
    """
    scores = np.load(GOLDEN / "dopamine_late_runs.npz")["IQN"].astype(np.float64)
    generator = np.random.default_rng(0)
    statistics: dict[str, Statistic] = {c: Aggregate(k) for c, k in CENTRE_BY_CUT.items()}
    hits: dict[str, list[bool]] = {cut: [] for cut in statistics}
    for seed in range(SAMPLES):
        pools = scores[:, generator.permutation(scores.shape[1])[:3]].swapaxes(0, 1).reshape(3, -1)
        # All pools are of one size, so that the population's value is that of all their runs.
        truth = interquartile_mean(TaskScores(pools.ravel(), (pools.shape[1],) * 3))
        sample = TaskScores.from_tasks([generator.choice(pool, 5) for pool in pools])
        resampling = Resampling(seed=seed, repetitions=FEW.repetitions)
        for cut, interval in intervals(sample, statistics, resampling).items():
            if interval.low is not None and interval.high is not None:
                hits[cut].append(bool(interval.low <= truth <= interval.high))
    printed = expected_coverage("t", "interquartile mean", 5, 3)
    assert printed is not None
    assert printed - 0.03 - error(printed) <= np.mean(hits["exact"])
    assert np.mean(hits["rliable"]) < 0.75


def test_every_method_is_in_the_table() -> None:
    """The table has IQM and mean by every method, at five numbers of runs and of tasks."""
    assert {(m, s) for m in METHODS for s in ("interquartile mean", "mean")} == TABLE.keys()
    for table in TABLE.values():
        assert [1, 3, 5, 8, 26] == list(table)
        assert all([3, 4, 5, 10, 20] == list(row) for row in table.values())


def test_the_cut_of_whole_runs_has_no_coverage() -> None:
    """The table is of the exact cut, so an interval with rliable's cut has none."""
    assert None is expected_coverage("t", "interquartile mean of whole runs", 5, 3)


@pytest.mark.parametrize(
    ("n", "tasks", "expected"),
    [
        (3, 1, 0.846),
        (20, 1, 0.897),
        (4, 8, 0.924),
        # from 1/5 to 1/10, 1/8 is three quarters of the way
        (8, 3, 0.890 + 0.75 * (0.912 - 0.890)),
        (5, 2, 0.858 + log(2) / log(3) * (0.890 - 0.858)),
    ],
)
def test_between_simulated_sizes_coverage_is_interpolated(
    n: int, tasks: int, expected: float
) -> None:
    """Coverage is interpolated linearly in 1/n and in the logarithm of the number of tasks."""
    assert expected == pytest.approx(expected_coverage("t", "mean", n, tasks), rel=1e-12)


@pytest.mark.parametrize("coverages", [{1: None, 3: 0.9}, {1: 0.9, 3: None}, {1: None, 3: None}])
def test_without_both_neighbours_there_is_no_coverage(coverages: dict[int, float | None]) -> None:
    """A size between a simulated size and one that was not simulated has no coverage."""
    assert None is coverage._between(2, coverages, log, coverages.__getitem__)


@pytest.mark.parametrize(
    ("method", "statistic", "n", "tasks"),
    [
        ("t", "mean", 2, 1),
        ("t", "mean", 21, 1),
        ("t", "mean", 21, 26),
        ("t", "mean", 5, 27),
        ("t", "median", 5, 1),
        ("t", "median", 5, 8),
        ("t", "optimality gap", 5, 8),
        ("exact", "mean", 5, 8),
    ],
)
def test_outside_of_the_simulations_nothing_is_told(
    method: str, statistic: str, n: int, tasks: int
) -> None:
    """Sizes, statistics and methods that were not simulated have no coverage."""
    assert None is expected_coverage(method, statistic, n, tasks)


def test_the_median_of_two_tasks_has_the_coverage_of_the_mean() -> None:
    """With two tasks the median is the mean, and has its coverage."""
    expected = expected_coverage("basic", "mean", 5, 2)
    assert expected is not None
    assert expected == expected_coverage("basic", "median", 5, 2)


def simulated_coverage(
    method: str,
    statistics: Mapping[str, Statistic],
    sizes: tuple[int, ...],
    truth: float,
) -> dict[str, float]:
    """Share of the intervals of normal samples that contain the truth, for each statistic.

    The means of the tasks lie a standard deviation apart. Their distribution is symmetric, so that
    all centres agree.
    """
    generator = np.random.default_rng(0)
    hits = dict.fromkeys(statistics, 0)
    for seed in range(SAMPLES):
        scores = TaskScores.from_tasks([k + generator.normal(size=n) for k, n in enumerate(sizes)])
        resampling = Resampling(seed=seed, repetitions=FEW.repetitions)
        for name, interval in intervals(scores, statistics, resampling, method=method).items():
            assert interval.low is not None
            assert interval.high is not None
            hits[name] += interval.low <= truth <= interval.high
    return {name: count / SAMPLES for name, count in hits.items()}


def error(share: float) -> float:
    """Three standard errors of a share of the samples."""
    return 3 * float(np.sqrt(share * (1 - share) / SAMPLES))


@pytest.mark.parametrize("n", [3, 5, 10, 20])
def test_the_t_interval_of_one_task_covers(n: int) -> None:
    """The t interval of normal scores covers as often as stated, or more often."""
    centres: tuple[Centre, ...] = ("interquartile mean", "mean")
    shares = simulated_coverage("t", {centre: CENTRES[centre] for centre in centres}, (n,), 0.0)
    for centre in centres:
        stated_coverage = expected_coverage("t", centre, n, 1) or expected_coverage(
            "t", "mean", n, 1
        )
        assert stated_coverage is not None
        assert stated_coverage - error(stated_coverage) <= shares[centre], centre


@pytest.mark.parametrize("n", [3, 5, 10, 20])
def test_the_percentile_interval_of_one_task_falls_short(n: int) -> None:
    """Percentile intervals of normal scores cover as in the golden simulation, below 95 %."""
    expected = golden("single")[f"normal|{n}"]["percentile"][0]
    share = simulated_coverage("percentile", {"mean": CENTRES["mean"]}, (n,), 0.0)["mean"]
    assert expected == pytest.approx(share, abs=error(expected))
    assert share < 0.95


@pytest.mark.parametrize(
    "sizes", [(3,) * 3, (5,) * 3, (10,) * 3, (3,) * 8, (2, 6, 4), (3, 10, 5, 2, 8, 4, 3, 6)]
)
def test_the_t_interval_of_several_tasks_covers(sizes: tuple[int, ...]) -> None:
    """The t interval covers tasks that lie a standard deviation apart, with unequal runs too."""
    shares = simulated_coverage("t", dict(CENTRES.items()), sizes, (len(sizes) - 1) / 2)
    assert set(CENTRES) == set(shares)
    assert 0.94 - error(0.94) <= min(shares.values()), shares


@pytest.mark.parametrize("sizes", [(5,) * 3, (3,) * 8, (3, 10, 5, 2, 8, 4, 3, 6)])
def test_the_t_interval_of_an_optimality_gap_covers(sizes: tuple[int, ...]) -> None:
    """The t interval covers the gap of normal scores with means 0, 1, 2 …."""
    gamma = 1.5
    # The gap of a task is E max(γ - x, 0).
    below = gamma - np.arange(len(sizes))
    truth = float(np.mean(below * ndtr(below) + np.exp(-(below**2) / 2) / np.sqrt(2 * np.pi)))
    shares = simulated_coverage("t", {"gap": Aggregate("mean", cap=gamma)}, sizes, truth)
    assert 0.93 - error(0.93) <= shares["gap"]
