"""Sequential comparisons: what they need, when they end, and what they refuse."""

from dataclasses import replace
from itertools import combinations
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sequential_cases import FAMILIES

from rlexp.stats.sequential.comparison import (
    Design,
    Family,
    decide,
    every_pair,
    pairs_with_first,
    smallest_decidable_interim,
)
from rlexp.stats.sequential.looks import _needed

Blocks = dict[str, NDArray[np.float64]]
each_family = pytest.mark.parametrize("family", FAMILIES)
per_pair: tuple[Family, ...] = ("holm", "bonferroni")


def study(
    labels: str = "ab", *, group: int = 4, interims: int = 2, family: Family = "holm"
) -> Design:
    """A small comparison of every pair."""
    return Design(
        group=group, interims=interims, pairs=every_pair(labels), family=family, repetitions=500
    )


def random_blocks(labels: str, blocks: int, group: int, seed: int, step: float = 1) -> Blocks:
    """Normal scores, a step higher from label to label."""
    generator = np.random.default_rng(seed)
    return {x: generator.normal(i * step, 1, (blocks, group)) for i, x in enumerate(labels)}


@given(st.lists(st.integers(-5, 5), min_size=8, max_size=8))
def test_one_interim_is_the_exact_permutation_test(scores: list[int]) -> None:
    """The p-value is the share of the 70 splits of eight scores that differ as much or more."""
    pooled = np.array(scores)
    differences = [
        abs(2 * pooled[list(chosen)].sum() - pooled.sum()) for chosen in combinations(range(8), 4)
    ]
    expected = np.mean(np.array(differences) >= differences[0])
    result = decide(study(interims=1), {"a": [pooled[:4]], "b": [pooled[4:]]})
    assert expected == result.looks[0][0].p


def test_the_relabellings_that_crossed_a_boundary_count_no_more() -> None:
    """Relabellings that crossed a boundary are not counted at later interims.

    By hand for two blocks of two, which have 36 relabellings. Block 1 has scores 3, 1 | 2, 0: its
    six differences of means are ±1, ±2, 0, 0. At alpha .8, .4 may be spent at interim 1, which is
    14 relabellings of 36: the 12 that differ by 2 are above the boundary 1 and are removed. In
    block 2, of 5, 4 | 1, 0, the differences are ±4, ±1, 0, 0: of the 24 relabellings that remain,
    those whose sum reaches 5 are 1 + 4 and -1 - 4.
    """
    design = replace(study(group=2), alpha=0.8)
    blocks = {"a": [[3, 1], [5, 4]], "b": [[2, 0], [1, 0]]}
    (first,), (second,) = decide(design, blocks).looks
    assert 1 == first.difference == first.boundary
    assert pytest.approx([24 / 36, 0.4, 12 / 36]) == [first.p, first.budget, first.spent]
    assert "continue" == first.decision
    assert 5 == second.difference
    assert pytest.approx([2 / 36, 0.8 - 12 / 36]) == [second.p, second.budget]
    assert (None, "better") == (second.boundary, second.decision)


def test_nothing_is_decided_without_runs() -> None:
    """Without runs nothing is decided, and a block of every label is needed."""
    result = decide(study("abc"), {"a": [], "b": [], "c": []})
    assert ("a", "b", "c") == result.needed
    assert {"continue"} == set(result.decisions.values())
    assert not result.finished
    assert {"a": 0, "b": 0, "c": 0} == result.runs


@each_family
def test_a_decided_label_stops(family: Family) -> None:
    """Two equal labels go on to the last interim; the third, far below them, stops early."""
    design = study("abc", group=5, interims=3, family=family)
    blocks = random_blocks("abc", 3, 5, seed=3, step=0)
    blocks["c"] = blocks["c"][:2] - 100
    result = decide(design, blocks)
    assert ("equal", "better", "better") == tuple(result.decisions.values())
    assert result.finished
    assert () == result.needed
    stopped = result.interims["a", "c"]
    assert {"a": 15, "b": 15, "c": 5 * stopped} == result.runs
    assert 45 - sum(result.runs.values()) == result.saved_runs > 0


@each_family
def test_a_label_that_lags_is_waited_for(family: Family) -> None:
    """A pair uses the blocks that both labels have, and needs one of the label that lacks it."""
    blocks = random_blocks("ab", 2, 4, seed=1, step=0)
    result = decide(study(family=family, interims=3), blocks | {"b": blocks["b"][:1]})
    assert 1 == result.interims["a", "b"]
    assert ("b",) == result.needed


