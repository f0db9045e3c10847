"""Cases that could end a search differently: shared, repeated, lost and failed runs."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from in_full import IN_FULL
from simulated_sweeps import EVERY, STEPS, World, evaluated, plan, quality

from rlexp.engine.search import EarlierValues, Search
from rlexp.engine.sweep_source import SweepStage
from rlexp.engine.trial_state import Proposal, steps_of
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec
from rlexp.pruners import PruningPoint
from rlexp.pruners.hyperband import Hyperband
from rlexp.pruners.median import MedianPruner
from rlexp.records.run import RunRecord, State
from rlexp.records.trial import TrialState
from rlexp.tuners import Problem, Suggester, Suggestion
from rlexp.tuners.random import RandomSearch
from rlexp.tuners.tpe import TPE

MEDIAN = MedianPruner(startup_trials=2, warm_up=0.1)


@dataclass(frozen=True)
class Coarse:
    """A tuner that suggests a few configurations many times, the default among them."""

    inner: Any

    def open(self, problem: Problem) -> Suggester:
        """Open the inner tuner with rounded suggestions."""
        return _Rounded(self.inner.open(problem))


@dataclass(frozen=True)
class _Rounded:
    inner: Suggester

    def needs(self, number: int) -> int:
        """The number of ended trials that the inner tuner needs."""
        return self.inner.needs(number)

    def suggest(self, trials: Any, number: int) -> Suggestion | None:
        """The inner tuner's suggestion, rounded to multiples of 1/4."""
        suggestion = self.inner.suggest(trials, number)
        assert suggestion is not None
        return replace(
            suggestion, parameters={k: round(4 * v) / 4 for k, v in suggestion.parameters.items()}
        )


@dataclass(slots=True)
class Crossing(World):
    """A world whose evaluations say little about scores, so that rungs judge differently."""

    def record(self, spec: RunSpec) -> RunRecord:
        """The run with noise on its curve that depends on the run and the step only."""
        run_record = World.record(self, spec)
        name = f"{spec.algorithm['x']:.9f} {spec.seed}"
        curve = tuple(
            evaluated(e.step, e.mean + random.Random(f"{name} {e.step}").gauss(0, 0.5))
            for e in run_record.evaluations
        )
        return replace(run_record, evaluations=curve)


HYPERBAND = Hyperband(minimum=0.1, eta=2)
PARZEN = TPE(startup=3, candidates=8, multivariate=True)
REPEATING: dict[str, dict[str, Any]] = {
    "hyperband": {"pruner": HYPERBAND, "one_by_one": True, "plan": plan(trials=30)},
    "hyperband, two stages": {
        "pruner": HYPERBAND,
        "one_by_one": True,
        "plan": plan(trials=30, allocation="two_stage"),
    },
    "median": {
        "pruner": MEDIAN,
        "one_by_one": True,
        "plan": plan(trials=25, allocation="two_stage", objective="auc"),
    },
    "racing": {"plan": plan(trials=25, allocation="racing"), "one_by_one": True},
    "fixed": {"plan": plan(trials=25)},
}


@pytest.mark.parametrize("kind", REPEATING)
@pytest.mark.parametrize("tuner", [RandomSearch(), PARZEN])
def test_configurations_that_come_again_change_nothing(kind: str, tuner: Any) -> None:
    """Trials that share runs are the same, whatever the order and the interruptions of runs."""
    alone = Crossing(tuner=Coarse(tuner), **REPEATING[kind])
    alone.run(1, 0)
    for order in (1, 2):
        many = Crossing(tuner=Coarse(tuner), **REPEATING[kind])
        many.run(8, order, cut=5 * order)
        many.run(4, order)
        assert alone.outcome() == many.outcome()


