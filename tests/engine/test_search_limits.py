"""Limits of a search, failures in a search, and trials that cannot win it."""

from typing import Any

import pytest
from simulated_sweeps import STEPS, World, plan, quality

from rlexp.engine.sweep_source import SweepStage
from rlexp.engine.trial_state import steps_of
from rlexp.errors import ProtocolError
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.pruners.median import MedianPruner
from rlexp.records.run import RunRecord
from rlexp.records.trial import Trial, TrialState


@pytest.mark.parametrize(
    ("changes", "trials"),
    [
        ({"trials": 5}, 5),
        ({"full_runs": 4.0}, 4),
        ({"full_runs": 3.5}, 4),
        ({"steps": 3 * 3 * STEPS}, 3),
        ({"steps": 3 * 3 * STEPS + 299}, 3),
        ({"steps": 4 * STEPS, "allocation": "two_stage"}, 2),
        ({"steps": 6 * STEPS, "allocation": "two_stage"}, 4),
    ],
)
def test_a_limit_ends_the_search(changes: dict[str, Any], trials: int) -> None:
    """A limit on trials, full runs or steps ends a search after the expected trials."""
    world = World(plan=plan(**changes))
    world.run(3, 0)
    assert trials == len(world.notes.proposals)


def test_hours_end_the_search() -> None:
    """No further trial is suggested once the hours are over."""
    world = World(plan=plan(hours=1.0))
    sweeping = world.open(hours=0.5)
    first = [sweeping.take() for _ in range(3)]
    sweeping.hours = lambda: 1.5
    for spec in first:
        assert spec is not None
        sweeping.ended(world.record(spec))
    assert (1, True) == (len(world.notes.proposals), sweeping.search.is_over(1.5))


def test_steps_count_what_was_planned_of_pruned_trials() -> None:
    """A pruned trial counts its earlier seeds in full and its last seed up to the rung."""
    world = World(
        plan=plan(trials=20), pruner=MedianPruner(startup_trials=2, warm_up=0.1), one_by_one=True
    )
    world.run(2, 0)
    for entry in world.open().search.entries:
        stop = entry.stop
        expected = 3 * STEPS if stop is None else stop.position * STEPS + stop.step
        assert expected == steps_of(entry)


def test_a_failed_trial_never_wins() -> None:
    """A trial with one failed run is failed and does not win, whatever its other runs score."""

    def breaks(x: float, spec: RunSpec) -> float | None:
        has_high_x = spec.phase is Phase.TUNING and x > 0.6
        return None if has_high_x and spec.seed == 1 else 1e6 * x

    world = World(score=breaks, plan=plan(stop_after=20))
    sweeping = world.run(2, 0)
    failed = {
        e.proposal.number
        for e in sweeping.search.entries
        if e.trial is not None and e.trial.state is TrialState.FAILED
    }
    assert {
        p.number for p, _ in world.notes.proposals if p.parameters["algorithm.x"] > 0.6
    } == failed
    assert world.notes.selections[0].winner not in failed


@pytest.mark.parametrize(("rule", "count"), [("worst", 2), ("exclude", 0)])
def test_the_tuner_hears_of_failures_as_declared(rule: str, count: int) -> None:
    """A tuner gets failed trials without a value under `worst`, and none under `exclude`."""
    world = World(
        plan=plan(failures=rule, trials=6),
        score=lambda x, spec: None if x in failing else quality(x, spec),
    )
    failing = {p.parameters["algorithm.x"] for p in _rehearsed_proposals(world, 2)}
    sweeping = world.run(2, 0)
    failed = [t for t in sweeping.search.visible(6) if t.state is TrialState.FAILED]
    assert (count, True) == (len(failed), all(t.values == () for t in failed))


def test_the_same_failure_again_and_again_stops_the_sweep() -> None:
    """Four failures with the same reason in a row stop a sweep, which names the reason."""
    world = World(score=lambda _x, _spec: None, plan=plan(trials=50, stop_after=4, lag=0))
    sweeping = world.run(2, 0)
    assert sweeping.halted is not None
    assert "4 trials in a row failed alike, from trial 0 on: step 17 broke" in sweeping.halted
    assert len(world.notes.proposals) <= 5


def test_a_configuration_that_cannot_run_is_a_failed_trial() -> None:
    """A trial whose configuration is refused is recorded as refused and does not win."""
    world = World(refused=lambda x: x != 0.5 and x > 0.4)
    world.run(2, 0)
    refused = [p for p, trial_configuration in world.notes.proposals if not trial_configuration]
    assert refused
    assert all(p.refused for p in refused)
    assert world.notes.selections[0].winner not in {p.number for p in refused}


def test_a_sweep_without_a_candidate_says_so() -> None:
    """A sweep in which no trial has a score on every tuning seed chooses none and says why."""

    def fails_late(x: float, spec: RunSpec) -> float | None:
        return None if spec.seed == 2 else quality(x, spec)

    world = World(score=fails_late, plan=plan(stop_after=100))
    sweeping = world.run(2, 0)
    assert (SweepStage.SELECTION, []) == (sweeping.stage, world.notes.selections)
    assert "none can win" in (sweeping.halted or "")


@pytest.mark.parametrize("phase", [Phase.TEST, Phase.SELECTION])
def test_a_trial_refuses_runs_of_other_phases(phase: Phase) -> None:
    """A trial cannot be built from test or selection runs, so no tuner sees them."""
    world = World()
    world.run(2, 0)
    record: RunRecord = next(r for r in world.records.values() if r.spec.phase is phase)
    with pytest.raises(ProtocolError, match="a trial can only be built from tuning runs"):
        Trial.from_records(0, {}, STEPS, [record], state=TrialState.COMPLETE, values=(1.0,))


def test_every_value_is_the_aggregate_of_its_own_runs() -> None:
    """The value of a trial is the mean score of its own tuning runs."""
    world = World()
    world.run(4, 0)
    for entry in world.open().search.entries:
        trial = entry.trial
        assert trial is not None
        scores = [
            r.score
            for r in world.records.values()
            if r.spec.phase is Phase.TUNING
            and r.spec.algorithm["x"] == trial.parameters["algorithm.x"]
        ]
        assert sorted(trial.scores) == sorted(s for s in scores if s is not None)
        assert pytest.approx(sum(trial.scores) / 3) == trial.values[0]


def test_spread_is_minimised() -> None:
    """With `spread` as the objective the trial with the smallest spread ranks first."""
    world = World(plan=plan(objective="spread"), score=_spread_by_x)
    sweeping = world.run(2, 0)
    ranked = sweeping.ranked()
    assert ranked[0].values[0] == min(c.values[0] for c in ranked)
    assert (-ranked[0].values[0],) == ranked[0].merits


def _spread_by_x(x: float, spec: RunSpec) -> float:
    return spec.seed * x


def _rehearsed_proposals(world: World, count: int) -> list[Any]:
    rehearsal = World(plan=world.plan)
    rehearsal.run(1, 0)
    return [p for p, _ in rehearsal.notes.proposals[2 : 2 + count]]
