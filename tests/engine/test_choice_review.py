"""Cases that could choose a wrong winner: impossible scores, late failures, the wrong objective."""

from dataclasses import replace
from math import ceil

import pytest
from simulated_sweeps import STEPS, World, evaluated, plan, quality

from rlexp.engine.objectives import Objectives
from rlexp.engine.sweep_source import SweepStage
from rlexp.engine.winner_choice import choose, finalists
from rlexp.protocol.seeds import Phase, SeedPlan
from rlexp.protocol.spec import RunSpec
from rlexp.records.events import Evaluated
from rlexp.records.run import RunRecord, State
from rlexp.records.trial import TrialState


def record(curve: list[float], final: float, score: str = "auc") -> RunRecord:
    """A completed run with an evaluation every ten steps."""
    world = World(plan=plan(trials=1))
    world.run(1, 0)
    spec = next(iter(world.records.values())).spec
    return RunRecord(
        spec=replace(spec, budget={**spec.budget, "score": score}),
        state=State.COMPLETED,
        evaluations=tuple(evaluated(10 * i, value) for i, value in enumerate(curve, 1)),
        final=evaluated(STEPS, final, final=True),
    )


@pytest.mark.parametrize("huge", [1e200, -1e200, float("inf"), float("nan")])
@pytest.mark.parametrize("name", ["final", "auc", "last_window", "score"])
def test_blown_up_numbers_are_no_value(name: str, huge: float) -> None:
    """A run with an impossible score has no value for any objective."""
    objectives = Objectives(names=(name,), aggregate="mean")
    declared = "final" if name == "auc" else "auc"
    curve = [1.0, huge] if name != "final" else [1.0, 1.0]
    broken_run = record(curve, huge, score=declared)
    assert objectives.values([record([1.0], 1.0), broken_run]) is None
    assert objectives.merits([record([1.0], 1.0), broken_run]) == ()


@pytest.mark.parametrize(
    ("curve", "expected"),
    [
        ([0.5, float("inf"), 2.0], 30.0),
        ([1e200, 0.5], STEPS),
        ([float("nan"), 0.95], 20.0),
        ([0.9], 10.0),
    ],
)
def test_a_blown_up_evaluation_reaches_no_threshold(curve: list[float], expected: float) -> None:
    """An evaluation with an impossible score does not reach the threshold."""
    objectives = Objectives(names=("steps_to_threshold",), aggregate="mean", threshold=0.9)
    assert (expected,) == objectives.values([record(curve, 1.0)])
    assert (-expected,) == objectives.merits([record(curve, 1.0)])


def test_spread_is_no_number_of_a_single_run() -> None:
    """Single runs cannot be compared by spread, which needs several runs."""
    spread = Objectives(names=("spread",), aggregate="mean")
    assert () == spread.merits([record([1.0], 1.0), record([1.0], 2.0)])


def test_a_race_is_about_what_is_optimised() -> None:
    """A race by steps_to_threshold keeps the trial that reaches the threshold first."""

    class Turned(World):
        """A world in which a better final policy reaches the threshold later."""

        def record(self, spec: RunSpec) -> RunRecord:
            """The run with a curve that jumps from 0 to 1 at a step that x decides."""
            run_record = World.record(self, spec)
            jump = 10 + 80 * spec.algorithm["x"]
            curve = tuple(
                evaluated(e.step, 1.0 if e.step >= jump else 0.0) for e in run_record.evaluations
            )
            return replace(run_record, evaluations=curve)

    world = Turned(
        plan=plan(allocation="racing", objective="steps_to_threshold", trials=20, lag=0),
        one_by_one=True,
        seeds=SeedPlan(root=0, tuning=6, selection=0, test=1),
        score=lambda x, spec: 100 * x + spec.seed,
    )
    sweeping = world.run(2, 0)
    entries = sweeping.search.entries
    assert any(entry.stop is not None for entry in entries)
    # Evaluated at 20, 30, … steps.
    reached = [ceil((10 + 80 * e.proposal.parameters["algorithm.x"]) / 10) * 10 for e in entries]
    winner = world.notes.selections[0].winner
    assert (min(reached), None) == (reached[winner], entries[winner].stop)


@pytest.mark.parametrize("workers", [1, 4])
def test_the_next_goes_on_where_a_promoted_trial_fails(workers: int) -> None:
    """A promoted trial that fails on a later seed is replaced by the next best trial."""
    best_x = _best_screened()

    def breaks(x: float, spec: RunSpec) -> float | None:
        return None if x == best_x and spec.seed == 2 else quality(x, spec)

    world = World(plan=plan(allocation="two_stage", promoted=0.05), score=breaks)
    sweeping = world.run(workers, 0)
    assert (SweepStage.DONE, None) == (sweeping.stage, sweeping.halted)
    tuning = [r for r in world.records.values() if r.spec.phase is Phase.TUNING]
    assert 12 + 2 + 2 == len(tuning)
    winner = sweeping.search.entries[world.notes.selections[0].winner].trial
    assert winner is not None
    assert (TrialState.COMPLETE, True) == (
        winner.state,
        winner.parameters["algorithm.x"] != best_x,
    )


def test_a_choice_says_when_selection_could_not_decide() -> None:
    """One selection seed has no spread: the tuning seeds decide, and the rule says so."""
    world = World(
        plan=plan(objective="spread"), seeds=SeedPlan(root=0, tuning=3, selection=1, test=1)
    )
    world.run(2, 0)
    selection = world.notes.selections[0]
    assert selection.finalists[0].number == selection.winner
    assert (
        "best mean spread on 3 tuning seeds (no finalist has a spread on all 1 selection seed)"
        == selection.rule
    )


def test_a_finalist_that_fails_on_selection_seeds_loses() -> None:
    """A finalist with a failed selection run loses, whatever its other scores are."""
    world = World(plan=plan(finalists=3))
    sweeping = world.run(2, 0)
    question = sweeping.search.question
    candidates = finalists(sweeping.ranked(), question)
    runs = {
        c.number: [
            RunRecord(spec=_selection_spec(world, k), state=State.COMPLETED, final=_final(1e6))
            for k in range(2)
        ]
        for c in candidates
    }
    first = candidates[0].number
    runs[first][1] = replace(runs[first][1], state=State.FAILED)
    runs[candidates[2].number][0] = replace(runs[candidates[2].number][0], final=_final(2e6))
    selection = choose(candidates, runs, 2, question)
    assert (candidates[2].number, "among 2 finalists" in selection.rule) == (
        selection.winner,
        True,
    )
    for records in runs.values():
        records[0] = replace(records[0], state=State.FAILED)
    selection = choose(candidates, runs, 2, question)
    assert (first, True) == (selection.winner, "no finalist has a score" in selection.rule)


def _best_screened() -> float:
    rehearsal = World(plan=plan(allocation="two_stage", promoted=0.05))
    rehearsal.run(1, 0)
    promoted = [
        r for r in rehearsal.records.values() if r.spec.phase is Phase.TUNING and r.spec.seed == 2
    ]
    (best,) = promoted
    x: float = best.spec.algorithm["x"]
    return x


def _selection_spec(world: World, position: int) -> RunSpec:
    specs = [r.spec for r in world.records.values() if r.spec.phase is Phase.SELECTION]
    return specs[position]


def _final(value: float) -> Evaluated:
    return evaluated(STEPS, value, final=True)