def test_a_twin_makes_no_runs_and_comes_to_the_same() -> None:
    """A repeated configuration has its first trial's value, no runs and no finalist's place."""
    world = World(tuner=Coarse(RandomSearch()), plan=plan(finalists=3))
    sweeping = world.run(2, 0)
    entries = sweeping.search.entries
    values: dict[float, Any] = {}
    for entry in entries:
        assert entry.trial is not None
        x = entry.trial.parameters["algorithm.x"]
        assert values.setdefault(x, entry.trial.values) == entry.trial.values
        assert (entry.twin is None, 3 * STEPS if entry.twin is None else 0) == (
            x not in [e.proposal.parameters["algorithm.x"] for e in entries[: entry.trial.number]],
            steps_of(entry),
        )
    tuning = [r for r in world.records.values() if r.spec.phase is Phase.TUNING]
    assert 3 * len(values) == len(tuning)
    finalists = [entries[f.number] for f in world.notes.selections[0].finalists]
    assert 3 == len({e.proposal.parameters["algorithm.x"] for e in finalists})


def test_runs_ended_for_a_failure_are_made_again_when_it_is_healed() -> None:
    """Runs that ended for the failure of another run are repeated once that run succeeds."""
    healthy = World()
    healthy.run(2, 0)
    failing: set[float] = {p.parameters["algorithm.x"] for p, _ in healthy.notes.proposals[2:9:2]}

    def breaks(x: float, spec: RunSpec) -> float | None:
        return None if x in failing and spec.seed == 0 else quality(x, spec)

    world = World(score=breaks)
    sweeping = world.open(until=SweepStage.SEARCH)
    _search(world, sweeping, workers=6)
    failed = [k for k, r in world.records.items() if r.state is State.FAILED]
    pruned = [r for r in world.records.values() if r.state is State.PRUNED]
    assert (4, True) == (len(failed), bool(pruned))
    for key in failed:
        del world.records[key]
    world.score = quality
    world.run(3, 0)
    assert healthy.outcome() == world.outcome()


@pytest.mark.parametrize("lost_trial", range(4))
def test_a_trial_is_judged_when_those_before_it_have_ended(lost_trial: int) -> None:
    """After the loss of a run, later trials are judged only when that run was repeated."""
    undisturbed = Crossing(pruner=MEDIAN, one_by_one=True, plan=plan(trials=20, lag=1))
    undisturbed.run(2, 0)
    world = Crossing(pruner=MEDIAN, one_by_one=True, plan=plan(trials=20, lag=1))
    world.run(2, 0, cut=40)
    assert not world.notes.selections
    spec = world.open().runs_of(lost_trial)[0]
    del world.records[spec.id]
    sweeping = world.open()
    lost_entry = sweeping.search.entries[lost_trial]
    later_entries = [e for e in sweeping.search.entries if e.proposal.number - 1 > lost_trial]
    assert lost_entry.trial is None
    assert later_entries
    assert all(entry.trial is None for entry in later_entries)
    _search(world, sweeping, workers=3)
    expected = undisturbed.outcome()["trials"][: len(sweeping.search.entries)]
    assert expected == [e.trial for e in sweeping.search.entries]


def test_an_evaluation_at_the_end_of_a_run_saves_nothing() -> None:
    """A run is not pruned at an evaluation that falls on the end of its budget."""

    @dataclass(frozen=True)
    class Always:
        def prunes(self, point: PruningPoint) -> str | None:
            return None if point.ends_run or point.step < 90 else "always"

    search = _search_of(Always(), every=33)
    search.add(Proposal(number=0, parameters={}, steps=STEPS))
    # Rollouts of 25 environments: the multiples of 33 are passed at 50, 75 and 100.
    search.observe(0, 0, [evaluated(step, 1.0) for step in (50, 75, 100)])
    assert ({33: 1.0, 66: 1.0}, None) == (search.entries[0].intermediate, search.entries[0].stop)


