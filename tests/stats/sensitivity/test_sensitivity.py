"""Hyperparameter sensitivity and effective dimensionality."""

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from rlexp.stats.sensitivity.settings import Sensitivity, percentile_anchors, sensitivity
from rlexp.stats.task_scores import min_max

NAN = float("nan")

Array = NDArray[np.float64]
LEVELS = np.array(list(product(range(3), range(2))))
"""Levels of two parameters with three and two values."""
SCORES = np.array(
    [
        [1.0, 4.0, 2.0],
        [8.0, 0.0, 3.0],
        [5.0, 6.0, 6.0],
        [4.0, 10.0, 4.0],
        [0.0, 3.0, 9.0],
        [2.0, 1.0, 7.0],
    ]
)
"""By hand: P = (8 + 10 + 9) / 3 = 9, C = (4 + 10 + 4) / 3 = 6 at the fourth setting (1, 1)."""


def numbers(result: Sensitivity) -> tuple[float, float, float]:
    """The tuned score P, the cross-tuned score C and the sensitivity Φ."""
    return result.tuned, result.cross_tuned, result.sensitivity


def test_scores_by_hand() -> None:
    """P, C and Φ are the values by hand that stand at `SCORES`."""
    result = sensitivity(SCORES, LEVELS)
    assert (9.0, 6.0, 3.0) == numbers(result)
    assert 3 == result.best
    assert (1, 3, 4) == result.best_by_task
    assert (8.0, 10.0, 9.0) == result.best_scores


def test_retuned_scores_by_hand() -> None:
    """By hand: retuning the first parameter alone reaches (8 + 10 + 7) / 3, the second alone 7."""
    result = sensitivity(SCORES, LEVELS)
    assert (6.0, 25 / 3, 9.0) == pytest.approx(result.retuned)
    assert ((), (0,), (0, 1)) == result.subsets
    assert 2 == result.dimensionality
    assert 1 == sensitivity(SCORES, LEVELS, 0.9).dimensionality
    assert 0 == sensitivity(SCORES, LEVELS, 0.6).dimensionality


def test_a_share_that_is_just_reached_is_reached() -> None:
    """A score that equals the share of P counts: 6 is two thirds of 9."""
    assert 0 == sensitivity(SCORES, LEVELS, 6 / 9).dimensionality


def test_a_setting_that_did_not_run_everywhere_counts_where_it_ran() -> None:
    """A setting that lacks a task counts for P, but not for C or for retuned scores."""
    scores = SCORES.copy()
    scores[1] = [80.0, NAN, 3.0]
    result = sensitivity(scores, LEVELS)
    assert (33.0, 6.0, 27.0) == numbers(result)
    assert (6.0, 7.0, 33.0) == pytest.approx(result.retuned)


def test_one_setting_that_is_best_everywhere_has_no_sensitivity() -> None:
    """If one setting is best on all tasks, sensitivity and dimensionality are 0."""
    scores = np.zeros((6, 3))
    scores[2] = 1.0
    result = sensitivity(scores, LEVELS)
    assert (1.0, 1.0, 0.0) == numbers(result)
    assert 0 == result.dimensionality


def test_equal_settings_are_told_apart_by_their_levels() -> None:
    """Of equal settings the one of the lowest levels is best, in any order of the rows."""
    scores = np.ones((6, 2))
    assert 0 == sensitivity(scores, LEVELS).best
    assert (5, 5) == sensitivity(scores, LEVELS[::-1]).best_by_task


def test_a_tuned_score_below_0_has_no_dimensionality() -> None:
    """If P is not above 0, there is a reason instead of a dimensionality."""
    result = sensitivity(SCORES - 20, LEVELS)
    assert 3.0 == result.sensitivity
    assert result.dimensionality is None
    assert "the tuned score is not above 0, so a share of it has no meaning" == result.reason


def test_anchors_are_percentiles_over_all_algorithms() -> None:
    """The anchors of 0, 1, …, 20 are 1 and 19; settings without a score do not count."""
    first = np.array([[*range(11)], [*range(0, 110, 10)]], dtype=float).T
    second = np.array([[*range(11, 21), NAN], [*range(110, 210, 10), NAN]], dtype=float).T
    low, high = percentile_anchors([first, second])
    assert (1.0, 10.0) == tuple(low)
    assert (19.0, 190.0) == tuple(high)


@pytest.mark.parametrize(
    ("scores", "levels", "message"),
    [
        (SCORES[:1], LEVELS[:1], "at least two settings and two tasks"),
        (SCORES[:, :1], LEVELS, "at least two settings and two tasks"),
        (SCORES, LEVELS[:5], "levels of each setting"),
        (SCORES[0], LEVELS, "settings × tasks"),
        (SCORES, LEVELS[:, :0], "between 1 and 12 parameters"),
        (SCORES, np.zeros((6, 13)), "between 1 and 12 parameters"),
        (SCORES, LEVELS * [1, 0], "two settings have the same values"),
        (SCORES, LEVELS + NAN, "a level must be a finite number"),
        (SCORES * 1e200, LEVELS, "a number up to 1e150"),
        (np.where(SCORES == 10, np.inf, SCORES), LEVELS, "a number up to 1e150"),
        (np.where(np.eye(6, 3, dtype=bool), 1.0, NAN), LEVELS, "no setting has a score on every"),
    ],
)
def test_invalid_grids_are_refused(scores: Array, levels: Array, message: str) -> None:
    """A message of one line names the mistake."""
    with pytest.raises(ValueError, match=message) as caught:
        sensitivity(scores, levels)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("share", [0.0, 1.1, NAN])
