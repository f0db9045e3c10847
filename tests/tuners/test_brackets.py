"""Hyperband's brackets, as DEHB walks them, are those of the reference implementation."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlexp.tuners.dehb import Brackets, bracket_sizes, fidelities

GOLDEN = Path(__file__).parents[1] / "golden" / "dehb.json"
SCHEDULES = json.loads(GOLDEN.read_text())["cases"]
every_schedule = pytest.mark.parametrize("case", SCHEDULES, ids=[c["id"] for c in SCHEDULES])


@every_schedule
def test_brackets_are_those_of_the_reference(case: dict[str, Any]) -> None:
    """As many configurations in each rung of each bracket."""
    rungs = len(fidelities(case["steps"], case["minimum"], case["eta"]))
    assert case["brackets"] == bracket_sizes(rungs, case["eta"])


@every_schedule
def test_a_cycle_costs_what_the_reference_says(case: dict[str, Any]) -> None:
    """In full-run equivalents, over all its rungs and for each bracket."""
    steps = fidelities(case["steps"], case["minimum"], case["eta"])
    brackets = Brackets(rungs=len(steps), eta=case["eta"])
    cost = [0.0] * len(steps)
    for rung in brackets.cycle:
        cost[rung.bracket] += rung.size * steps[rung.fidelity] / case["steps"]
    assert pytest.approx(case["total"], abs=1e-3) == sum(cost)
    assert pytest.approx(case.get("full_run_equivalents", cost), abs=1e-3) == cost


def test_rungs_and_subpopulations_are_those_of_the_reference() -> None:
    """Environment steps, rounded to whole ones, and the widest rung of each."""
    case = SCHEDULES[0]
    assert [round(steps) for steps in case["rungs"]] == list(fidelities(100_000, 0.01, 3))
    assert tuple(case["subpop_sizes"]) == Brackets(rungs=5, eta=3).members


@given(rungs=st.integers(2, 5), eta=st.integers(2, 4), cycles=st.integers(1, 3))
def test_each_trial_has_one_place(rungs: int, eta: int, cycles: int) -> None:
    """The rungs follow each other without a gap, and each competes with different parents."""
    brackets = Brackets(rungs=rungs, eta=eta)
    expected = [
        (index, slot)
        for index in range(cycles * len(brackets.cycle))
        for slot in range(brackets.rung(index).size)
    ]
    assert expected == [brackets.locate(number) for number in range(1, len(expected) + 1)]
    for index, slot in expected:
        assert brackets.first(index + 1) == brackets.first(index) + brackets.rung(index).size
        assert slot < len(set(brackets.parents(index)))
        assert 0 <= brackets.reads(index) <= index


def test_every_member_is_a_parent_in_turn() -> None:
    """Round and round, also where a rung is narrower than its subpopulation."""
    brackets = Brackets(rungs=5, eta=3)
    indices = [i for i in range(15 * 4) if brackets.rung(i).fidelity == 3]
    turns = [parent for index in indices for parent in brackets.parents(index)]
    assert [i % 6 for i in range(len(turns))] == turns


def test_two_members_are_too_few_for_a_mutant_of_their_own() -> None:
    """Then all subpopulations are read, and all that was before must be over."""
    brackets = Brackets(rungs=2, eta=3)
    assert [3, 1, 2] == [rung.size for rung in brackets.cycle]
    assert [0, 1, 2, 1] == [brackets.reads(index) for index in range(4)]
    narrow = Brackets(rungs=3, eta=2)
    assert [4, 2, 1, 2, 1, 3] == [rung.size for rung in narrow.cycle]
    assert [0, 1, 2, 3, 4, 5, 1] == [narrow.reads(index) for index in range(7)]


@pytest.mark.parametrize(
    ("minimum", "eta", "expected"),
    [
        (0.1, 3, (3000, 9000, 27_000)),
        (1 / 27, 3, (1000, 3000, 9000, 27_000)),
        (0.037037, 3, (1000, 3000, 9000, 27_000)),
        (0.1, 2, (3375, 6750, 13_500, 27_000)),
    ],
)
def test_fidelities_are_whole_and_end_at_the_budget(
    minimum: float, eta: int, expected: tuple[int, ...]
) -> None:
    """Also where the lowest one is meant exactly, and typed with a few digits."""
    assert expected == fidelities(27_000, minimum, eta)
