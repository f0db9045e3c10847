"""Verdicts in words have the right sign, keep their level, and always have a reason."""

from random import Random

import numpy as np
import pytest
from comparison_cases import Label, label, two_labels, unsorted_label
from hypothesis import given
from hypothesis import strategies as st
from in_full import IN_FULL
from numpy.typing import NDArray

from rlexp.stats.comparison import PrimaryTest
from rlexp.stats.pairwise_family import Verdict
from rlexp.stats.resampling import Resampling
from rlexp.stats.task_scores import TaskScores
from rlexp.stats.verdict import Decision, verdicts

FEW = Resampling(repetitions=499)
FAMILIES = 300 if IN_FULL else 100
LOW, HIGH = label([1.0, 2.0, 3.0, 4.0, 5.0]), label([11.0, 12.0, 13.0, 14.0, 15.0])
MIRRORED = {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}


def verdict(x: Label, y: Label, margin: float | None = None, **settings: object) -> Decision:
    """Decision on one pair of labels."""
    primary = PrimaryTest(str(settings.get("primary", "permutation")))
    pairs = [(label(*x), label(*y))]
    return verdicts(pairs, FEW, margin=margin, primary=primary)[0]


def every_pair(labels: list[TaskScores]) -> list[tuple[TaskScores, TaskScores]]:
    """All pairs of the labels."""
    return [(x, y) for i, x in enumerate(labels) for y in labels[i + 1 :]]


def test_what_is_apart_is_better_or_worse() -> None:
    """By hand: 10 apart, standard error 1 on 8 degrees of freedom, 2 of 252 relabellings."""
    decisions = verdicts([(HIGH, LOW), (LOW, HIGH)], FEW)
    numbers = "p = 0.0159 after Holm over 2 pairs"
    assert [
        (Verdict.BETTER, f"higher: a difference of 10 (95% interval 7.694 to 12.31), {numbers}"),
        (Verdict.WORSE, f"lower: a difference of -10 (95% interval -12.31 to -7.694), {numbers}"),
    ] == [(decision.verdict, decision.reason) for decision in decisions]
    assert [None, None] == [decision.further for decision in decisions]


def test_few_seeds_can_decide_nothing() -> None:
    """Three runs per label decide nothing, and the reason names the four that are needed."""
    decision = verdict([[1.0, 2.0, 3.0]], [[101.0, 102.0, 103.0]])
    assert Verdict.UNDECIDED is decision.verdict
    assert (
        "with 3 runs per label and task the smallest possible p-value is p = 0.1, above 0.05: "
        "at least 4 runs per label and task are needed"
    ) == decision.reason
    assert decision.further is not None
    assert (1, 4) == (decision.further.seeds, decision.further.total)


def test_more_pairs_need_more_seeds() -> None:
    """Four runs per label can decide one pair, and cannot decide two."""
    pair = (label([1.0, 2.0, 3.0, 4.0]), label([11.0, 12.0, 13.0, 14.0]))
    assert Verdict.WORSE is verdicts([pair], FEW)[0].verdict
    decision = verdicts([pair, pair], FEW)[0]
    assert Verdict.UNDECIDED is decision.verdict
    assert "the smallest possible p-value is p = 0.0571 after Holm over 2 pairs" in decision.reason
    assert "at least 5 runs per label and task are needed" in decision.reason


def test_one_run_is_no_test() -> None:
    """With one run per label, the reason names the fewest runs that are needed."""
    for y in ([[2.0]], [[2.0, 3.0, 4.0]]):
        decision = verdict([[1.0]], y, margin=5.0)
        assert Verdict.UNDECIDED is decision.verdict
        assert (
            "one run of a label on each task shows no spread: no test is possible; "
            "at least 4 runs per label and task are needed"
        ) == decision.reason
        assert decision.further is not None
        assert decision.further.reason.endswith("at least 4 per label and task are needed")


