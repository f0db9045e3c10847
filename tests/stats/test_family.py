"""Families of comparisons: adjusted p-values, what could be decided, and verdicts."""

import pytest
from comparison_cases import label

from rlexp.stats.comparison import Comparison, PrimaryTest, compare
from rlexp.stats.family import FamilyMember, Verdict, family, seeds_to_decide
from rlexp.stats.resampling import Resampling

FEW = Resampling(repetitions=200)
LOW, HIGH = label([1.0, 2.0, 3.0, 4.0, 5.0]), label([11.0, 12.0, 13.0, 14.0, 15.0])
ONE = label([3.0])


def members(*comparisons: Comparison, alpha: float = 0.05) -> list[FamilyMember]:
    """Judged by the permutation test."""
    return family(comparisons, primary=PrimaryTest.PERMUTATION, alpha=alpha)


def test_p_values_are_adjusted_by_holm() -> None:
    """By hand: 2 / 252 three times, so each times three."""
    found = members(compare(HIGH, LOW, FEW), compare(LOW, HIGH, FEW), compare(HIGH, LOW, FEW))
    assert [6 / 252] * 3 == pytest.approx([member.adjusted_p for member in found])
    assert [6 / 252] * 3 == pytest.approx([member.adjusted_smallest_p for member in found])
    assert [Verdict.BETTER, Verdict.WORSE, Verdict.BETTER] == [m.verdict for m in found]


def test_a_pair_without_a_test_counts_all_the_same() -> None:
    """It stays missing, but the other pair is adjusted for two."""
    found = members(compare(HIGH, LOW, FEW), compare(ONE, LOW, FEW))
    assert pytest.approx(4 / 252) == found[0].adjusted_p
    assert (None, 1.0, True, Verdict.UNDECIDED) == (
        found[1].adjusted_p,
        found[1].adjusted_smallest_p,
        found[1].out_of_reach,
        found[1].verdict,
    )


def test_more_pairs_put_a_decision_out_of_reach() -> None:
    """At 5 runs 2 / 252 is the smallest: six pairs can be decided, seven cannot."""
    pair = compare(HIGH, LOW, FEW)
    assert not members(*[pair] * 6)[0].out_of_reach
    assert members(*[pair] * 7)[0].out_of_reach


@pytest.mark.parametrize(
    ("p", "within", "sign", "expected"),
    [
        (0.05, None, 1, Verdict.BETTER),
        (0.05, None, -1, Verdict.WORSE),
        (0.051, None, 1, Verdict.UNDECIDED),
        (None, None, 1, Verdict.UNDECIDED),
        (0.05, 0.051, -1, Verdict.WORSE),
        (0.05, 0.05, 1, Verdict.EQUIVALENT),
        (0.5, 0.05, 1, Verdict.EQUIVALENT),
        (0.5, 0.5, 1, Verdict.UNDECIDED),
    ],
)
def test_the_verdict_follows_from_the_p_values(
    p: float | None, within: float | None, sign: int, expected: Verdict
) -> None:
    """A difference that does not matter is no difference; alpha itself is enough."""
    pair = compare(HIGH, LOW, FEW) if sign > 0 else compare(LOW, HIGH, FEW)
    member = FamilyMember(
        comparison=pair,
        primary=PrimaryTest.PERMUTATION,
        pairs=1,
        alpha=0.05,
        adjusted_p=p,
        adjusted_smallest_p=0.0,
        adjusted_equivalence_p=within,
    )
    assert expected is member.verdict


def test_no_pairs_make_no_family() -> None:
    """And no error."""
    assert [] == members()


@pytest.mark.parametrize(
    ("tasks", "pairs", "alpha", "expected"),
    [
        (1, 1, 0.05, 4),
        (1, 1, 0.1, 3),
        (1, 1, 0.01, 5),
        (1, 3, 0.05, 5),
        (1, 6, 0.05, 5),
        (1, 7, 0.05, 6),
        (2, 1, 0.05, 3),
        (26, 21, 0.05, 2),
        (1000, 1, 0.05, 2),
    ],
)
def test_the_fewest_seeds_that_could_decide(
    tasks: int, pairs: int, alpha: float, expected: int
) -> None:
    """By hand: there are 6, 20, 70, 252 and 924 relabellings of 2 to 6 runs a side."""
    assert expected == seeds_to_decide(tasks, pairs, alpha)
