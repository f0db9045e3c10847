"""Performance profiles: golden bands, enumerated bands and refused data."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from aggregate_cases import GOLDEN, tasks
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlexp.stats import profile
from rlexp.stats.profile import Profile, performance_profile
from rlexp.stats.task_scores import TaskScores

Array = NDArray[np.float64]

CASES: list[dict[str, Any]] = GOLDEN["profiles"]
SPREAD = [case for case in CASES if case["id"] != "prof_const"]
RAGGED = [[0.0, 1.0, 2.0], [0.5, 1.5], [1.0, 1.0, 3.0, 4.0]]


def name(case: dict[str, Any]) -> str:
    """Name of a golden case in the output of pytest."""
    return str(case["id"])


def scores_of(case: dict[str, Any]) -> TaskScores:
    """Scores of a golden case, whose table has the shape (runs, tasks)."""
    return TaskScores.from_tasks(list(np.asarray(case["scores"], np.float64).T))


def ends(result: Profile) -> tuple[Array, Array]:
    """Both ends of a band, which must exist."""
    assert result.low is not None
    assert result.high is not None
    return result.low, result.high


def enumerated_band(runs: list[list[float]], threshold: float, tail: float) -> list[float]:
    """Ends of the band of a few runs, from all their resamples."""
    sums = np.zeros(1)
    for task in runs:
        resamples = np.asarray(list(product(task, repeat=len(task))))
        sums = np.add.outer(sums, (resamples > threshold).mean(axis=1)).ravel()
    ordered = np.sort(sums / len(runs))
    places = [int(np.ceil(q * len(ordered) - 1e-9)) - 1 for q in (tail, 1 - tail)]
    return [float(ordered[place]) for place in places]


@pytest.mark.parametrize("case", SPREAD, ids=name)
def test_the_band_is_that_of_infinitely_many_resamples(case: dict[str, Any]) -> None:
    """The band equals the golden limit of infinitely many resamples."""
    result = performance_profile(scores_of(case), case["tau"])
    assert case["score_ci_exact_Binf"] == pytest.approx(np.asarray(ends(result)), rel=1e-12)


@pytest.mark.parametrize("case", SPREAD, ids=name)
def test_a_sampled_band_differs_by_a_run_at_most(case: dict[str, Any]) -> None:
    """The band differs from rliable's, of 2,000 resamples, by at most one run."""
    result = performance_profile(scores_of(case), case["tau"])
    difference = np.abs(np.asarray(case["score_ci_reps2000"]) - ends(result))
    assert difference.max() <= 1 / result.n + 1e-12


@pytest.mark.parametrize("threshold", [-1.0, 0.0, 0.7, 1.0, 1.2, 2.5, 3.5, 9.0])
def test_tasks_with_different_runs_weigh_the_same(threshold: float) -> None:
    """The band is that of all resamples of 3, 2 and 4 runs."""
    result = performance_profile(TaskScores.from_tasks(RAGGED), [threshold], level=0.8)
    assert enumerated_band(RAGGED, threshold, 0.1) == pytest.approx(np.ravel(ends(result)))
    assert "exact percentile stratified bootstrap" == result.method


def test_a_fraction_is_the_mean_of_the_tasks_fractions() -> None:
    """By hand: a third, a half and a half of the runs of each task lie above 1."""
    result = performance_profile(TaskScores.from_tasks(RAGGED), [1.0])
    assert [(1 / 3 + 1 / 2 + 1 / 2) / 3] == pytest.approx(result.fractions)


def test_above_is_strictly_above() -> None:
    """A score equal to the threshold is not above it."""
    scores = TaskScores.from_tasks([[1.0, 2.0, 3.0, 4.0]])
    assert [1.0, 0.75, 0.5, 0.0] == performance_profile(scores, [0, 1, 2, 4]).fractions.tolist()


@given(tasks(min_runs=2, max_runs=4), st.randoms(use_true_random=False))
def test_the_order_of_runs_and_tasks_does_not_matter(runs: list[list[float]], random: Any) -> None:
    """Runs and tasks in another order give the same profile to the last bit."""
    shuffled = [random.sample(task, len(task)) for task in random.sample(runs, len(runs))]
    thresholds = np.linspace(-150, 150, 7)
    a, b = (
        performance_profile(TaskScores.from_tasks(table), thresholds) for table in (runs, shuffled)
    )
    assert a.fractions.tolist() == b.fractions.tolist()
    assert a.reason == b.reason
    if a.reason is None:
        assert [end.tolist() for end in ends(a)] == [end.tolist() for end in ends(b)]