def test_one_run_on_one_of_two_tasks_leaves_the_permutation_test() -> None:
    """One run on a task allows a permutation test, and gives Welch's test a reason."""
    x, y = [[1.0, 2.0, 3.0, 4.0], [5.0]], [[11.0, 12.0, 13.0, 14.0], [6.0]]
    assert Verdict.WORSE is verdict(x, y).verdict
    decision = verdict(x, y, primary="welch")
    assert Verdict.UNDECIDED is decision.verdict
    assert decision.reason.startswith(
        "no stratified Welch t test is possible: one run alone shows no spread"
    )


def test_equal_runs_are_undecided_in_words() -> None:
    """Equal runs are undecided with and without a margin, because they show no spread."""
    for margin in (None, 1.0):
        decision = verdict([[1.0] * 5], [[1.0] * 5], margin)
        assert Verdict.UNDECIDED is decision.verdict
        assert (
            "all runs of a task are equal: there is no difference, and no spread to compare it with"
        ) == decision.reason
        assert decision.further is not None
        assert "the number of further seeds cannot be estimated" in decision.further.reason


def test_equal_runs_of_different_labels_are_decided() -> None:
    """Labels with different, constant scores are decided by the permutation test alone."""
    decision = verdict([[1.0] * 5], [[2.0] * 5])
    assert Verdict.WORSE is decision.verdict
    assert "(no interval: within each task all runs are equal" in decision.reason


def test_within_the_margin_is_equivalent() -> None:
    """A significant difference within the margin is equivalent, and is called real."""
    runs = np.linspace(0, 1, 40)
    identical, shifted = (
        verdict([list(runs)], [list(runs)], 0.5),
        verdict([list(runs)], [list(runs + 0.3)], 0.8),
    )
    assert (Verdict.EQUIVALENT, Verdict.EQUIVALENT) == (identical.verdict, shifted.verdict)
    assert identical.reason.startswith("the difference of 0 (95% interval")
    assert "is within ±0.5, p < 0.0001" in identical.reason
    assert "it is real" not in identical.reason
    assert "; it is real (p = " in shifted.reason
    assert shifted.reason.endswith("), but too small to matter")


def test_chance_is_undecided_and_says_how_to_go_on() -> None:
    """An undecided pair has its p-value and an estimate of the further seeds."""
    decision = verdict([[1.0, 2.0, 3.0, 4.0, 5.0]], [[2.0, 3.0, 4.0, 5.0, 6.0]])
    assert Verdict.UNDECIDED is decision.verdict
    assert (
        "a difference of -1 (95% interval -3.306 to 1.306) may be chance: p = 0.444, above 0.05"
    ) == decision.reason
    assert decision.further is not None
    # Cohen's d is 1 / √2.5, for which 41 seeds a side have power 0.8.
    assert (36, 41) == (decision.further.seeds, decision.further.total)


def test_for_many_pairs_more_seeds_are_needed() -> None:
    """More pairs need more further seeds, because Holm's strictest step is planned for."""
    pair = (LOW, label([2.0, 3.0, 4.0, 5.0, 6.0]))
    single, several = verdicts([pair], FEW)[0].further, verdicts([pair] * 5, FEW)[0].further
    assert single is not None
    assert several is not None
    assert single.total is not None
    assert several.total is not None
    assert single.total < several.total


def test_too_few_relabellings_are_not_blamed_on_the_seeds() -> None:
    """If relabellings are too few to decide, the reason names how many are needed."""
    x, y = label(np.arange(20.0)), label(np.arange(20.0) + 100)
    decision = verdicts([(x, y)], Resampling(repetitions=38))[0]
    assert Verdict.UNDECIDED is decision.verdict
    assert decision.reason.startswith(
        "with 38 random relabellings the smallest possible p-value is p = 0.0513"
    )
    assert decision.reason.endswith("at least 39 resamples are needed")
    assert decision.further is not None
    assert decision.further.seeds is None
    assert Verdict.WORSE is verdicts([(x, y)], Resampling(repetitions=39))[0].verdict


