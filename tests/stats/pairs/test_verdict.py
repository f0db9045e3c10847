"""Verdicts in words have the right sign, keep their level, and always have a reason."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from comparison_cases import (
    Label,
    family_of,
    family_of_pairs,
    label,
    two_labels,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from in_full import IN_FULL
from numpy.typing import NDArray

from rlexp.stats.aggregate import (
    Aggregate,
    Negative,
    Statistic,
    interquartile_mean,
    mean,
    median,
)
from rlexp.stats.pairs.pairwise_family import Verdict, decide
from rlexp.stats.pairs.verdict import Decision, verdicts
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores

FAMILIES = 300 if IN_FULL else 40
LOW, HIGH = label([1.0, 2.0, 3.0, 4.0, 6.0]), label([11.0, 12.0, 13.0, 14.0, 16.0])
MIRRORED = {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}


def verdict(x: Label, y: Label, margin: float | None = None, **family: Any) -> Decision:
    """Decision on one pair of labels."""
    return verdicts(family_of([label(*x), label(*y)], margin=margin, **family))[0]


def test_what_is_apart_is_better_or_worse() -> None:
    """By hand: 10 apart, and 2 of 252 relabellings, twice as many by Holm."""
    decisions = verdicts(family_of_pairs([(HIGH, LOW), (LOW, HIGH)]))
    for decision, expected, words in zip(
        decisions,
        (Verdict.BETTER, Verdict.WORSE),
        ("higher: a difference of 10 (", "lower: a difference of -10 ("),
        strict=True,
    ):
        assert expected is decision.verdict
        assert decision.reason.startswith(words)
        assert decision.reason.endswith("), p = 0.0159 after Holm over 2 pairs")
        assert decision.detectable is None


def test_the_interval_is_said_in_words() -> None:
    """By hand: at 2 / 70, labels with runs 0 … 3 are excluded if they are completely separate."""
    x, y = [[20.0, 21.0, 22.0, 23.0]], [[10.0, 11.0, 12.0, 13.0]]
    assert "higher: a difference of 10 (95 % interval 7 to 13), p = 0.0286" == verdict(x, y).reason
    assert (
        "lower: a difference of -10 (95 % interval -13 to -7), p = 0.0286" == verdict(y, x).reason
    )


def test_the_correction_is_said_in_words() -> None:
    """A reason names closed testing, stepwise testing or Holm, and how many labels or pairs."""
    generator = np.random.default_rng(1)
    labels = [label(generator.normal(100 * k, 1, 5)) for k in range(8)]
    single_pair, several, many = (verdicts(family_of(labels[:k]))[0].reason for k in (2, 3, 8))
    assert single_pair.endswith(", p = 0.00794")
    assert several.endswith(", p = 0.00794 after closed testing over 3 labels")
    # 1 − (1 − 2 / 252)⁴
    assert many.endswith(", p = 0.0314 after stepwise testing over 8 labels")


def test_few_seeds_can_decide_nothing() -> None:
    """Three runs per label decide nothing, and the reason names the four that are needed."""
    decision = verdict([[1.0, 2.0, 3.0]], [[101.0, 102.0, 103.0]])
    assert Verdict.UNDECIDED is decision.verdict
    assert (
        "with 3 runs per label and task the smallest possible p-value is p = 0.1, above 0.05: "
        "at least 4 runs per label and task are needed"
    ) == decision.reason
    assert decision.detectable is not None
    assert (3, 4, 8) == decision.detectable.seeds
    none, *larger = decision.detectable.differences
    assert none is None
    assert all(difference is not None and difference > 0 for difference in larger)
    assert decision.detectable.text.startswith(
        "with 3 seeds no difference is found with 80 % power"
    )


def test_more_pairs_on_different_tasks_need_more_seeds() -> None:
    """Four runs per label can decide one pair, and cannot decide two by Holm."""
    pair = (label([1.0, 2.0, 3.0, 5.0]), label([11.0, 12.0, 13.0, 15.0]))
    assert Verdict.WORSE is verdicts(family_of_pairs([pair]))[0].verdict
    decision = verdicts(family_of_pairs([pair, pair]))[0]
    assert Verdict.UNDECIDED is decision.verdict
    assert "the smallest possible p-value is p = 0.0571 after Holm over 2 pairs" in decision.reason
    assert "at least 5 runs per label and task are needed" in decision.reason


def test_four_seeds_of_many_labels_are_too_few() -> None:
    """Beyond seven labels four runs decide nothing: 1 − (1 − 2 / 70)⁴ is above 0.05."""
    generator = np.random.default_rng(1)
    labels = [label(generator.normal(100 * k, 1, 4)) for k in range(8)]
    for decision in verdicts(family_of(labels)):
        assert Verdict.UNDECIDED is decision.verdict
        assert (
            "with 4 runs per label and task the smallest possible p-value is p = 0.109 after "
            "stepwise testing over 8 labels, above 0.05: at least 5 runs per label and task are "
            "needed"
        ) == decision.reason


def test_one_run_is_no_test() -> None:
    """With one run per label, the reason names the fewest runs that are needed."""
    for y in ([[2.0]], [[2.0, 3.0, 4.0]]):
        decision = verdict([[1.0]], y, margin=5.0)
        assert Verdict.UNDECIDED is decision.verdict
        assert (
            "one run of a label on each task shows no spread: no test is possible; "
            "at least 4 runs per label and task are needed"
        ) == decision.reason
        assert decision.detectable is not None
        assert decision.detectable.text.endswith("at least 4 seeds per label and task are needed")


def test_one_run_on_one_of_two_tasks_leaves_the_permutation_test() -> None:
    """One run on a task allows a permutation test, and gives Welch's test a reason."""
    x, y = [[1.0, 2.0, 3.0, 5.0], [5.0]], [[11.0, 12.0, 13.0, 15.0], [6.0]]
    decision = verdict(x, y)
    assert Verdict.WORSE is decision.verdict
    assert decision.member.comparison.welch.p is None
    assert "one run alone shows no spread" in (decision.member.comparison.welch.reason or "")


