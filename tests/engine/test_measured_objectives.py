"""Objectives that are measures: their values, directions, pruning and choice."""

from dataclasses import replace
from typing import Any

import pytest
from samples import evaluated, spec
from simulated_sweeps import plan

from rlexp.engine.objectives import Objectives
from rlexp.engine.search import SearchProblem
from rlexp.engine.winner_choice import WinnerCandidate, choose
from rlexp.protocol.seeds import Phase
from rlexp.records.run import RunRecord, State

COST = Objectives(
    names=("score",),
    aggregate="mean",
    minimised=frozenset({"score"}),
    score_quantity="cost",
    score_minimised=True,
    threshold=2.0,
)


def run(cost: float, seed: int = 0, phase: Phase = Phase.TUNING, **budget: Any) -> RunRecord:
    """A completed run whose cost falls to this value; its return is opposite to what is scored."""
    curve = tuple(
        replace(evaluated(step, 10 * cost), measures={"cost": (cost + 100 - step,)})
        for step in (50, 100)
    )
    final = replace(evaluated(100, 10 * cost, final=True), measures={"cost": (cost,)})
    return RunRecord(
        spec=spec(seed, phase, **{"score": "cost", **budget}),
        state=State.COMPLETED,
        evaluations=curve,
        final=final,
    )


def test_a_minimised_score_is_better_the_lower_it_is() -> None:
    """Values are shown as they are; merits have the sign that makes greater ones better."""
    assert (3.0,) == COST.values([run(2.0), run(4.0, 1)])
    assert (-3.0,) == COST.oriented((3.0,))
    assert (-2.0, -4.0) == COST.merits([run(2.0), run(4.0, 1)])


def test_an_objective_may_name_a_measure_beside_the_score() -> None:
    """A sweep can optimise a measure while runs are scored by their return."""
    both = Objectives(names=("score", "cost"), aggregate="mean", minimised=frozenset({"cost"}))
    records = [run(2.0, score="final")]
    assert (20.0, 2.0) == both.values(records)
    assert (20.0, -2.0) == both.oriented((20.0, 2.0))
    assert both.values([replace(run(2.0, score="final"), final=evaluated(100, 1.0))]) is None


@pytest.mark.parametrize(
    ("objectives", "expected"),
    [
        (COST, -52.0),
        (replace(COST, minimised=frozenset(), score_minimised=False), 52.0),
        (replace(COST, names=("final",), minimised=frozenset()), 20.0),
        (replace(COST, names=("cost",), minimised=frozenset({"cost"})), -52.0),
        (Objectives(names=("cost",), aggregate="mean"), 52.0),
    ],
)
def test_pruners_judge_evaluations_by_the_objective(
    objectives: Objectives, expected: float
) -> None:
    """A pruner sees the measure of the objective, with greater values better."""
    assert expected == objectives.height(run(2.0).evaluations[0])


def test_pruners_judge_whole_runs_by_the_objective() -> None:
    """Between seeds, a pruner sees the cost with the sign that makes greater ones better."""
    assert -2.0 == COST.judged(run(2.0))
    named = replace(COST, names=("cost",), minimised=frozenset({"cost"}), score_minimised=False)
    assert -2.0 == named.judged(run(2.0))
    assert 20.0 == Objectives(names=("auc",), aggregate="mean").judged(run(2.0, score="final"))


def test_pruners_judge_whole_runs_by_their_return_if_that_is_the_objective() -> None:
    """Where runs are scored by a cost, the objective `final` is still their mean return."""
    final = replace(COST, names=("final",), minimised=frozenset())
    assert (20.0, 20.0) == (final.height(run(2.0).evaluations[0]), final.judged(run(2.0)))


def test_a_minimised_score_reaches_its_threshold_from_above() -> None:
    """A task with a cost counts as solved at the first evaluation at or below the threshold."""
    steps = replace(COST, names=("steps_to_threshold",), minimised=frozenset())
    assert (100.0,) == steps.values([run(2.0)])
    assert (50.0,) == replace(steps, threshold=52.0).values([run(2.0)])


def test_selection_seeds_choose_the_lowest_cost() -> None:
    """The winner is the finalist with the lowest cost on selection seeds."""
    problem = SearchProblem(plan=plan(), seeds=1, steps=100, every=50, objectives=COST, default={})
    ranked = [WinnerCandidate(n, (1.0,), (-1.0,), (1.0,)) for n in (0, 1)]
    selection = {0: [run(5.0, phase=Phase.SELECTION)], 1: [run(4.0, phase=Phase.SELECTION)]}
    assert 1 == choose(ranked, selection, 1, problem).winner
