"""What ends a search, what fails in it, and what cannot win it."""

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
    """Trials, full-run equivalents and environment steps each end a search where they say."""
    world = World(plan=plan(**changes))
    world.run(3, 0)
    assert trials == len(world.notes.proposals)


def test_hours_end_the_search() -> None:
    """No trial is suggested once the hours are over, and what runs is finished and chosen from."""
    world = World(plan=plan(hours=1.0))
    sweeping = world.open(hours=0.5)
    first = [sweeping.take() for _ in range(3)]
    sweeping.hours = lambda: 1.5
    for spec in first:
        assert spec is not None
        sweeping.ended(world.record(spec))
    assert (1, True) == (len(world.notes.proposals), sweeping.search.is_over(1.5))


def test_steps_count_what_was_planned_of_pruned_trials() -> None:
    """A pruned trial counts whole seeds before it and its own steps up to the rung."""
    world = World(
        plan=plan(trials=20), pruner=MedianPruner(startup_trials=2, warm_up=0.1), one_by_one=True
    )
    world.run(2, 0)
    for entry in world.open().search.entries:
        stop = entry.stop
        expected = 3 * STEPS if stop is None else stop.position * STEPS + stop.step
        assert expected == steps_of(entry)


def test_a_failed_trial_never_wins() -> None:
    """A trial of which one run fails is failed, whatever its other runs score."""

    def breaks(x: float, spec: RunSpec) -> float | None:
        tempting = spec.phase is Phase.TUNING and x > 0.6
        return None if tempting and spec.seed == 1 else 1e6 * x

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


@pytest.mark.parametrize(("rule", "seen"), [("worst", 2), ("exclude", 0)])
def test_the_tuner_hears_of_failures_as_declared(rule: str, seen: int) -> None:
    """With `worst` a tuner is given failed trials without a value; with `exclude`, none."""
    world = World(
        plan=plan(failures=rule, trials=6),
        score=lambda x, spec: None if x in tempting else quality(x, spec),
    )
    tempting = {p.parameters["algorithm.x"] for p in _proposed(world, 2)}
    sweeping = world.run(2, 0)
    failed = [t for t in sweeping.search.visible(6) if t.state is TrialState.FAILED]
    assert (seen, True) == (len(failed), all(t.values == () for t in failed))


def test_the_same_failure_again_and_again_stops_the_sweep() -> None:
    """Failures that differ in numbers only stop a sweep before it burns its budget."""
    world = World(score=lambda _x, _spec: None, plan=plan(trials=50, stop_after=4, lag=0))
    sweeping = world.run(2, 0)
    assert sweeping.halted is not None
    assert "4 trials in a row failed alike, from trial 0 on: step 17 broke" in sweeping.halted
    assert len(world.notes.proposals) <= 5


def test_a_configuration_that_cannot_run_is_a_failed_trial() -> None:
    """What is refused before it runs takes no run, no score and no win."""
    world = World(refused=lambda x: x != 0.5 and x > 0.4)
    world.run(2, 0)
    refused = [p for p, made in world.notes.proposals if made is None]
    assert refused
    assert all(p.refused for p in refused)
    assert world.notes.selections[0].winner not in {p.number for p in refused}


def test_a_sweep_without_a_candidate_says_so() -> None:
    """Where no trial has a score on every tuning seed nothing is chosen, with the reason."""

    def fails_late(x: float, spec: RunSpec) -> float | None:
        return None if spec.seed == 2 else quality(x, spec)

    world = World(score=fails_late, plan=plan(stop_after=100))
    sweeping = world.run(2, 0)
    assert (SweepStage.SELECTION, []) == (sweeping.stage, world.notes.selections)
    assert "none can win" in (sweeping.halted or "")


@pytest.mark.parametrize("phase", [Phase.TEST, Phase.SELECTION])
def test_a_trial_refuses_runs_of_other_phases(phase: Phase) -> None:
    """No trial can be built from a test or selection run, so that none reaches a tuner."""
    world = World()
    world.run(2, 0)
    record: RunRecord = next(r for r in world.records.values() if r.spec.phase is phase)
    with pytest.raises(ProtocolError, match="a trial can only be built from tuning runs"):
        Trial.from_records(0, {}, STEPS, [record], state=TrialState.COMPLETE, values=(1.0,))


def test_every_value_is_the_aggregate_of_its_own_runs() -> None:
    """A trial's value is the mean of exactly the scores of its own runs."""
    world = World()
    world.run(4, 0)
    for entry in world.open().search.entries:
        trial = entry.trial
        assert trial is not None
        own = [
            r.score
            for r in world.records.values()
            if r.spec.phase is Phase.TUNING
            and r.spec.algorithm["x"] == trial.parameters["algorithm.x"]
        ]
        assert sorted(trial.scores) == sorted(s for s in own if s is not None)
        assert pytest.approx(sum(trial.scores) / 3) == trial.values[0]


def test_spread_is_minimised() -> None:
    """With `spread` the trial whose runs differ least wins, in its own units."""
    world = World(plan=plan(objective="spread"), score=_wide)
    sweeping = world.run(2, 0)
    ranked = sweeping.ranked()
    assert ranked[0].values[0] == min(c.values[0] for c in ranked)
    assert (-ranked[0].values[0],) == ranked[0].merits


def _wide(x: float, spec: RunSpec) -> float:
    return spec.seed * x


def _proposed(world: World, count: int) -> list[Any]:
    rehearsal = World(plan=world.plan)
    rehearsal.run(1, 0)
    return [p for p, _ in rehearsal.notes.proposals[2 : 2 + count]]
