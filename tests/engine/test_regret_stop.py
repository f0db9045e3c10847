"""A search ends when more trials could gain little, at the same trial whatever its workers."""

import pytest
from simulated_sweeps import World, plan

from rlexp.engine.sweep_source import SweepStage
from rlexp.errors import ConfigError
from rlexp.protocol.sweep import SweepPlan
from rlexp.tuners.regret_bound import FEWEST

LIMIT = 0.4


def stopping(**changes: object) -> World:
    """A sweep of 90 trials at most that ends when more trials could gain at most `LIMIT`."""
    settings = {"trials": 90, "allocation": "two_stage", "stop_at_regret": LIMIT}
    return World(plan=plan(**{**settings, **changes}))


def test_the_search_ends_at_the_first_bound_below_the_limit() -> None:
    """The search ends before its limit of trials, with a bound at the limit or below it."""
    world = stopping()
    sweeping = world.run(2, 0)
    trials, bound = len(world.notes.proposals), sweeping.search.regret_bound
    assert FEWEST <= trials < 90
    assert bound is not None
    assert 0 <= bound.gain <= LIMIT
    # Trial n is suggested from the trials 0 … n − 1 − lag, and so is the end.
    assert trials - 3 == bound.trials
    assert SweepStage.DONE is sweeping.stage
    assert {p.number for p, _ in world.notes.proposals} == {*range(trials)}
    unlimited = stopping(stop_at_regret=None)
    unlimited.run(2, 0)
    assert 90 == len(unlimited.notes.proposals)
    assert world.notes.proposals == unlimited.notes.proposals[:trials]


def test_a_small_limit_leaves_the_search_as_it_is() -> None:
    """Noise alone keeps the bound above a tiny limit, so that all trials are made."""
    world = stopping(stop_at_regret=1e-6, trials=40)
    world.run(2, 0)
    assert 40 == len(world.notes.proposals)


def test_few_trials_have_no_bound() -> None:
    """A generous limit does not end a search before the fewest trials of a bound have ended."""
    world = stopping(stop_at_regret=100.0)
    sweeping = world.run(8, 0)
    assert FEWEST + 3 == len(world.notes.proposals)
    assert sweeping.search.regret_bound is not None
    short = stopping(stop_at_regret=100.0, trials=20)
    assert short.run(2, 0).search.regret_bound is None
    assert 20 == len(short.notes.proposals)


@pytest.mark.parametrize(("workers", "order"), [(1, 1), (4, 2), (8, 3)])
def test_workers_and_order_do_not_move_the_end(workers: int, order: int) -> None:
    """Any number of workers, in any order of ends, stops after the same trial with the same winner."""
    alone, many = stopping(), stopping()
    alone.run(2, 0)
    many.run(workers, order)
    assert alone.outcome() == many.outcome()


def test_a_killed_search_ends_at_the_same_trial() -> None:
    """A command that is killed several times, also at the end of the search, changes nothing."""
    undisturbed, killed = stopping(), stopping()
    undisturbed.run(2, 0)
    for order, cut in enumerate((30, 45, 20, 12, 5)):
        killed.run(3, order, cut)
    killed.run(3, 99)
    assert undisturbed.outcome() == killed.outcome()


def test_the_limit_is_part_of_the_definition() -> None:
    """The definition and the record hold the limit; plans without one are as they were."""
    assert LIMIT == plan(stop_at_regret=LIMIT).definition()["stop_at_regret"]
    assert "stop_at_regret" not in plan().definition()
    plain = {**plan(stop_at_regret=LIMIT).plain(), "objective": "score"}
    assert LIMIT == SweepPlan(**plain).stop_at_regret


def test_several_objectives_are_refused() -> None:
    """A number cannot limit several objectives."""
    with pytest.raises(ConfigError, match=r"sweep.stop_at_regret=1 is a number of one objective"):
        plan(stop_at_regret=1.0, objective=("score", "auc"))