@each_family
@given(seed=st.integers(0, 1000), step=st.sampled_from([0.0, 1.0, 3.0]))
@settings(max_examples=20)
def test_a_comparison_goes_on_where_it_was_interrupted(
    family: Family, seed: int, step: float
) -> None:
    """Deciding with further blocks repeats every earlier look."""
    design = study("abc", group=3, interims=3, family=family)
    scores = random_blocks("abc", 3, 3, seed, step)
    complete = decide(design, scores)
    for count in range(1, 4):
        partial = decide(design, {label: blocks[:count] for label, blocks in scores.items()})
        assert complete.looks[:count] == partial.looks


@pytest.mark.parametrize("family", per_pair)
@given(seed=st.integers(0, 1000), random=st.randoms())
@settings(max_examples=20)
def test_the_order_of_the_runs_within_a_block_does_not_matter(
    family: Family, seed: int, random: Random
) -> None:
    """Runs of a block, or labels, in another order give the same decision to the last bit."""
    design = study("abc", group=6, family=family)
    scores = random_blocks("abc", 2, 6, seed)
    shuffled = {
        label: [random.sample(list(block), 6) for block in scores[label]]
        for label in random.sample("abc", 3)
    }
    assert decide(design, scores) == decide(design, shuffled)


@each_family
@given(seed=st.integers(0, 1000))
@settings(max_examples=20)
def test_swapping_the_labels_of_all_pairs_swaps_better_and_worse(
    family: Family, seed: int
) -> None:
    """If all relabellings are enumerated, swapping the labels of a pair swaps its decision."""
    design = study("abc", group=3, family=family)
    swapped = replace(design, pairs=tuple((b, a) for a, b in design.pairs))
    scores = random_blocks("abc", 2, 3, seed)
    words = {"better": "worse", "worse": "better", "equal": "equal"}
    expected = {(b, a): words[word] for (a, b), word in decide(design, scores).decisions.items()}
    assert expected == decide(swapped, scores).decisions


@each_family
@given(seed=st.integers(0, 1000), factor=st.sampled_from([1e-6, 3.0, 1e6]))
@settings(max_examples=20)
def test_scores_in_another_unit_give_the_same_decisions(
    family: Family, seed: int, factor: float
) -> None:
    """Scaling and shifting all scores changes no decision."""
    design = study("abc", group=3, family=family)
    scores = random_blocks("abc", 2, 3, seed)
    transformed = {label: factor * (blocks + 10) for label, blocks in scores.items()}
    first, second = decide(design, scores), decide(design, transformed)
    assert first.decisions == second.decisions
    assert [look.p for looks in first.looks for look in looks] == [
        look.p for looks in second.looks for look in looks
    ]


@each_family
@given(st.permutations(range(4)), st.integers(1, 9))
@settings(max_examples=20)
def test_equal_sums_of_decimals_are_ties(family: Family, order: list[int], tenth: int) -> None:
    """0.1 + 0.2 and 0.3 are a tie, despite rounding in floating-point numbers."""
    first = np.array([0.1, 0.2, 0.3, 0.6])[order] * tenth
    second = np.array([0.3, 0.3, 0.0, 0.6]) * tenth
    result = decide(study(interims=1, family=family), {"a": [first], "b": [second]})
    assert 1 == result.looks[0][0].p


@given(st.integers(1, 4).flatmap(lambda m: st.lists(st.integers(0, m), min_size=m, max_size=m)))
def test_the_levels_a_pair_must_cross_are_those_of_the_closed_test(strictest: list[int]) -> None:
    """A pair is decided if every set of pairs that holds it has a pair that crossed its level.

    `strictest` holds, for each pair, the largest number of pairs among which alpha may be divided
    for it to cross.
    """
    pairs = range(len(strictest))
    sizes = np.arange(1, len(strictest) + 1)
    crossed = np.array(strictest)[None, None] >= sizes[:, None]
    actual = np.all(crossed | ~_needed(crossed, sizes), axis=1)[0].tolist()
    for pair in pairs:
        sets = [s for size in sizes.tolist() for s in combinations(pairs, size) if pair in s]
        expected = all(any(strictest[i] >= len(s) for i in s) for s in sets)
        assert expected == actual[pair]


def test_the_closed_test_holds_for_levels_that_are_not_nested() -> None:
    """A boundary that is crossed at a strict level only decides nothing by itself."""
    crossed = np.array([[[False, False], [True, False]]])
    decided = (crossed | ~_needed(crossed, np.array([1, 2]))).all(axis=1)
    assert [[False, False]] == decided.tolist()


@each_family
def test_equal_scores_are_never_told_apart(family: Family) -> None:
    """A constant score ends as `equal`, with p = 1 at every look."""
    blocks = {label: np.full((2, 4), 0.1) for label in "abc"}
    result = decide(study("abc", family=family), blocks)
    assert {"equal"} == set(result.decisions.values())
    assert {1.0} == {look.p for looks in result.looks for look in looks}


