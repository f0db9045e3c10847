"""The brackets of DEHB equal those of the reference implementation."""

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
    """Each rung of each bracket has as many configurations as in the reference."""
    rungs = len(fidelities(case["steps"], case["minimum"], case["eta"]))
    assert case["brackets"] == bracket_sizes(rungs, case["eta"])


@every_schedule
def test_cost_of_a_cycle_is_that_of_the_reference(case: dict[str, Any]) -> None:
    """The cost in full runs equals that of the reference, in total and for each bracket."""
    steps = fidelities(case["steps"], case["minimum"], case["eta"])
    brackets = Brackets(rungs=len(steps), eta=case["eta"])
    cost = [0.0] * len(steps)
    for rung in brackets.cycle:
        cost[rung.bracket] += rung.size * steps[rung.fidelity] / case["steps"]
    assert pytest.approx(case["total"], abs=1e-3) == sum(cost)
    assert pytest.approx(case.get("full_run_equivalents", cost), abs=1e-3) == cost


def test_rungs_and_subpopulations_are_those_of_the_reference() -> None:
    """The steps of rungs and the sizes of subpopulations are those of the reference."""
    case = SCHEDULES[0]
    assert [round(steps) for steps in case["rungs"]] == list(fidelities(100_000, 0.01, 3))
    assert tuple(case["subpop_sizes"]) == Brackets(rungs=5, eta=3).members


@given(rungs=st.integers(2, 5), eta=st.integers(2, 4), cycles=st.integers(1, 3))
def test_each_trial_has_one_slot(rungs: int, eta: int, cycles: int) -> None:
    """Rungs follow each other without gaps, and the trials of a rung have different parents."""
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


def test_members_are_parents_cyclically() -> None:
    """Members are parents in turn, also if a rung is smaller than its subpopulation."""
    brackets = Brackets(rungs=5, eta=3)
    indices = [i for i in range(15 * 4) if brackets.rung(i).fidelity == 3]
    turns = [parent for index in indices for parent in brackets.parents(index)]
    assert [i % 6 for i in range(len(turns))] == turns


def test_small_subpopulation_reads_all_others() -> None:
    """With fewer than three members, a rung depends on all earlier rungs."""
    brackets = Brackets(rungs=2, eta=3)
    assert [3, 1, 2] == [rung.size for rung in brackets.cycle]
    assert [0, 1, 2, 1] == [brackets.reads(index) for index in range(4)]
    narrow_brackets = Brackets(rungs=3, eta=2)
    assert [4, 2, 1, 2, 1, 3] == [rung.size for rung in narrow_brackets.cycle]
    assert [0, 1, 2, 3, 4, 5, 1] == [narrow_brackets.reads(index) for index in range(7)]


@pytest.mark.parametrize(
    ("minimum", "eta", "expected"),
    [
        (0.1, 3, (3000, 9000, 27_000)),
        (1 / 27, 3, (1000, 3000, 9000, 27_000)),
        (0.037037, 3, (1000, 3000, 9000, 27_000)),
        (0.1, 2, (3375, 6750, 13_500, 27_000)),
    ],
)
def test_fidelities_are_integers_up_to_the_budget(
    minimum: float, eta: int, expected: tuple[int, ...]
) -> None:
    """The lowest rung is kept if its share is typed with a few digits."""
    assert expected == fidelities(27_000, minimum, eta)
