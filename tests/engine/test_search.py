"""A search finds the same trials, whatever its workers, their order and its interruptions."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from in_full import IN_FULL
from simulated_sweeps import EVERY, STEPS, World, plan, quality

from rlexp.engine.sweep_source import SweepSource, SweepStage
from rlexp.protocol.seeds import Phase, SeedPlan
from rlexp.protocol.spec import RunSpec
from rlexp.pruners import Pruner
from rlexp.pruners.median import MedianPruner
from rlexp.pruners.none import Never
from rlexp.pruners.successive_halving import SuccessiveHalving
from rlexp.pruners.wilcoxon import Wilcoxon
from rlexp.records.run import RunRecord
from rlexp.records.trial import TrialState
from rlexp.tuners import Tuner
from rlexp.tuners.dehb import DEHB
from rlexp.tuners.random import RandomSearch
from rlexp.tuners.tpe import TPE

MEDIAN = MedianPruner(startup_trials=2, warm_up=0.1)
HALVING = SuccessiveHalving(minimum=0.1, eta=2)
WILCOXON = Wilcoxon(threshold=0.2, startup_seeds=2)
EVOLUTION = DEHB(minimum=1 / 4, eta=2, mutation_factor=0.5, crossover_probability=0.5)
PARZEN = TPE(startup=3, candidates=8, multivariate=True)
KINDS: dict[str, dict[str, Any]] = {
    "fixed": {"plan": plan()},
    "fixed, one by one, median": {"plan": plan(), "pruner": MEDIAN, "one_by_one": True},
    "fixed, halving": {"plan": plan(), "pruner": HALVING, "one_by_one": True},
    "racing": {"plan": plan(allocation="racing"), "pruner": WILCOXON, "one_by_one": True},
    "two stages": {"plan": plan(allocation="two_stage")},
    "two stages, TPE": {"plan": plan(allocation="two_stage"), "tuner": PARZEN},
    "two stages, TPE, median": {
        "plan": plan(allocation="two_stage", lag=1),
        "tuner": PARZEN,
        "pruner": MEDIAN,
        "one_by_one": True,
    },
    "two stages, fewer episodes while screening": {
        "plan": plan(allocation="two_stage", screening_episodes=1),
        "tuner": PARZEN,
    },
    "two stages, DEHB that continues runs": {
        "plan": plan(trials=16, allocation="two_stage", continuation=True, screening_episodes=1),
        "tuner": EVOLUTION,
    },
    "fixed, DEHB that continues runs, median": {
        "plan": plan(trials=16, continuation=True),
        "tuner": EVOLUTION,
        "pruner": MEDIAN,
        "one_by_one": True,
    },
}


@pytest.mark.parametrize("kind", KINDS)
def test_workers_and_order_change_nothing(kind: str) -> None:
    """One, two and eight workers come to the same trials and winner in any order of ends."""
    alone = World(**KINDS[kind])
    alone.run(1, 0)
    for workers, order in ((2, 1), (8, 2)):
        many = World(**KINDS[kind])
        many.run(workers, order)
        assert alone.outcome() == many.outcome()
    assert len(alone.notes.selections) == 1


@settings(max_examples=200 if IN_FULL else 20, deadline=None)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    cuts=st.lists(st.integers(0, 60), min_size=1, max_size=4),
    workers=st.integers(1, 8),
)
def test_a_killed_command_changes_nothing(kind: str, cuts: list[int], workers: int) -> None:
    """A sweep that is killed at several moments ends like one that was never killed."""
    undisturbed, killed = World(**KINDS[kind]), World(**KINDS[kind])
    undisturbed.run(2, 0)
    for order, cut in enumerate(cuts):
        killed.run(workers, order, cut)
    sweeping = killed.run(workers, 99)
    assert undisturbed.outcome() == killed.outcome()
    assert sweeping.stage is SweepStage.DONE


def test_a_longer_search_begins_as_the_shorter_one() -> None:
    """A sweep that grows to twelve trials equals one that was planned with twelve."""
    grown = World(plan=plan(trials=7, allocation="two_stage"), tuner=PARZEN)
    first = grown.open(until=SweepStage.SEARCH)
    _work(grown, first)
    assert grown.notes.selections == []
    grown.plan = plan(trials=12, allocation="two_stage")
    grown.run(2, 5)
    direct = World(plan=plan(trials=12, allocation="two_stage"), tuner=PARZEN)
    direct.run(2, 0)
    assert direct.outcome()["parameters"] == grown.outcome()["parameters"]
    assert [t.values for t in direct.outcome()["trials"]] == [
        t.values for t in grown.outcome()["trials"]
    ]


def test_a_trial_is_suggested_from_those_before_its_lag() -> None:
    """Trial n is suggested from the trials 0 … n − 1 − lag and no others."""
    visible_trials: dict[int, int] = {}
    problem: Any = None

    class Watching:
        def needs(self, number: int) -> int:
            return 0

        def suggest(self, trials: Any, number: int) -> Any:
            visible_trials[number] = len(trials)
            return RandomSearch().open(problem).suggest(trials, number)

    class Tuning:
        def open(self, opened: Any) -> Any:
            nonlocal problem
            problem = opened
            return Watching()

    tuner: Tuner = Tuning()
    World(plan=plan(lag=4), tuner=tuner).run(8, 1)
    assert {n: max(n - 4, 0) for n in range(1, 12)} == visible_trials


def test_only_promoted_trials_reach_all_tuning_seeds() -> None:
    """Of twelve screened trials only the best quarter is trained on further seeds."""
    world = World(plan=plan(allocation="two_stage"))
    sweeping = world.run(2, 0)
    tuning = [r for r in world.records.values() if r.spec.phase is Phase.TUNING]
    screened = {r.spec.fingerprint: r.score or 0.0 for r in tuning if r.spec.seed == 0}
    promoted = {r.spec.fingerprint for r in tuning if r.spec.seed == 1}
    best = sorted(screened, key=lambda f: -screened[f])[:3]
    assert (12, set(best)) == (len(screened), promoted)
    assert {c.number for c in sweeping.ranked()} >= {world.notes.selections[0].winner}


def test_only_screening_runs_have_fewer_final_episodes() -> None:
    """Runs on the first tuning seed have fewer final episodes; promoted, selection and test runs all."""
    world = World(plan=plan(allocation="two_stage", screening_episodes=1))
    sweeping = world.run(2, 0)
    full = sweeping.configurations[0][0].budget.final_episodes
    episodes = {
        (r.spec.phase, r.spec.seed): r.spec.budget["final_episodes"]
        for r in world.records.values()
    }
    assert full > 1
    assert {
        (Phase.TUNING, 0): 1,
        **{(Phase.TUNING, seed): full for seed in (1, 2)},
        **{(phase, seed): full for phase in (Phase.SELECTION, Phase.TEST) for seed in (0, 1)},
    } == episodes
    everywhere = World(plan=plan(allocation="two_stage")).run(2, 0)
    screening, promoted = (sweeping.runs_of(0)[p].id for p in (0, 1))
    assert screening != everywhere.runs_of(0)[0].id
    assert promoted == everywhere.runs_of(0)[1].id


def test_no_test_run_exists_before_the_choice() -> None:
    """The first test run is taken after the choice was written down."""
    world = World()
    sweeping = world.open()
    while (spec := sweeping.take()) is not None:
        assert (spec.phase is Phase.TEST) == bool(world.notes.selections)
        record = world.record(spec)
        world.records[spec.id] = record
        sweeping.ended(record)
    assert len(world.notes.selections) == 1


def test_test_scores_cannot_touch_the_choice() -> None:
    """Proposals, finalists and winner are the same whatever test runs score."""

    def hostile(x: float, spec: RunSpec) -> float | None:
        return -1e6 * x if spec.phase is Phase.TEST else quality(x, spec)

    fair, unfair = World(), World(score=hostile)
    fair.run(2, 0)
    unfair.run(2, 0)
    assert fair.notes.proposals == unfair.notes.proposals
    assert fair.notes.selections == unfair.notes.selections


def test_selection_seeds_choose_among_finalists() -> None:
    """The finalist with the best score on selection seeds wins, whatever tuning seeds say."""

    def turned(x: float, spec: RunSpec) -> float:
        return -abs(x - 0.7) if spec.phase is Phase.TUNING else abs(x - 0.7)

    world = World(score=turned)
    world.run(2, 0)
    selection = world.notes.selections[0]
    first, second = selection.finalists
    assert sum(first.tuning) > sum(second.tuning)
    assert second.number == selection.winner


def test_without_selection_seeds_the_incumbent_wins() -> None:
    """Without selection seeds the best trial on tuning seeds wins, and the rule says so."""
    world = World(seeds=SeedPlan(root=0, tuning=2, selection=0, test=1))
    sweeping = world.run(2, 0)
    selection = world.notes.selections[0]
    assert sweeping.ranked()[0].number == selection.winner
    assert "no selection seeds" in selection.rule


@pytest.mark.parametrize("pruner", [MEDIAN, HALVING])
def test_a_pruned_trial_ends_at_its_rung(pruner: Pruner) -> None:
    """A pruned trial is no finalist, and its last evaluation is the one it was judged at."""
    world = World(pruner=pruner, one_by_one=True, plan=plan(trials=20))
    world.run(4, 0)
    pruned = [e for e in world.open().search.entries if e.stop is not None]
    assert pruned
    for entry in pruned:
        assert entry.trial is not None
        assert entry.stop is not None
        assert entry.trial.state is TrialState.PRUNED
        assert entry.stop.step < STEPS
        assert max(entry.trial.intermediate) == entry.stop.position * STEPS + entry.stop.step
        assert entry.stop.step % EVERY == 0
    finalists = {f.number for s in world.notes.selections for f in s.finalists}
    assert not finalists & {e.proposal.number for e in pruned}


def test_pruning_saves_steps() -> None:
    """A search with a pruner trains fewer steps than one without."""
    costs = []
    for pruner in (Never(), HALVING):
        world = World(pruner=pruner, one_by_one=True, plan=plan(trials=20))
        world.run(2, 0)
        tuning = [r for r in world.records.values() if r.spec.phase is Phase.TUNING]
        costs.append(sum(r.spent for r in tuning))
    assert costs[1] < 0.9 * costs[0]


def _work(world: World, sweeping: SweepSource) -> None:
    while (spec := sweeping.take()) is not None:
        record: RunRecord = world.record(spec)
        world.records[spec.id] = record
        sweeping.ended(record)


def test_a_trial_with_more_steps_continues_the_run_with_fewer_steps() -> None:
    """Its run has the parent that the proposal stores, and the search counts the further steps only."""
    plan_of_two_stages = plan(trials=16, allocation="two_stage", continuation=True)
    world = World(plan=plan_of_two_stages, tuner=EVOLUTION)
    sweeping = world.run(2, 0)
    longer = [p for p, _ in world.notes.proposals if p.parents]
    assert longer
    for proposal in longer:
        (spec, *others) = sweeping.runs_of(proposal.number)
        parent = sweeping.runs_of(proposal.parent or 0)[0]
        assert (parent.id, parent.budget["steps"] - EVERY) == (
            spec.parent and spec.parent.run,
            spec.parent and spec.parent.step,
        )
        assert [None] * len(others) == [other.parent for other in others]
    entries = sweeping.search.entries
    saved = sum(p.parents[0].step for p in longer if p.parents[0] is not None)
    steps = sum(entry.proposal.steps for entry in entries)
    assert (steps - saved) / STEPS == sweeping.search.full_runs
    assert {s.name for s in world.notes.continued} == {
        sweeping.runs_of(p.number)[0].name for p in longer
    }


def test_an_older_sweep_trains_each_run_from_step_0() -> None:
    """Without `sweep.continuation` no run has a parent."""
    world = World(plan=plan(trials=16, allocation="two_stage"), tuner=EVOLUTION)
    sweeping = world.run(2, 0)
    assert any(p.parent is not None for p, _ in world.notes.proposals)
    assert {None} == {record.spec.parent for record in sweeping.records.values()}
    assert [] == world.notes.continued


def test_a_state_that_is_gone_halts_the_sweep() -> None:
    """The sweep starts no run without the state that its identity names, and says why."""
    plan_of_two_stages = plan(trials=16, allocation="two_stage", continuation=True)
    world = World(plan=plan_of_two_stages, tuner=EVOLUTION)
    world.notes.lost = "its state is gone"
    sweeping = world.run(2, 0)
    assert "its state is gone" == sweeping.halted
    assert {None} == {record.spec.parent for record in sweeping.records.values()}