def test_equal_runs_are_undecided_in_words() -> None:
    """Equal runs are undecided with and without a margin, because they show no spread."""
    for margin in (None, 1.0):
        decision = verdict([[1.0] * 5], [[1.0] * 5], margin)
        assert Verdict.UNDECIDED is decision.verdict
        assert (
            "all runs of a task are equal: there is no difference, and no spread to compare it with"
        ) == decision.reason
        assert decision.detectable is not None
        assert decision.detectable.text.startswith("what could be found is not known: within each")


def test_equal_runs_of_different_labels_are_decided() -> None:
    """Labels with different, constant scores are decided by the permutation test alone."""
    decision = verdict([[1.0] * 5], [[2.0] * 5])
    assert Verdict.WORSE is decision.verdict
    assert "(no interval: within each task all runs are equal" in decision.reason


def test_a_solved_label_is_better_by_an_interval() -> None:
    """The reason of a decided pair is not that the test rejects no difference, however large."""
    decision = verdict([[500.0] * 5], [[100.0, 200.0, 300.0, 400.0, 450.0]])
    assert Verdict.BETTER is decision.verdict
    assert "the test rejects no difference" not in decision.reason


def test_within_the_margin_is_equivalent() -> None:
    """A significant difference within the margin is equivalent, and is called real."""
    runs = np.linspace(0, 1, 40)
    identical, shifted = (
        verdict([list(runs)], [list(runs)], 0.5),
        verdict([list(runs)], [list(runs + 0.3)], 0.8),
    )
    assert (Verdict.EQUIVALENT, Verdict.EQUIVALENT) == (identical.verdict, shifted.verdict)
    assert identical.reason.startswith("the difference of 0 (95 % interval")
    assert "is within ±0.5, p < 0.0001" in identical.reason
    assert "it is real" not in identical.reason
    assert "; it is real (p = " in shifted.reason
    assert shifted.reason.endswith("), but too small to matter")


