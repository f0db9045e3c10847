"""Sequential comparisons decide as the exact two-sided test does, and as was published."""

from typing import Any

import pytest
from sequential_cases import FAMILIES, GOLDEN, WORDS, blocks_of, design_of, walker_blocks

from rlexp.stats.sequential.comparison import (
    Design,
    Family,
    SequentialDecision,
    decide,
    every_pair,
)

CASES = pytest.mark.parametrize("case", GOLDEN["cases"], ids=[c["id"] for c in GOLDEN["cases"]])


def outcome(case: dict[str, Any], family: Family = "maxt") -> SequentialDecision:
    """What is decided from all scores of a case."""
    return decide(design_of(case, family), blocks_of(case))


@CASES
def test_every_pair_is_decided_as_the_reference_does(case: dict[str, Any]) -> None:
    """The same verdict at the same interim."""
    found = outcome(case)
    expected = {
        tuple(pair.split(",")): (WORDS[word], interim + 1)
        for pair, (word, interim) in case["exact_two_sided"]["decisions"].items()
    }
    assert expected == {p: (found.decisions[p], found.interims[p]) for p in found.decisions}


@CASES
def test_every_step_has_the_reference_numbers(case: dict[str, Any]) -> None:
    """Difference, p, budget, boundary and spent level of each interim."""
    found = outcome(case)
    assert len(case["exact_two_sided"]["interims"]) == len(found.looks)
    for expected, looks in zip(case["exact_two_sided"]["interims"], found.looks, strict=True):
        by_pair = {look.pair: look for look in looks}
        for step in expected["steps"]:
            first, second = step["pair"]
            look = by_pair[str(first), str(second)]
            assert pytest.approx(step["stat"], abs=1e-12) == look.difference
            assert pytest.approx(step["p"], abs=1e-12) == look.p
            assert pytest.approx(step["budget"], abs=1e-12) == look.budget
            assert step["reject"] == (look.decision in {"better", "worse"})
            assert pytest.approx(expected["spent"], abs=1e-12) == look.spent
        left = [look for look in looks if look.boundary is not None]
        assert expected["undecided"] == [[int(name) for name in look.pair] for look in left]
        assert [pytest.approx(expected["boundary"], abs=1e-12)] * len(left) == [
            look.boundary for look in left
        ]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("case", [c for c in GOLDEN["cases"] if len(c["scores"]) == 2])
def test_one_pair_needs_no_family(case: dict[str, Any], family: Family) -> None:
    """With two labels, all families give the same test."""
    expected, found = outcome(case).looks, outcome(case, family).looks
    assert len(expected) == len(found)
    for (joint,), (own,) in zip(expected, found, strict=True):
        assert pytest.approx(joint.difference) == own.difference
        assert pytest.approx(joint.boundary) == own.boundary
        assert (joint.p, joint.spent, joint.decision) == (own.p, own.spent, own.decision)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_published_walker_comparison_ends_as_published(family: Family) -> None:
    """Labels stop as soon as all their pairs are decided, as runs are added batch by batch."""
    logged = GOLDEN["mujoco_published"]["walker"]["logged"]
    expected = {tuple(pair.split(", ")): WORDS[word] for pair, (_, word) in logged.items()}
    pairs = every_pair(["SAC", "DDPG", "TRPO", "PPO"])
    design = Design(group=5, interims=6, pairs=pairs, family=family)
    blocks: dict[str, list[list[float]]] = {label: [] for label in design.labels}
    found = decide(design, blocks)
    while not found.finished:
        for label in found.needed:
            blocks[label].append(walker_blocks(label)[len(blocks[label])])
        found = decide(design, blocks)
    assert expected == found.decisions
    assert {"DDPG": 30, "PPO": 10, "SAC": 10, "TRPO": 30} == found.runs
    assert 40 == found.saved_runs