def test_holm_decides_whatever_bonferroni_does() -> None:
    """In 200 studies, Holm decides every pair that Bonferroni decides, and more in some."""
    holm, bonferroni = (study("abc", group=5, family=family) for family in per_pair)
    studies_that_differ = 0
    for seed in range(200):
        scores = random_blocks("abc", 2, 5, seed)
        bonferroni_decisions = decide(bonferroni, scores).decisions
        holm_decisions = decide(holm, scores).decisions
        assert all(
            word in {"equal", holm_decisions[pair]} for pair, word in bonferroni_decisions.items()
        )
        studies_that_differ += bonferroni_decisions != holm_decisions
    assert studies_that_differ > 0


def test_comparisons_with_the_first_label_leave_the_others_alone() -> None:
    """A design with the first label has no pairs of other labels, and divides alpha by two."""
    assert (("a", "b"), ("a", "c")) == pairs_with_first("abc")
    design = Design(group=5, interims=1, pairs=pairs_with_first("abc"))
    assert ("a", "b", "c") == design.labels
    assert 0.025 == design.first_level


@pytest.mark.parametrize(
    ("group", "interims", "alpha", "expected"),
    [(3, 2, 0.05, 2), (5, 5, 0.05, 1), (5, 1, 0.005, None), (2, 2, 0.05, None), (2, 3, 0.05, 3)],
)
def test_the_first_interim_that_can_decide_is_known_in_advance(
    group: int, interims: int, alpha: float, expected: int | None
) -> None:
    """Labels without overlap are decided at the first interim that can decide."""
    design = replace(study(group=group, interims=interims), alpha=alpha)
    assert expected == smallest_decidable_interim(design)
    result = decide(design, random_blocks("ab", interims, group, 0, step=1000))
    assert ("worse" if expected else "equal") == result.decisions["a", "b"]
    assert (expected or interims) == result.interims["a", "b"]


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ({"a": [[1, 2]]}, "label 'b' of the design has no blocks: give an empty list"),
        (
            {"a": [[1, 2]], "b": [[1, 2], [3]]},
            "block 2 of 'b' has shape (1,); the design needs (2,): give complete blocks only",
        ),
        (
            {"a": [[1, float("nan")]], "b": []},
            (
                "block 1 of 'a' has a score that is no finite number up to 1e100: "
                "run a failed seed again"
            ),
        ),
    ],
)
def test_scores_that_do_not_fit_the_design_are_refused(
    blocks: dict[str, list[list[float]]], message: str
) -> None:
    """Missing, incomplete and invalid blocks are refused, so that no score is dropped."""
    with pytest.raises(ValueError, match="block") as caught:
        decide(study(group=2), blocks)
    assert message == str(caught.value)


def test_every_mistake_of_a_design_is_named() -> None:
    """One message names all mistakes of a design."""
    with pytest.raises(ValueError, match="invalid design") as caught:
        Design(
            group=0,
            interims=1,
            alpha=1,
            pairs=(("a", "a"), ("a", "b"), ("b", "a")),
            family="fdr",  # type: ignore[arg-type]
            repetitions=1,
        )
    expected = (
        "invalid design: group 0 and interims 1 must be 1 or more; alpha 1 must lie between 0 and 1; "
        "family 'fdr' must be one of holm, bonferroni, maxt; repetitions must be 2 or "
        "more, and the seed 0 or more; a pair is given twice; 'a' cannot be compared with itself"
    )
    assert expected == str(caught.value)
    with pytest.raises(ValueError, match="there is no pair to decide: give at least two labels"):
        Design(group=1, interims=1, pairs=())


def test_a_decision_is_told_with_the_look_that_it_rests_on() -> None:
    """A decided look has a p-value within its budget, and names the interim of the crossing."""
    delayed_decisions = 0
    for seed in range(60):
        draws = np.random.default_rng(seed).normal(size=(3, 4, 5))
        design = Design(group=5, interims=4, pairs=every_pair("abc"), repetitions=1000)
        means = {"a": 0.0, "b": 1.0, "c": 1.8}
        blocks = {k: list(draws[i] + mean) for i, (k, mean) in enumerate(means.items())}
        for look in (look for interim in decide(design, blocks).looks for look in interim):
            if look.decision in {"better", "worse"}:
                assert look.p <= look.budget + 1e-12
                assert look.crossed is not None
                assert 1 <= look.crossed <= look.interim
                delayed_decisions += look.crossed < look.interim
    assert delayed_decisions > 0