def test_chance_is_undecided_and_says_what_could_be_found() -> None:
    """An undecided pair has its p-value, and the differences that its runs and more could find."""
    decision = verdict([[1.0, 2.0, 3.0, 4.0, 5.0]], [[2.0, 3.0, 4.0, 5.0, 6.0]])
    assert Verdict.UNDECIDED is decision.verdict
    assert decision.reason.startswith("a difference of -1 (95 % interval -")
    assert decision.reason.endswith(" may be chance: p = 0.444, above 0.05")
    assert decision.detectable is not None
    assert (5, 10) == decision.detectable.seeds
    now, later = decision.detectable.differences
    assert now is not None
    assert later is not None
    # For a t test of 10 and 10 runs it is 1.325 standard deviations of √2.5, by Cohen's tables.
    assert 1.325 * 2.5**0.5 == pytest.approx(later, rel=0.1)
    assert later < now


def test_a_capped_metric_is_planned_by_its_capped_scores() -> None:
    """What the optimality gap could find is what the mean of the capped scores could find."""
    labels = [label([0.5, 0.8, 0.9, 1.4, 2.0]), label([0.4, 0.9, 0.95, 0.8, 7.0])]
    below_1 = [label([0.5, 0.8, 0.9, 1.0, 1.0]), label([0.4, 0.9, 0.95, 0.8, 1.0])]
    gap, capped = (
        verdicts(family)[0].detectable
        for family in (
            family_of(labels, Negative(Aggregate("mean", cap=1.0))),
            family_of(below_1, mean),
        )
    )
    assert gap is not None
    assert capped is not None
    assert capped.differences == pytest.approx(gap.differences)


@dataclass
class UnhashableMean:
    """A metric of a user: a dataclass that can be changed has no hash."""

    weight: float = 1.0

    def __call__(self, scores: TaskScores, /) -> Any:
        """Return the weighted mean."""
        return self.weight * mean(scores)


def test_a_metric_without_a_hash_is_compared_and_planned() -> None:
    """A metric need not be hashable: what could be found is the same as for the mean."""
    labels = [label([1.0, 2.0, 3.0, 4.0, 5.0]), label([2.0, 3.0, 4.0, 5.0, 6.0])]
    theirs, ours = (verdicts(family_of(labels, m))[0] for m in (UnhashableMean(), mean))
    assert ours.reason == theirs.reason
    assert ours.detectable == theirs.detectable


def test_among_more_labels_or_pairs_a_difference_must_be_larger() -> None:
    """With more labels, and with more pairs, the smallest difference that is found is larger."""
    other = label([2.0, 3.0, 4.0, 5.0, 7.0])
    families = [
        family_of([LOW, other]),
        family_of([LOW, other, label([1.5, 2.5, 3.5, 4.5, 6.5]), LOW, other]),
        family_of_pairs([(LOW, other)]),
        family_of_pairs([(LOW, other)] * 5),
    ]
    sizes = []
    for family in families:
        detectable = verdicts(family)[0].detectable
        assert detectable is not None
        assert detectable.differences[-1] is not None
        sizes.append(detectable.differences[-1])
    assert sizes[0] < sizes[1]
    assert sizes[2] < sizes[3]


def test_too_few_relabellings_are_not_blamed_on_the_seeds() -> None:
    """If relabellings are too few to decide, the reason names how many are needed."""
    x, y = [list(np.arange(20.0))], [list(np.arange(20.0) + 100)]
    decision = verdict(x, y, resampling=Resampling(repetitions=18))
    assert Verdict.UNDECIDED is decision.verdict
    assert decision.reason.startswith(
        "with 18 random relabellings the smallest possible p-value is p = 0.0526"
    )
    assert decision.reason.endswith("at least 19 resamples are needed")
    assert decision.detectable is None
    assert Verdict.WORSE is verdict(x, y, resampling=Resampling(repetitions=19)).verdict


