"""A comparison has the results of every test's own module, and mirrors if the sides swap."""

from dataclasses import fields
from random import Random

import numpy as np
import pytest
from comparison_cases import Label, label, two_labels, unsorted_label
from hypothesis import given
from hypothesis import strategies as st

from rlexp.stats.comparison import PairwiseComparison, PrimaryTest, compare, effect_size
from rlexp.stats.difference import difference_interval
from rlexp.stats.equivalence import equivalence_test
from rlexp.stats.hypothesis_tests import mann_whitney_test, welch_test
from rlexp.stats.permutation import permutation_test
from rlexp.stats.resampling import Resampling

FEW = Resampling(seed=5, repetitions=200, level=0.9)
X, Y = label([1.0, 2.0, 4.0], [3.0, 5.0]), label([0.0, 1.0], [2.0, 2.5, 7.0])


def test_a_comparison_has_every_part() -> None:
    """A comparison has all tests, with the level of the resampling and the margin."""
    assert PairwiseComparison(
        difference=difference_interval(X, Y, level=0.9),
        permutation=permutation_test(X, Y, FEW),
        welch=welch_test(X, Y),
        mann_whitney=mann_whitney_test(X, Y),
        effect=effect_size(X, Y),
        equivalence=equivalence_test(X, Y, 1.0),
        sizes=((3, 2), (2, 3)),
        alpha=0.01,
    ) == compare(X, Y, FEW, alpha=0.01, margin=1.0)


def test_without_a_margin_there_is_no_equivalence() -> None:
    """Without a margin no test of equivalence is made."""
    assert compare(X, Y, FEW).equivalence is None


def test_a_test_is_found_by_its_name() -> None:
    """`test` returns the test with the name that a user declares."""
    comparison = compare(X, Y, FEW)
    assert [comparison.permutation, comparison.welch, comparison.mann_whitney] == [
        comparison.test(PrimaryTest(name)) for name in ("permutation", "welch", "mann-whitney")
    ]


@pytest.mark.parametrize(
    ("x", "y", "replicated", "fewest"),
    [
        ([[1.0]], [[1.0]], False, 1),
        ([[1.0]], [[1.0, 2.0]], False, 1),
        ([[1.0], [1.0, 2.0]], [[1.0, 2.0], [3.0]], False, 1),
        ([[1.0], [1.0, 2.0]], [[1.0], [3.0, 4.0]], True, 1),
        ([[1.0, 2.0]], [[1.0, 2.0, 3.0]], True, 2),
    ],
)
def test_runs_are_counted(x: Label, y: Label, replicated: bool, fewest: int) -> None:
    """A comparison is replicated if a task has two runs or more of both labels."""
    comparison = compare(label(*x), label(*y), FEW)
    assert (replicated, fewest) == (comparison.replicated, comparison.fewest)


@pytest.mark.parametrize("alpha", [0.0, 1.0, float("nan")])
def test_a_level_is_checked(alpha: float) -> None:
    """An alpha that is not between 0 and 1 is refused."""
    with pytest.raises(ValueError, match="is out of range"):
        compare(X, Y, FEW, alpha=alpha)


@given(two_labels(), st.randoms())
def test_the_order_of_the_runs_does_not_matter(both: tuple[Label, Label], random: Random) -> None:
    """Runs in another order give the same comparison to the last bit."""
    x, y = map(unsorted_label, both)
    v, w = (unsorted_label([random.sample(task, len(task)) for task in side]) for side in both)
    assert compare(x, y, FEW, margin=1.0) == compare(v, w, FEW, margin=1.0)


@given(two_labels())
def test_swapping_sides_mirrors_everything(both: tuple[Label, Label]) -> None:
    """Swapping the labels changes the sign of differences, and changes no p-value."""
    x, y = (label(*side) for side in both)
    forward, swapped = compare(x, y, FEW, margin=1.0), compare(y, x, FEW, margin=1.0)
    assert forward.difference.estimate == -swapped.difference.estimate
    if forward.difference.low is not None and swapped.difference.high is not None:
        assert forward.difference.low == -swapped.difference.high
    assert forward.effect.cliffs_delta == -swapped.effect.cliffs_delta
    assert forward.sizes == swapped.sizes[::-1]
    for name in PrimaryTest:
        assert forward.test(name).p == swapped.test(name).p
    assert forward.equivalence is not None
    assert swapped.equivalence is not None
    assert forward.equivalence.p == swapped.equivalence.p


@given(two_labels())
def test_no_number_is_nan(both: tuple[Label, Label]) -> None:
    """A value that cannot be computed is missing with a reason, and is never NaN."""
    x, y = (label(*side) for side in both)
    comparison = compare(x, y, FEW, margin=1.0)
    for part in (
        comparison.difference,
        *map(comparison.test, PrimaryTest),
        comparison.effect,
        comparison.equivalence,
    ):
        assert part is not None
        values = [getattr(part, field.name) for field in fields(part)]
        assert all(np.isfinite(value) for value in values if isinstance(value, float))
    for test in map(comparison.test, PrimaryTest):
        assert (test.p is None) == (test.reason is not None)
