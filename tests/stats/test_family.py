"""Families of comparisons: adjusted p-values, verdicts, and the seeds that they need."""

import numpy as np
import pytest
from comparison_cases import label
from in_full import IN_FULL

from rlexp.stats.comparison import PairwiseComparison, PrimaryTest, compare
from rlexp.stats.pairwise_family import FamilyMember, Verdict, family, seeds_to_decide
from rlexp.stats.resampling import Resampling

FEW = Resampling(repetitions=200)
SAMPLES = 1500 if IN_FULL else 400
LOW, HIGH = label([1.0, 2.0, 3.0, 4.0, 5.0]), label([11.0, 12.0, 13.0, 14.0, 15.0])
ONE_RUN = label([3.0])


def members(*comparisons: PairwiseComparison, alpha: float = 0.05) -> list[FamilyMember]:
    """Members of a family of comparisons, judged by the permutation test."""
    return family(comparisons, primary=PrimaryTest.PERMUTATION, alpha=alpha)


def test_p_values_are_adjusted_by_holm() -> None:
    """Three equal p-values of 2 / 252 are each multiplied by three."""
    results = members(compare(HIGH, LOW, FEW), compare(LOW, HIGH, FEW), compare(HIGH, LOW, FEW))
    assert [6 / 252] * 3 == pytest.approx([member.adjusted_p for member in results])
    assert [6 / 252] * 3 == pytest.approx([member.adjusted_smallest_p for member in results])
    assert [Verdict.BETTER, Verdict.WORSE, Verdict.BETTER] == [m.verdict for m in results]


def test_a_pair_without_a_test_counts_all_the_same() -> None:
    """A pair without a test stays undecided, but the other pair is adjusted for two pairs."""
    results = members(compare(HIGH, LOW, FEW), compare(ONE_RUN, LOW, FEW))
    assert pytest.approx(4 / 252) == results[0].adjusted_p
    assert (None, 1.0, True, Verdict.UNDECIDED) == (
        results[1].adjusted_p,
        results[1].adjusted_smallest_p,
        results[1].out_of_reach,
        results[1].verdict,
    )


def test_more_pairs_put_a_decision_out_of_reach() -> None:
    """At 5 runs the smallest p-value is 2 / 252: six pairs can be decided, seven cannot."""
    pair = compare(HIGH, LOW, FEW)
    assert not members(*[pair] * 6)[0].out_of_reach
    assert members(*[pair] * 7)[0].out_of_reach


@pytest.mark.parametrize(
    ("p", "equivalence_p", "sign", "expected"),
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
    p: float | None, equivalence_p: float | None, sign: int, expected: Verdict
) -> None:
    """A p-value of exactly alpha decides, and equivalence takes precedence over a difference."""
    pair = compare(HIGH, LOW, FEW) if sign > 0 else compare(LOW, HIGH, FEW)
    member = FamilyMember(
        comparison=pair,
        primary=PrimaryTest.PERMUTATION,
        pairs=1,
        alpha=0.05,
        adjusted_p=p,
        adjusted_smallest_p=0.0,
        adjusted_equivalence_p=equivalence_p,
    )
    assert expected is member.verdict


def normal_scores(generator: np.random.Generator, runs: int, spread: float) -> list[float]:
    """Normal scores of mean 0."""
    return [float(score) for score in generator.normal(0, spread, runs)]


@pytest.mark.parametrize("spreads", [(3.0, 1.0), (1.0, 3.0), (1.0, 1.0)])
def test_the_level_holds_with_unequal_numbers_of_runs(spreads: tuple[float, float]) -> None:
    """Four runs and ten runs of the same mean are told apart about as rarely as alpha."""
    generator = np.random.default_rng(8)
    results = [
        members(
            compare(
                label(normal_scores(generator, 4, spreads[0])),
                label(normal_scores(generator, 10, spreads[1])),
                FEW,
            )
        )[0]
        for _ in range(SAMPLES)
    ]
    false_verdicts = sum(member.verdict is not Verdict.UNDECIDED for member in results)
    # With spreads of 3 to 1 the permutation test alone has a level of 16 %, Welch's test of 6 %.
    assert false_verdicts / SAMPLES <= 0.06 + 2 * (0.06 * 0.94 / SAMPLES) ** 0.5


def test_with_unequal_numbers_of_runs_the_larger_p_value_counts() -> None:
    """Welch's p-value counts if it is the larger, here against a significant permutation test."""
    pair = compare(label([0.0, 10.0, 20.0, 30.0]), label([0.1 * k for k in range(12)]), FEW)
    member = members(pair)[0]
    assert pair.permutation.p is not None
    assert pair.permutation.p <= 0.05
    assert pair.welch.p == member.adjusted_p
    assert Verdict.UNDECIDED is member.verdict
    assert "permutation test (exact) with Welch t test" == pair.deciding(member.primary).method


def test_with_unequal_numbers_of_runs_welchs_test_must_be_possible() -> None:
    """With unequal numbers of runs a pair stays undecided if Welch's test is impossible."""
    low, high = [1.0] * 5, [2.0] * 5
    assert Verdict.BETTER is members(compare(label(high), label(low), FEW))[0].verdict
    member = members(compare(label([*high, 2.0]), label(low), FEW))[0]
    assert (None, Verdict.UNDECIDED) == (member.adjusted_p, member.verdict)
    reason = member.comparison.deciding(member.primary).reason or ""
    assert reason.startswith("with unequal numbers of runs Welch's test must agree: within each")


def test_the_sign_is_that_of_the_primary_test() -> None:
    """The rank test decides by ranks, even if an outlier reverses the sign of the difference."""
    high, low = [*(10.0 + k for k in range(9)), -1e4], [float(k) for k in range(10)]
    pair = compare(label(high), label(low), FEW)
    assert pair.difference.estimate < 0
    ranked, mirrored = (
        family([c], primary=PrimaryTest.MANN_WHITNEY, alpha=0.05)[0].verdict
        for c in (pair, compare(label(low), label(high), FEW))
    )
    assert (Verdict.BETTER, Verdict.WORSE) == (ranked, mirrored)


def test_a_difference_of_0_is_undecided() -> None:
    """A pair whose difference is 0 is undecided, even with a p-value of 0.01."""
    member = FamilyMember(
        comparison=compare(LOW, LOW, FEW),
        primary=PrimaryTest.WELCH,
        pairs=1,
        alpha=0.05,
        adjusted_p=0.01,
        adjusted_smallest_p=0.0,
        adjusted_equivalence_p=None,
    )
    assert Verdict.UNDECIDED is member.verdict


def test_no_pairs_make_no_family() -> None:
    """A family without pairs is empty and raises no error."""
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
    """By hand: 2 to 6 runs per side have 6, 20, 70, 252 and 924 relabellings."""
    assert expected == seeds_to_decide(tasks, pairs, alpha)
