"""Successive halving and Hyperband: rungs, promotion and brackets."""

from collections import Counter
from math import nan

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pruning_points import point, stopped_at

from rlexp.pruners.hyperband import Hyperband, interleaved
from rlexp.pruners.rungs import rungs
from rlexp.pruners.successive_halving import SuccessiveHalving

HALVING = SuccessiveHalving(minimum=0.1, eta=3)


def test_rungs_lie_at_powers_of_eta() -> None:
    """Decisions are made at exactly 10, 30 and 90 % of the budget."""
    assert [100, 300, 900] == stopped_at(HALVING, 0.0, [1.0])
    assert [50, 100, 200, 400, 800] == stopped_at(
        SuccessiveHalving(minimum=0.05, eta=2), 0.0, [1.0], every=50
    )


def test_a_rung_is_decided_at_the_evaluation_after_it() -> None:
    """With evaluations every 250 steps, the rung at 100 steps is decided at 250 steps."""
    # At 1,000 steps the run ends, so that pruning would save no step.
    assert [250, 500] == stopped_at(HALVING, 0.0, [1.0], every=250)


@given(
    st.integers(1, 200).map(lambda number: number / 200),
    st.integers(2, 5),
    st.integers(1, 400),
    st.integers(400, 2000),
)
def test_each_rung_has_one_point(minimum: float, eta: int, every: int, steps: int) -> None:
    """A rung is decided once, less than one evaluation after its share of the budget."""
    assume(minimum < 1)
    pruner = SuccessiveHalving(minimum=minimum, eta=eta)
    evaluations = range(every, steps, every)
    decision_steps = {
        step
        for step in evaluations
        if pruner.prunes(point(0.0, [1.0], step=step, steps=steps, every=every))
    }
    expected = set()
    for rung in range(len(rungs(minimum, eta))):
        # The minimum is a multiple of 1/200, so this is exact.
        target = round(minimum * 200) * eta**rung * steps
        expected |= {step for step in evaluations if 0 <= step * 200 - target < every * 200}
    assert expected == decision_steps


@pytest.mark.parametrize(
    ("peers", "value", "continues"),
    [
        ([1.0], 0.9, False),
        ([1.0], 1.0, True),
        ([1.0, 2.0, 3.0, 4.0], 3.9, False),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 4.0, True),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 3.9, False),
        ([5.0, 5.0, 5.0, 5.0], 5.0, True),
    ],
)
def test_best_third_continues(peers: list[float], value: float, continues: bool) -> None:
    """The best third of the trials continues, with all trials that tie with the last of them."""
    assert continues == (HALVING.prunes(point(value, peers)) is None)


def test_only_the_first_seed_has_rungs() -> None:
    """A trial is not pruned in runs of later seeds."""
    assert [] == stopped_at(HALVING, 0.0, [1.0], position=1)


def test_reason_names_the_comparison() -> None:
    """The reason for pruning has the value, the number of continuing trials and the rung."""
    expected = (
        "its value 1 at 300 steps is not among the best 1 of 3 trials at rung 1 of bracket 0"
    )
    hyperband = Hyperband(minimum=0.1, eta=3)
    result = hyperband.prunes(point(1.0, {8: 2.0, 16: 3.0}, number=0, step=300))
    assert expected == result


def test_values_that_are_not_finite_are_worst() -> None:
    """A trial with a value that is not finite ends if another is better, and ends no other."""
    assert HALVING.prunes(point(nan, [1.0]))
    assert HALVING.prunes(point(1.0, [nan, nan])) is None


@pytest.mark.parametrize(
    ("minimum", "eta", "expected"),
    [
        (0.01, 3, (81, 34, 15, 8, 5)),
        (0.1, 3, (9, 5, 3)),
        (0.5, 2, (2, 2)),
    ],
)
def test_bracket_weights_equal_those_of_optuna(
    minimum: float, eta: int, expected: tuple[int, ...]
) -> None:
    """The weights of brackets are those of Optuna: 81, 34, 15, 8 and 5 for 1 % and η = 3."""
    assert expected == Hyperband(minimum=minimum, eta=eta).weights


def test_brackets_repeat_in_a_cycle() -> None:
    """A cycle has each bracket as often as its weight, and repeats."""
    hyperband = Hyperband(minimum=0.1, eta=3)
    cycle = [hyperband.bracket(number) for number in range(17)]
    assert [0, 1, 0, 2, 0, 1, 0, 2, 0, 1, 0, 1, 0, 2, 0, 1, 0] == cycle
    assert cycle == [hyperband.bracket(number) for number in range(17, 34)]


@given(st.lists(st.integers(1, 60), min_size=1, max_size=6))
def test_brackets_are_spread_evenly(weights: list[int]) -> None:
    """At every turn, each bracket has had nearly its share of trials."""
    cycle = interleaved(tuple(weights))
    assert dict(enumerate(weights)) == Counter(cycle)
    for turn in range(1, len(cycle) + 1):
        for bracket, weight in enumerate(weights):
            due = turn * weight / sum(weights)
            assert abs(cycle[:turn].count(bracket) - due) < len(weights)


def test_bracket_skips_its_first_rungs() -> None:
    """With a minimum of a tenth, the three brackets begin at 10, 30 and 90 %."""
    hyperband = Hyperband(minimum=0.1, eta=3)
    first_numbers = {hyperband.bracket(number): number for number in range(16, -1, -1)}
    rung_steps = []
    for bracket in range(3):
        number = first_numbers[bracket]
        peer = {number + 17: 1.0}
        rung_steps.append(
            [
                step
                for step in range(100, 1001, 100)
                if hyperband.prunes(point(0.0, peer, number=number, step=step))
            ]
        )
    assert [[100, 300, 900], [300, 900], [900]] == rung_steps


def test_trials_of_other_brackets_are_not_compared() -> None:
    """A better trial of another bracket does not end a trial."""
    hyperband = Hyperband(minimum=0.1, eta=3)
    assert 1 == hyperband.bracket(1)
    assert hyperband.prunes(point(0.0, {1: 9.0, 3: 9.0, 5: 9.0}, number=17)) is None
    assert hyperband.prunes(point(0.0, {0: 9.0}, number=17))
