"""Performance profiles: golden bands, bands by enumeration, and what they do with bad data."""

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
    """How pytest calls a golden case."""
    return str(case["id"])


def scores_of(case: dict[str, Any]) -> TaskScores:
    """The scores of a golden case, which are of shape (runs, tasks) there."""
    return TaskScores.from_tasks(list(np.asarray(case["scores"], np.float64).T))


def ends(found: Profile) -> tuple[Array, Array]:
    """Both ends of a band that there is."""
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


def enumerated(runs: list[list[float]], threshold: float, tail: float) -> list[float]:
    """Ends of the band of a few runs, from all resamples that there are."""
    sums = np.zeros(1)
    for task in runs:
        drawn = np.asarray(list(product(task, repeat=len(task))))
        sums = np.add.outer(sums, (drawn > threshold).mean(axis=1)).ravel()
    ordered = np.sort(sums / len(runs))
    places = [int(np.ceil(q * len(ordered) - 1e-9)) - 1 for q in (tail, 1 - tail)]
    return [float(ordered[place]) for place in places]


@pytest.mark.parametrize("case", SPREAD, ids=name)
def test_the_band_is_that_of_infinitely_many_resamples(case: dict[str, Any]) -> None:
    """The band equals the golden limit of infinitely many resamples."""
    found = performance_profile(scores_of(case), case["tau"])
    assert case["score_ci_exact_Binf"] == pytest.approx(np.asarray(ends(found)), rel=1e-12)


@pytest.mark.parametrize("case", SPREAD, ids=name)
def test_a_sampled_band_differs_by_a_run_at_most(case: dict[str, Any]) -> None:
    """The band differs from rliable's, of 2,000 resamples, by at most one run."""
    found = performance_profile(scores_of(case), case["tau"])
    difference = np.abs(np.asarray(case["score_ci_reps2000"]) - ends(found))
    assert difference.max() <= 1 / found.n + 1e-12


@pytest.mark.parametrize("threshold", [-1.0, 0.0, 0.7, 1.0, 1.2, 2.5, 3.5, 9.0])
def test_tasks_with_different_runs_weigh_the_same(threshold: float) -> None:
    """The band is that of all resamples of 3, 2 and 4 runs."""
    found = performance_profile(TaskScores.from_tasks(RAGGED), [threshold], level=0.8)
    assert enumerated(RAGGED, threshold, 0.1) == pytest.approx(np.ravel(ends(found)))
    assert "exact percentile stratified bootstrap" == found.method


def test_a_fraction_is_the_mean_of_the_tasks_fractions() -> None:
    """Above 1: a third, a half and a half, whatever the numbers of runs."""
    found = performance_profile(TaskScores.from_tasks(RAGGED), [1.0])
    assert [(1 / 3 + 1 / 2 + 1 / 2) / 3] == pytest.approx(found.fractions)


def test_above_is_strictly_above() -> None:
    """A score equal to the threshold is not above it."""
    scores = TaskScores.from_tasks([[1.0, 2.0, 3.0, 4.0]])
    assert [1.0, 0.75, 0.5, 0.0] == performance_profile(scores, [0, 1, 2, 4]).fractions.tolist()


@given(tasks(runs=2, most=4), st.randoms(use_true_random=False))
def test_the_order_of_runs_and_tasks_does_not_matter(runs: list[list[float]], random: Any) -> None:
    """Runs and tasks in another order give the same profile to the last bit."""
    shuffled = [random.sample(task, len(task)) for task in random.sample(runs, len(runs))]
    at = np.linspace(-150, 150, 7)
    a, b = (performance_profile(TaskScores.from_tasks(own), at) for own in (runs, shuffled))
    assert a.fractions.tolist() == b.fractions.tolist()
    assert a.reason == b.reason
    if a.reason is None:
        assert [end.tolist() for end in ends(a)] == [end.tolist() for end in ends(b)]


@given(tasks(runs=2, most=5))
def test_a_profile_falls_and_so_does_its_band(runs: list[list[float]]) -> None:
    """Profile and band do not increase, and the fraction is between the ends, within 0 and 1."""
    found = performance_profile(TaskScores.from_tasks(runs), np.linspace(-150, 150, 31))
    assert (np.diff(found.fractions) <= 0).all()
    if found.reason is None:
        low, high = ends(found)
        assert (np.diff([low, high], axis=1) <= 1e-9).all()
        assert ((low <= found.fractions + 1e-9) & (found.fractions <= high + 1e-9)).all()
        assert (low >= 0).all()
        assert (high <= 1).all()


def test_thresholds_keep_their_order() -> None:
    """Each has its own fraction and band, whatever the others are."""
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
    """Each says what it is: the one differs by less than 0.01, the other by less than 0.02."""
    generator = np.random.default_rng(1)
    scores = TaskScores.from_tasks([generator.normal(size=n) for n in sizes])
    at = np.linspace(-1.5, 1.5, 13)
    exact = np.asarray(ends(performance_profile(scores, at)))
    with monkeypatch.context() as coarse:
        lattice = profile.Lattice(sizes, 997, exact=False)
        coarse.setattr(profile, "_lattice", lambda own: lattice)
        rounded = performance_profile(scores, at)
    monkeypatch.setattr(profile, "LATTICE", 2)
    normal = performance_profile(scores, at)
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
    """Where a band cannot be exact at that cost, its method says so."""
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
    """The fractions stand, and the reason is said."""
    found = performance_profile(TaskScores.from_tasks(runs), [0.0, 1.5])
    assert (None, None, "none", reason) == (found.low, found.high, found.method, found.reason)
    assert 1.0 == found.fractions[0]


def test_what_makes_no_profile_is_refused() -> None:
    """NaN is no threshold, and 1 is no level."""
    scores = TaskScores.from_tasks([[1.0, 2.0]])
    with pytest.raises(ValueError, match="a threshold must be a finite number"):
        performance_profile(scores, [np.nan])
    with pytest.raises(ValueError, match="must be between 0 and 1"):
        performance_profile(scores, [1.0], level=1.0)