@given(tasks(min_runs=2, max_runs=5))
def test_a_profile_falls_and_so_does_its_band(runs: list[list[float]]) -> None:
    """Profile and band do not increase, and the fraction is between the ends, within 0 and 1."""
    result = performance_profile(TaskScores.from_tasks(runs), np.linspace(-150, 150, 31))
    assert (np.diff(result.fractions) <= 0).all()
    if result.reason is None:
        low, high = ends(result)
        assert (np.diff([low, high], axis=1) <= 1e-9).all()
        assert ((low <= result.fractions + 1e-9) & (result.fractions <= high + 1e-9)).all()
        assert (low >= 0).all()
        assert (high <= 1).all()


def test_thresholds_keep_their_order() -> None:
    """Each threshold has its own fraction and band, in any order of thresholds."""
    scores = TaskScores.from_tasks([[1.0, 2.0, 3.0, 4.0, 5.0]])
    rising = performance_profile(scores, [0.5, 1.5, 3.5])
    mixed = performance_profile(scores, [3.5, 0.5, 1.5])
    order = [2, 0, 1]
    assert rising.fractions[order].tolist() == mixed.fractions.tolist()
    assert rising.low is not None
    assert rising.low[order].tolist() == ends(mixed)[0].tolist()


@pytest.mark.parametrize("sizes", [(4, 5, 6) * 4, (9,) * 20])
def test_rounded_weights_and_the_normal_law_come_near(
    sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bands by rounded weights err by less than 0.01, by the normal law by less than 0.02."""
    generator = np.random.default_rng(1)
    scores = TaskScores.from_tasks([generator.normal(size=n) for n in sizes])
    thresholds = np.linspace(-1.5, 1.5, 13)
    exact = np.asarray(ends(performance_profile(scores, thresholds)))
    with monkeypatch.context() as patch:
        lattice = profile.Lattice(sizes, 997, exact=False)
        patch.setattr(profile, "_lattice", lambda _sizes: lattice)
        rounded = performance_profile(scores, thresholds)
    monkeypatch.setattr(profile, "LATTICE", 2)
    normal = performance_profile(scores, thresholds)
    assert "weights rounded by less than 1 %" in rounded.method
    assert "normal approximation" in normal.method
    assert 0.01 > np.abs(ends(rounded) - exact).max()
    assert 0.02 > np.abs(ends(normal) - exact).max()


@pytest.mark.parametrize(
    ("sizes", "method"),
    [
        ((10,) * 26, "exact"),
        ((100,) * 26, "exact"),
        ((7, 8, 9, 10) * 6, "exact"),
        ((5, 7, 8, 9, 11, 13) * 4, "rounded"),
        ((17, 19, 23, 29) * 20, "normal"),
        ((5000,) * 26, "normal"),
    ],
)
def test_the_cost_is_bounded(sizes: tuple[int, ...], method: str) -> None:
    """A band that is too costly to compute exactly names its approximation."""
    generator = np.random.default_rng(2)
    scores = TaskScores.from_tasks([generator.normal(size=n) for n in sizes])
    assert method in performance_profile(scores, [0.0, 0.3]).method


@pytest.mark.parametrize(
    ("runs", "reason"),
    [
        ([[1.0]], "one run alone shows no spread"),
        ([[1.0], [2.0]], "one run of each task shows no spread"),
        ([[1.0, 1.0], [2.0, 2.0, 2.0]], "all runs of each task are equal"),
    ],
)
def test_without_spread_there_is_no_band(runs: list[list[float]], reason: str) -> None:
    """Runs without spread have fractions and a reason, but no band."""
    result = performance_profile(TaskScores.from_tasks(runs), [0.0, 1.5])
    assert (None, None, "none", reason) == (result.low, result.high, result.method, result.reason)
    assert 1.0 == result.fractions[0]


def test_what_makes_no_profile_is_refused() -> None:
    """A threshold of NaN and a level of 1 are refused."""
    scores = TaskScores.from_tasks([[1.0, 2.0]])
    with pytest.raises(ValueError, match="a threshold must be a finite number"):
        performance_profile(scores, [np.nan])
    with pytest.raises(ValueError, match="must be between 0 and 1"):
        performance_profile(scores, [1.0], level=1.0)
