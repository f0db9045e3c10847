"""Effect sizes equal golden numbers and values by hand, and follow their laws."""

from itertools import product
from math import gamma, sqrt
from typing import Any

import pytest
from comparison_cases import Label, case_labels, label, name, two_labels, two_sample
from hypothesis import given
from hypothesis import strategies as st

from rlexp.stats.pairs.comparison import (
    EffectSize,
    cliffs_delta,
    effect_size,
    hedges_g,
    vargha_delaney,
)


@pytest.mark.parametrize("case", two_sample(), ids=name)
def test_dominance_is_the_golden_one(case: dict[str, Any]) -> None:
    """Cliff's delta and Vargha and Delaney's A equal golden values for equal and unequal sizes."""
    x, y = case_labels(case)
    assert case["cliffs_delta"] == pytest.approx(cliffs_delta(x, y), abs=1e-12)
    assert case["A12"] == pytest.approx(vargha_delaney(x, y), abs=1e-12)


@pytest.mark.parametrize("case", [c for c in two_sample() if "hedges_g_exact" in c], ids=name)
def test_hedges_g_is_the_golden_one(case: dict[str, Any]) -> None:
    """Hedges' g with the exact correction equals golden values, and is missing where they are."""
    expected = None if case["hedges_g_exact"] == "nan" else case["hedges_g_exact"]
    assert expected == (
        None if expected is None else pytest.approx(hedges_g(*case_labels(case)), rel=1e-12)
    )
    assert (expected is None) == (hedges_g(*case_labels(case)) is None)


def test_over_tasks_dominance_is_a_mean() -> None:
    """By hand: all of 4 pairs won on one task, 1 won and 2 lost of 3 on the other."""
    x, y = label([3.0, 4.0], [2.0]), label([1.0, 2.0], [1.0, 3.0, 4.0])
    assert (1 - 1 / 3) / 2 == pytest.approx(cliffs_delta(x, y))
    assert (1 + (1 - 1 / 3) / 2) / 2 == pytest.approx(vargha_delaney(x, y))


def test_over_tasks_g_pools_the_variance() -> None:
    """By hand: squares 2 + 2 + 8 + 0 on 4 degrees of freedom, a mean difference of (2 + 5) / 2."""
    x, y = label([2.0, 4.0], [8.0, 12.0]), label([0.0, 2.0], [5.0, 5.0])
    correction = gamma(2) / (sqrt(2) * gamma(1.5))
    assert 3.5 / sqrt(12 / 4) * correction == pytest.approx(hedges_g(x, y))


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        ([1.0], [2.0, 3.0], "one run alone shows no spread"),
        ([1.0, 1.0], [2.0, 2.0], "all runs are equal"),
        ([0.0, 1e-200], [0.0, 0.0], "vary too little"),
    ],
)
def test_without_spread_there_is_a_reason(x: list[float], y: list[float], reason: str) -> None:
    """Runs without spread have a reason instead of Hedges' g."""
    effect = effect_size(label(x), label(y))
    assert effect.hedges_g is None
    assert effect.reason is not None
    assert reason in effect.reason


def test_all_measures_stand_together() -> None:
    """`effect_size` returns all measures, and no reason if all are possible."""
    x, y = label([1.0, 2.0, 4.0]), label([0.0, 1.0])
    assert EffectSize(
        cliffs_delta=cliffs_delta(x, y),
        vargha_delaney=vargha_delaney(x, y),
        hedges_g=hedges_g(x, y),
    ) == effect_size(x, y)


@given(two_labels())
def test_dominance_counts_pairs(both: tuple[Label, Label]) -> None:
    """Cliff's delta equals its definition by counting pairs of runs."""
    expected = 0.0
    for a, b in zip(*both, strict=True):
        won = sum((p > q) - (p < q) for p, q in product(a, b))
        expected += won / (len(a) * len(b)) / len(both[0])
    assert expected == pytest.approx(cliffs_delta(*(label(*side) for side in both)), abs=1e-12)


@given(two_labels())
def test_swapping_sides_changes_the_sign(both: tuple[Label, Label]) -> None:
    """Swapping the labels negates delta and g, and complements the probability to win."""
    x, y = (label(*side) for side in both)
    forward, swapped = effect_size(x, y), effect_size(y, x)
    assert forward.cliffs_delta == -swapped.cliffs_delta
    assert forward.vargha_delaney == pytest.approx(1 - swapped.vargha_delaney, abs=1e-15)
    assert forward.hedges_g == (None if swapped.hedges_g is None else -swapped.hedges_g)


@given(two_labels(2), st.floats(0.01, 100), st.floats(-100, 100))
def test_the_unit_does_not_matter(both: tuple[Label, Label], scale: float, shift: float) -> None:
    """Scores that are scaled and shifted have the same g, as long as rounding leaves a spread."""
    x, y = (label(*side) for side in both)
    moved = [label(*([scale * score + shift for score in task] for task in side)) for side in both]
    before, after = hedges_g(x, y), hedges_g(*moved)
    if before is not None and after is not None and abs(before) < 1e3:
        assert before == pytest.approx(after, rel=1e-6, abs=1e-6)
