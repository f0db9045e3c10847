"""Hypervolumes, subsets of fronts, reference points and even weights."""

from math import fsum, inf, isclose, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna._hypervolume import compute_hypervolume

from rlexp.stats import pareto
from rlexp.stats.pareto import (
    MOST_WEIGHTS,
    by_front,
    default_reference,
    even_weights,
    front_of,
    hypervolume,
    spread_out,
)

points_of_some_objectives = st.integers(1, 4).flatmap(
    lambda k: st.lists(
        st.lists(st.integers(-3, 5).map(float), min_size=k, max_size=k), min_size=1, max_size=12
    )
)


def test_the_hypervolume_of_a_staircase_is_its_area() -> None:
    """Three steps above the origin: 1 × 3 + 1 × 2 + 2 × 1; a dominated point and one outside add nothing."""
    steps = [(1.0, 3.0), (2.0, 2.0), (4.0, 1.0)]
    assert 7.0 == hypervolume(steps, (0.0, 0.0))
    assert 7.0 == hypervolume([*steps, (1.0, 1.0), (9.0, 0.0), (-1.0, 9.0)], (0.0, 0.0))
    assert 0.0 == hypervolume([], (0.0, 0.0))


@given(points_of_some_objectives)
def test_the_hypervolume_is_that_of_optuna(points: list[list[float]]) -> None:
    """It equals Optuna's, which minimises, for one to four objectives, and in any order of the points."""
    reference = [-1.0] * len(points[0])
    above = np.array([p for p in points if all(v > -1 for v in p)]).reshape(-1, len(reference))
    expected = compute_hypervolume(-above, -np.array(reference)) if len(above) else 0.0
    assert isclose(expected, hypervolume(points, reference), rel_tol=1e-9)
    assert hypervolume(points[::-1], reference) == hypervolume(points, reference)


def _sliced(corners: list[tuple[float, ...]]) -> float:
    """The volume above 0 by slices down to one objective, with a front for each slice."""
    front = [corners[position] for position in front_of(corners)]
    if len(front[0]) == 1 or len(front) == 1:
        return prod(front[0])
    front.sort(key=lambda corner: -corner[-1])
    heights = [*(corner[-1] for corner in front[1:]), 0.0]
    total = 0.0
    for count, (corner, below) in enumerate(zip(front, heights, strict=True), start=1):
        if corner[-1] > below:
            total += (corner[-1] - below) * _sliced([c[:-1] for c in front[:count]])
    return total


@pytest.mark.parametrize("objectives", [2, 3, 4])
def test_areas_without_fronts_change_no_bit_of_a_hypervolume(objectives: int) -> None:
    """The hypervolume equals that of slices down to one objective exactly, also with equal coordinates."""
    generator = np.random.default_rng(3)
    for digits in (1, 12):
        points = generator.dirichlet(np.ones(objectives), 15).round(digits)
        corners = [tuple(point) for point in points.tolist() if min(point) > 0]
        assert _sliced(corners) == hypervolume(corners, [0.0] * objectives)


def test_immense_points_have_an_infinite_area() -> None:
    """Differences that overflow give an infinite area, which is a number that callers can refuse."""
    immense = [(1e308, 1.5e308), (1.5e308, 1e308), (1e307, 1.6e308)]
    assert inf == hypervolume(immense, (-1e308, -1e308))
    assert inf == hypervolume([(3.0, 1e308), (1e308, 1e308)], (0.0, -1e308))


def test_the_hypervolume_of_many_points_needs_no_fronts_of_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With two or three objectives, one front is computed for a hypervolume, and none for its slices."""
    fronts: list[int] = []

    def counted(values: list[tuple[float, ...]]) -> list[int]:
        fronts.append(len(values))
        return front_of(values)

    monkeypatch.setattr(pareto, "front_of", counted)
    for objectives in (2, 3):
        points = np.random.default_rng(5).dirichlet(np.ones(objectives), 60)
        hypervolume(points.tolist(), [0.0] * objectives)
    assert [60, 60] == fronts


@given(points_of_some_objectives)
def test_the_front_holds_each_value_that_nothing_dominates_once(points: list[list[float]]) -> None:
    """No point of the front dominates another, and every point is equal to or below one of them."""
    front = [points[position] for position in front_of(points)]
    assert len(front) == len(set(map(tuple, front)))
    for point in points:
        assert any(all(f >= p for f, p in zip(each, point, strict=True)) for each in front)
    assert not [
        a
        for a in front
        for b in front
        if a != b and all(x <= y for x, y in zip(a, b, strict=True))
    ]


def test_the_crowded_order_begins_with_the_ends_of_the_front() -> None:
    """The first front comes first, its ends before its middle, then the dominated points."""
    points = [(0.5, 0.5), (0.0, 4.0), (2.0, 2.0), (4.0, 0.0), (2.5, 1.9)]
    assert [1, 3] == by_front(points)[:2]
    assert 0 == by_front(points)[-1]
    assert [] == by_front([])


def test_a_subset_of_a_front_keeps_the_volume() -> None:
    """Of four points, the two that dominate the most together stay, in the order given."""
    front = [(1.0, 9.0), (5.0, 6.0), (5.1, 5.8), (9.0, 1.0)]
    assert [1] == spread_out(front, (0.0, 0.0), 1)
    kept = spread_out(front, (0.0, 0.0), 3)
    assert [0, 1, 3] == kept
    assert [0, 1, 2, 3] == spread_out(front, (0.0, 0.0), 9)


def test_the_reference_point_is_a_tenth_of_the_range_below_the_worst_values() -> None:
    """An objective without a range is moved by a tenth of one."""
    assert (-1.0, 4.9) == default_reference([(0.0, 5.0), (10.0, 5.0)])


@pytest.mark.parametrize("objectives", [1, 2, 3, 4, 6])
def test_even_weights_lie_on_the_simplex(objectives: int) -> None:
    """They are distinct, not negative, sum to 1, and hold the ends; there are at most 101."""
    weights = even_weights(objectives)
    assert len(weights) == len(set(weights)) <= MOST_WEIGHTS
    assert all(min(w) >= 0 and isclose(1.0, fsum(w)) for w in weights)
    ends = {tuple(float(k == n) for k in range(objectives)) for n in range(objectives)}
    assert ends <= set(weights)
    assert 101 == len(even_weights(2))