def test_welchs_part_in_a_verdict_is_said() -> None:
    """The reason names Welch's test only if the numbers of runs differ."""
    note = "(with unequal numbers of runs Welch's test must agree)"
    decided = verdict([[11.0, 12.0, 13.0, 14.0, 15.0, 16.0]], [[1.0, 2.0, 3.0, 4.0, 5.0]])
    assert Verdict.BETTER is decided.verdict
    # Complete separation is one of 462 relabellings, and Welch's p-value is below 0.0001.
    assert decided.reason.endswith(f"p = 0.00216 {note}")
    chance = verdict([[0.0, 10.0, 20.0, 30.0]], [[0.1 * k for k in range(12)]])
    assert Verdict.UNDECIDED is chance.verdict
    assert chance.reason.endswith(f"p = 0.111 {note}, above 0.05")  # t = 14.45 / 6.456
    assert note not in verdict([[0.0, 10.0]], [[1.0, 2.0]]).reason
    impossible = verdict([[1.0] * 5], [[2.0] * 6])
    assert impossible.reason.startswith(
        "no permutation test (exact) with Welch's test is possible: "
        "with unequal numbers of runs Welch's test must agree: within each task all runs are equal"
    )


def test_no_pairs_have_no_verdicts() -> None:
    """No pairs give no verdicts, and no error."""
    assert () == verdicts(family_of_pairs([]))


@pytest.mark.parametrize(
    ("alpha", "power", "margin"), [(0.0, 0.8, None), (0.05, 1.0, None), (0.05, 0.8, -1.0)]
)
def test_levels_and_margin_are_checked(alpha: float, power: float, margin: float | None) -> None:
    """An invalid level or margin is refused with a message of one line."""
    with pytest.raises(ValueError, match=r"level|power|margin") as caught:
        verdicts(family_of([LOW, HIGH], alpha=alpha, margin=margin), power=power)
    assert 1 == len(str(caught.value).splitlines())


@settings(max_examples=60 if IN_FULL else 15)
@given(two_labels(), st.sampled_from([mean, interquartile_mean, median]))
def test_swapped_labels_have_the_opposite_verdict(
    both: tuple[Label, Label], statistic: Statistic
) -> None:
    """Swapped labels swap better and worse, and change nothing about what could be found."""
    x, y = (label(*side) for side in both)
    settings = {"statistic": statistic, "margin": 1.0, "resampling": Resampling(repetitions=99)}
    forward, swapped = verdicts(family_of_pairs([(x, y), (y, x)], **settings))
    assert MIRRORED.get(forward.verdict, forward.verdict) == swapped.verdict
    assert (forward.detectable is None) == (swapped.detectable is None)
    if forward.detectable is not None and swapped.detectable is not None:
        assert forward.detectable.text == swapped.detectable.text
        assert "nan" not in forward.reason + forward.detectable.text


def draw(generator: np.random.Generator, shape: tuple[int, int], shift: float = 0) -> TaskScores:
    """Skewed scores of the shape (tasks, runs), like those of training."""
    scores: NDArray[np.float64] = generator.exponential(size=shape) + shift
    return label(*scores)


@pytest.mark.parametrize(("tasks", "runs", "labels"), [(1, 5, 3), (2, 3, 4)])
def test_the_family_wise_error_holds(tasks: int, runs: int, labels: int) -> None:
    """At most about 5 % of families without a difference have a false verdict."""
    generator = np.random.default_rng(2)
    false_families = 0
    for seed in range(FAMILIES):
        equal_labels = [draw(generator, (tasks, runs)) for _ in range(labels)]
        # `decide` is what `verdicts` puts into words; what could be found takes long.
        members = decide(family_of(equal_labels, resampling=Resampling(seed=seed, repetitions=99)))
        false_families += any(member.verdict is not Verdict.UNDECIDED for member in members)
    assert false_families / FAMILIES <= 0.05 + 3 * (0.05 * 0.95 / FAMILIES) ** 0.5


@pytest.mark.parametrize("statistic", [mean, interquartile_mean])
def test_verdicts_have_the_right_sign(statistic: Statistic) -> None:
    """Of pairs a standard deviation apart, most are decided, and almost none wrongly."""
    generator = np.random.default_rng(21)
    pairs = 200 if IN_FULL else 50
    outcomes = [
        decide(
            family_of(
                [draw(generator, (1, 15), 1.0), draw(generator, (1, 15))],
                statistic,
                Resampling(seed=seed, repetitions=199),
            )
        )[0].verdict
        for seed in range(pairs)
    ]
    assert outcomes.count(Verdict.BETTER) > 0.6 * pairs
    assert outcomes.count(Verdict.WORSE) <= 0.01 * pairs