def test_welchs_part_in_a_verdict_is_said() -> None:
    """The reason names Welch's test only if the numbers of runs differ."""
    note = "(with unequal numbers of runs Welch's test must agree)"
    decided = verdict([[11.0, 12.0, 13.0, 14.0, 15.0, 16.0]], [[1.0, 2.0, 3.0, 4.0, 5.0]])
    assert Verdict.BETTER is decided.verdict
    assert decided.reason.endswith(f"p = 0.00433 {note}")
    chance = verdict([[0.0, 10.0, 20.0, 30.0]], [[0.1 * k for k in range(12)]])
    assert Verdict.UNDECIDED is chance.verdict
    assert chance.reason.endswith(f"p = 0.111 {note}, above 0.05")  # t = 14.45 / 6.456
    assert note not in verdict([[0.0, 10.0]], [[1.0, 2.0]]).reason
    impossible = verdict([[1.0] * 5], [[2.0] * 6])
    assert impossible.reason.startswith(
        "no permutation test (exact) with Welch t test is possible: "
        "with unequal numbers of runs Welch's test must agree: within each task all runs are equal"
    )


def test_no_pairs_have_no_verdicts() -> None:
    """No pairs give no verdicts, and no error."""
    assert () == verdicts([], FEW)


@pytest.mark.parametrize(
    ("alpha", "power", "margin"), [(0.0, 0.8, None), (0.05, 1.0, None), (0.05, 0.8, -1.0)]
)
def test_levels_and_margin_are_checked(alpha: float, power: float, margin: float | None) -> None:
    """An invalid level or margin is refused with a message of one line."""
    with pytest.raises(ValueError, match=r"level|power|margin") as caught:
        verdicts([(LOW, HIGH)], FEW, alpha=alpha, power=power, margin=margin)
    assert 1 == len(str(caught.value).splitlines())


@given(two_labels(), st.sampled_from(PrimaryTest), st.randoms())
def test_verdicts_mirror_and_do_not_depend_on_the_order_of_the_runs(
    both: tuple[Label, Label], primary: PrimaryTest, random: Random
) -> None:
    """Swapped labels swap better and worse, and shuffled runs give the same decisions."""
    x, y = map(unsorted_label, both)
    v, w = (unsorted_label([random.sample(task, len(task)) for task in side]) for side in both)
    forward, swapped = verdicts([(x, y), (y, x)], FEW, margin=1.0, primary=primary)
    assert MIRRORED.get(forward.verdict, forward.verdict) == swapped.verdict
    assert forward.further == swapped.further
    assert (forward, swapped) == verdicts([(v, w), (w, v)], FEW, margin=1.0, primary=primary)
    assert "nan" not in forward.reason + (forward.further.reason if forward.further else "")


def draw(generator: np.random.Generator, shape: tuple[int, int], shift: float = 0) -> TaskScores:
    """Skewed scores of the shape (tasks, runs), like those of training."""
    scores: NDArray[np.float64] = generator.exponential(size=shape) + shift
    return label(*scores)


@pytest.mark.parametrize(("tasks", "runs", "labels"), [(1, 5, 3), (2, 4, 4)])
def test_the_family_wise_error_holds(tasks: int, runs: int, labels: int) -> None:
    """At most about 5 % of families without a difference have a false verdict."""
    generator = np.random.default_rng(2)
    false_families = 0
    for _ in range(FAMILIES):
        equal_labels = [draw(generator, (tasks, runs)) for _ in range(labels)]
        decisions = verdicts(every_pair(equal_labels), FEW)
        false_families += any(decision.verdict is not Verdict.UNDECIDED for decision in decisions)
    assert false_families / FAMILIES <= 0.05 + 3 * (0.05 * 0.95 / FAMILIES) ** 0.5


def test_verdicts_have_the_right_sign() -> None:
    """Of 200 pairs a standard deviation apart, most are decided, and at most 2 wrongly."""
    generator = np.random.default_rng(21)
    pairs = [(draw(generator, (1, 15), 1.0), draw(generator, (1, 15))) for _ in range(200)]
    outcomes = [verdicts([pair], FEW)[0].verdict for pair in pairs]
    assert outcomes.count(Verdict.BETTER) > 120
    assert outcomes.count(Verdict.WORSE) <= 2