def test_a_share_is_above_0_and_at_most_1(share: float) -> None:
    """A share of 0, above 1, or NaN is refused."""
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        sensitivity(SCORES, LEVELS, share)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([[1.0, 2.0], [1.0, 3.0]], "percentiles 5 and 95 of a task are equal"),
        ([[1.0, NAN], [2.0, NAN]], "a task has no score"),
    ],
)
def test_a_task_without_a_scale_is_refused(scores: list[list[float]], message: str) -> None:
    """A task with equal percentiles, or without a score, is refused."""
    with pytest.raises(ValueError, match=message):
        percentile_anchors([scores])


@st.composite
def grids(draw: st.DrawFn) -> tuple[Array, Array]:
    """Some settings of a lattice with their scores; at least one setting ran on all tasks."""
    sides = draw(st.lists(st.integers(2, 3), min_size=1, max_size=3))
    lattice = list(product(*map(range, sides)))
    chosen = draw(st.lists(st.sampled_from(lattice), min_size=2, max_size=12, unique=True))
    tasks = draw(st.integers(2, 4))
    score = st.one_of(st.integers(-20, 20).map(lambda k: k / 7), st.just(NAN))
    row = st.lists(score, min_size=tasks, max_size=tasks)
    scores = np.array(draw(st.lists(row, min_size=len(chosen), max_size=len(chosen))))
    scores[0] = np.nan_to_num(scores[0])
    return scores, np.array(chosen, dtype=float)


def retuned_score(scores: Array, levels: Array, best: int, subset: tuple[int, ...]) -> float:
    """Score by definition: retune a subset on each task, over settings that ran on all tasks."""
    others = [i for i in range(levels.shape[1]) if i not in subset]
    same = (levels[:, others] == levels[best][others]).all(axis=1)
    chosen = scores[same & np.isfinite(scores).all(axis=1)]
    return float(chosen.max(axis=0).mean())


@given(grids())
def test_retuned_scores_follow_the_definition(grid: tuple[Array, Array]) -> None:
    """Retuned scores are those of the best subset of each size; tuning all parameters is P."""
    scores, levels = grid
    result = sensitivity(scores, levels)
    p = levels.shape[1]
    expected = [
        max(
            retuned_score(scores, levels, result.best, subset)
            for subset in combinations(range(p), k)
        )
        for k in range(p)
    ]
    assert [*expected, np.nanmax(scores, axis=0).mean()] == pytest.approx(result.retuned)
    assert [
        retuned_score(scores, levels, result.best, subset) for subset in result.subsets[:-1]
    ] == (pytest.approx(result.retuned[:-1]))


@given(grids())
def test_nothing_is_gained_by_tuning_less(grid: tuple[Array, Array]) -> None:
    """Φ ≥ 0, and each further parameter gains or changes nothing."""
    result = sensitivity(*grid)
    assert result.sensitivity >= 0
    assert sorted(result.retuned) == pytest.approx(result.retuned)
    assert (result.cross_tuned, result.tuned) == (result.retuned[0], result.retuned[-1])


@given(grids(), st.randoms(use_true_random=False))
def test_the_order_of_settings_and_tasks_changes_nothing(
    grid: tuple[Array, Array], random: Any
) -> None:
    """Settings and tasks in another order give the same numbers to the last bit."""
    scores, levels = grid
    rows = random.sample(range(len(scores)), len(scores))
    columns = random.sample(range(scores.shape[1]), scores.shape[1])
    original, reordered = (
        sensitivity(scores, levels),
        sensitivity(scores[rows][:, columns], levels[rows]),
    )
    assert numbers(original) == numbers(reordered)
    assert (original.retuned, original.subsets) == (reordered.retuned, reordered.subsets)
    assert original.dimensionality == reordered.dimensionality
    assert (original.best, [original.best_by_task[k] for k in columns]) == (
        rows[reordered.best],
        [rows[k] for k in reordered.best_by_task],
    )


@given(
    grids(),
    st.lists(st.floats(0.01, 100), min_size=4, max_size=4),
    st.lists(st.floats(-1000, 1000), min_size=4, max_size=4),
)
def test_units_and_zero_of_a_task_change_nothing_once_normalised(
    grid: tuple[Array, Array], factors: list[float], shifts: list[float]
) -> None:
    """A rising linear map of the scores of each task changes nothing after normalisation."""
    scores, levels = grid
    tasks = scores.shape[1]
    mapped = scores * factors[:tasks] + shifts[:tasks]
    try:
        original = sensitivity(min_max(scores, *percentile_anchors([scores])), levels)
    except ValueError:
        return
    transformed = sensitivity(min_max(mapped, *percentile_anchors([mapped])), levels)
    assert numbers(original) == pytest.approx(numbers(transformed), abs=1e-6)
