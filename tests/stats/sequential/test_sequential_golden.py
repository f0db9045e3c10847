"""Sequential comparisons decide as the exact two-sided test, and as was published."""

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
    """Decision from all scores of a golden case."""
    return decide(design_of(case, family), blocks_of(case))


@CASES
def test_every_pair_is_decided_as_the_reference_does(case: dict[str, Any]) -> None:
    """Every pair has the verdict and the interim of the reference."""
    result = outcome(case)
    expected = {
        tuple(pair.split(",")): (WORDS[word], interim + 1)
        for pair, (word, interim) in case["exact_two_sided"]["decisions"].items()
    }
    assert expected == {p: (result.decisions[p], result.interims[p]) for p in result.decisions}


@CASES
def test_every_step_has_the_reference_numbers(case: dict[str, Any]) -> None:
    """Each look has the difference, p, budget, boundary and spent level of the reference."""
    result = outcome(case)
    assert len(case["exact_two_sided"]["interims"]) == len(result.looks)
    for expected, looks in zip(case["exact_two_sided"]["interims"], result.looks, strict=True):
        by_pair = {look.pair: look for look in looks}
        for step in expected["steps"]:
            first, second = step["pair"]
            look = by_pair[str(first), str(second)]
            assert pytest.approx(step["stat"], abs=1e-12) == look.difference
            assert pytest.approx(step["p"], abs=1e-12) == look.p
            assert pytest.approx(step["budget"], abs=1e-12) == look.budget
            assert step["reject"] == (look.decision in {"better", "worse"})
            assert pytest.approx(expected["spent"], abs=1e-12) == look.spent
        open_looks = [look for look in looks if look.boundary is not None]
        assert expected["undecided"] == [[int(name) for name in look.pair] for look in open_looks]
        assert [pytest.approx(expected["boundary"], abs=1e-12)] * len(open_looks) == [
            look.boundary for look in open_looks
        ]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("case", [c for c in GOLDEN["cases"] if len(c["scores"]) == 2])
def test_one_pair_needs_no_family(case: dict[str, Any], family: Family) -> None:
    """With two labels, all families give the same test."""
    expected, actual = outcome(case).looks, outcome(case, family).looks
    assert len(expected) == len(actual)
    for (joint,), (look,) in zip(expected, actual, strict=True):
        assert pytest.approx(joint.difference) == look.difference
        assert pytest.approx(joint.boundary) == look.boundary
        assert (joint.p, joint.spent, joint.decision) == (look.p, look.spent, look.decision)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_published_walker_comparison_ends_as_published(family: Family) -> None:
    """Labels stop as soon as all their pairs are decided, as runs are added batch by batch."""
    logged = GOLDEN["mujoco_published"]["walker"]["logged"]
    expected = {tuple(pair.split(", ")): WORDS[word] for pair, (_, word) in logged.items()}
    pairs = every_pair(["SAC", "DDPG", "TRPO", "PPO"])
    design = Design(group=5, interims=6, pairs=pairs, family=family)
    blocks: dict[str, list[list[float]]] = {label: [] for label in design.labels}
    result = decide(design, blocks)
    while not result.finished:
        for label in result.needed:
            blocks[label].append(walker_blocks(label)[len(blocks[label])])
        result = decide(design, blocks)
    assert expected == result.decisions
    assert {"DDPG": 30, "PPO": 10, "SAC": 10, "TRPO": 30} == result.runs
    assert 40 == result.saved_runs