def test_a_failed_trial_is_no_standard() -> None:
    """The evaluations of a failed trial are not used to judge other trials."""
    peers: dict[int, Mapping[int, float]] = {}

    @dataclass(frozen=True)
    class Watching:
        def prunes(self, point: PruningPoint) -> str | None:
            peers[point.number] = dict(point.peers)
            return None

    search = _search_of(Watching(), every=EVERY)
    for number in range(3):
        search.add(Proposal(number=number, parameters={}, steps=STEPS))
    spec = next(iter(_finished_world().records.values())).spec
    search.observe(0, 0, [evaluated(EVERY, 7.0)])
    search.end(0, 0, RunRecord(spec=spec, state=State.FAILED))
    search.observe(1, 0, [evaluated(EVERY, 1.0)])
    search.end(1, 0, RunRecord(spec=spec, state=State.FAILED, evaluations=()))
    search.observe(2, 0, [evaluated(EVERY, 2.0)])
    assert ({}, {}) == (peers[1], peers[2])
    trial = search.entries[0].trial
    assert trial is not None
    assert (TrialState.FAILED, {}) == (trial.state, trial.intermediate)


@pytest.mark.parametrize("huge", [1e200, -1e200, float("inf"), float("nan")])
def test_what_no_score_can_be_is_not_compared(huge: float) -> None:
    """An evaluation with an impossible score is left out of the comparison at a rung."""
    search = _search_of(MEDIAN, every=EVERY)
    search.add(Proposal(number=0, parameters={}, steps=STEPS))
    search.observe(0, 0, [evaluated(EVERY, huge), evaluated(2 * EVERY, 1.0)])
    assert {2 * EVERY: 1.0} == search.entries[0].intermediate


@given(
    values=st.dictionaries(st.integers(0, 30), st.floats(-1e9, 1e9)),
    before=st.integers(0, 30),
)
def test_earlier_values_are_those_below_a_number(values: dict[int, float], before: int) -> None:
    """EarlierValues equals the values whose numbers are below the given number."""
    expected = {n: v for n, v in values.items() if n < before}
    earlier = EarlierValues(values, before)
    assert expected == dict(earlier)
    assert (len(expected), list(expected.values())) == (len(earlier), list(earlier.values()))


@settings(max_examples=60 if IN_FULL else 10, deadline=None)
@given(
    tuner=st.sampled_from([RandomSearch(), PARZEN]),
    kind=st.sampled_from(sorted(REPEATING)),
    cut=st.integers(5, 80),
    dice=st.integers(0, 1000),
)
def test_a_lost_run_changes_nothing(tuner: Any, kind: str, cut: int, dice: int) -> None:
    """A sweep that was killed and has lost a run ends like an undisturbed one."""
    undisturbed = Crossing(tuner=Coarse(tuner), **REPEATING[kind])
    undisturbed.run(1, 0)
    killed = Crossing(tuner=Coarse(tuner), **REPEATING[kind])
    killed.run(4, dice, cut)
    if killed.records and not killed.notes.selections:
        del killed.records[random.Random(dice).choice(sorted(killed.records))]
    sweeping = killed.run(3, dice)
    assert undisturbed.outcome() == killed.outcome()
    assert undisturbed.outcome()["trials"] == [e.trial for e in sweeping.search.entries]


def _finished_world() -> World:
    world = World(plan=plan(trials=1))
    world.run(1, 0)
    return world


def _search_of(pruner: Any, every: int) -> Search:
    existing = World(plan=plan(lag=0)).open().search
    return Search(
        replace(existing.question, every=every), existing.suggester, pruner, one_by_one=True
    )


def _search(world: World, sweeping: Any, workers: int) -> None:
    """Finish the search with `workers` runs at a time, oldest first, and no later phase."""
    running: list[RunSpec] = []
    while True:
        while len(running) < workers and (spec := sweeping.take()) is not None:
            if spec.phase is not Phase.TUNING:
                return
            running.append(spec)
        if not running:
            return
        world.finish(sweeping, running.pop(0))
