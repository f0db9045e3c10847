"""Whole sweeps through the planner, with runs that are read from tables."""

from collections.abc import Sequence
from dataclasses import replace as changed

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from landscape_replay import Outcome, Replay, run
from landscape_samples import ROWS, SENTINEL, STEPS, landscape, raw_returns, replay
from landscape_table import Landscape, load

from rlexp.protocol.seeds import Phase
from rlexp.protocol.sweep import Allocation
from rlexp.pruners import Pruner
from rlexp.pruners.hyperband import Hyperband
from rlexp.pruners.median import MedianPruner
from rlexp.pruners.none import Never
from rlexp.pruners.successive_halving import SuccessiveHalving
from rlexp.pruners.wilcoxon import Wilcoxon
from rlexp.records.run import RunRecord, State

ALLOCATIONS: Sequence[Allocation] = ("two_stage", "fixed", "racing")
PRUNERS: Sequence[Pruner] = (
    Never(),
    MedianPruner(startup_trials=2, warm_up=0.0),
    SuccessiveHalving(minimum=0.25, eta=2),
    Hyperband(minimum=0.25, eta=2),
    Wilcoxon(threshold=0.3, startup_seeds=2),
)


def crashing(*rows: int, seed: int | None = None) -> Landscape:
    """Configurations that crash after their first checkpoint, on one seed or on all."""
    returns = raw_returns()
    where = slice(None) if seed is None else seed
    for row in rows:
        returns[row, where, 1:] = SENTINEL
    return landscape(returns)


def trained(outcome: Outcome, phase: Phase) -> list[RunRecord]:
    """The runs of a phase."""
    return [record for record in outcome.records if record.spec.phase is phase]


def expected_steps(of: Replay, outcome: Outcome) -> int:
    """What the runs must have cost, by the table and by where they were stopped."""
    total = 0
    for record in trained(outcome, Phase.TUNING):
        seed = of.seed(Phase.TUNING, record.spec.seed)
        ended = np.isfinite(of.landscape.returns[record.spec.algorithm["row"], seed]).sum()
        if record.state is State.PRUNED:
            total += record.evaluations[-1].step
        else:
            total += STEPS[min(ended, len(STEPS) - 1)]
    return total


def test_the_best_of_all_configurations_wins() -> None:
    """Where each is tried on every tuning seed, with the scores that the table has."""
    of = replay(landscape())
    means = of.landscape.final[:, of.order[:5]].mean(axis=1)
    outcome = run(of)
    assert int(means.argmax()) == outcome.row
    assert float(means.max()) == pytest.approx(outcome.tuning)
    assert ROWS == outcome.trials
    test = of.landscape.final[outcome.row, of.order[5:]]
    assert float(test.mean()) == pytest.approx(outcome.test)


def test_winner_and_default_are_tested_on_other_seeds() -> None:
    """And on nothing that was tuned on."""
    of = replay(landscape())
    outcome = run(of)
    tests = trained(outcome, Phase.TEST)
    assert {of.default, outcome.row} == {record.spec.algorithm["row"] for record in tests}
    tuned = {of.seed(Phase.TUNING, k) for k in range(5)}
    assert set(range(10)) - tuned == {of.seed(Phase.TEST, r.spec.seed) for r in tests}


@pytest.mark.parametrize("allocation", ALLOCATIONS)
@pytest.mark.parametrize("pruner", PRUNERS)
def test_test_scores_decide_nothing(allocation: Allocation, pruner: Pruner) -> None:
    """Other ones leave every tuning run and the choice as they are."""
    of = replay(landscape(), allocation=allocation, pruner=pruner)
    returns = of.landscape.returns.copy()
    returns[:, of.order[5:]] = 1e6
    first, second = run(of), run(changed(of, landscape=changed(of.landscape, returns=returns)))
    assert first.row == second.row
    assert trained(first, Phase.TUNING) == trained(second, Phase.TUNING)
    assert first.test != second.test


@pytest.mark.parametrize("allocation", ALLOCATIONS)
@pytest.mark.parametrize("pruner", PRUNERS)
@pytest.mark.parametrize("rows", [(), (1, 4), (0, 2, 5, 7, 9)])
def test_every_step_is_on_the_ledger(
    allocation: Allocation, pruner: Pruner, rows: tuple[int, ...]
) -> None:
    """Seeds, promotions, pruned runs and crashes included, nothing twice."""
    first = int(replay(landscape()).order[0])
    of = replay(crashing(*rows, seed=first), allocation=allocation, pruner=pruner)
    outcome = run(of)
    tuning = trained(outcome, Phase.TUNING)
    assert len(tuning) == len({record.spec.id for record in tuning})
    assert expected_steps(of, outcome) == outcome.spent
    if pruner == Never():
        assert len(rows) == outcome.states.get("failed", 0)


def test_two_stages_cost_what_they_say() -> None:
    """Twelve screening runs, and four more seeds for a quarter of them."""
    outcome = run(replay(landscape(), allocation="two_stage"))
    assert (12 + 4 * 3) * STEPS[-1] == outcome.spent


@pytest.mark.parametrize(("steps", "trials"), [(200, 1), (399, 1), (400, 2), (1_100, 5)])
def test_a_budget_of_steps_is_never_passed(steps: int, trials: int) -> None:
    """A trial on five seeds takes 200 of them."""
    outcome = run(replay(landscape(), steps=steps))
    assert trials == outcome.trials
    assert trials * 200 == outcome.spent


def test_the_sentinel_would_win_as_a_score() -> None:
    """So it has to be told from one: it is above all negative returns."""
    returns = raw_returns()
    returns[3, :, 1:] = SENTINEL
    assert 3 == returns[:, :, -1].mean(axis=1).argmax()
    assert 3 == returns[:, :, -1].std(axis=1).argmin()


@pytest.mark.parametrize("objective", ["score", "spread"])
@pytest.mark.parametrize("failures", ["worst", "exclude"])
@pytest.mark.parametrize("number", range(6))
def test_a_crash_never_wins(objective: str, failures: str, number: int) -> None:
    """Neither where scores are maximised nor where their spread is minimised."""
    of = replay(crashing(3), objective=objective, failures=failures, number=number)
    outcome = run(of)
    assert 1 == outcome.states["failed"]
    assert outcome.row is not None
    assert 3 != outcome.row
    final = np.delete(of.landscape.final, 3, axis=0)[:, of.order[:5]]
    merits = final.mean(axis=1) if objective == "score" else -final.std(axis=1)
    assert np.insert(merits, 3, -np.inf).argmax() == outcome.row


@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_one_crashed_seed_is_enough_to_lose(allocation: Allocation) -> None:
    """A mean over the others would not be of the same seeds."""
    of = replay(landscape(), allocation=allocation)
    best = run(of).row
    assert best is not None
    returns = raw_returns()
    returns[best, of.order[2]] = SENTINEL
    outcome = run(changed(of, landscape=landscape(returns)))
    assert outcome.row is not None
    assert best != outcome.row


@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_where_everything_crashes_nothing_wins(allocation: Allocation) -> None:
    """And nothing is tested."""
    outcome = run(replay(crashing(*range(ROWS)), allocation=allocation))
    assert {"failed": ROWS} == outcome.states
    assert (None, None, None) == (outcome.row, outcome.tuning, outcome.test)
    assert [] == trained(outcome, Phase.TEST)


def test_crashed_test_runs_count_as_the_worst() -> None:
    """Or a configuration that crashes half of the time would keep the mean of its lucky half."""
    of = replay(landscape())
    best = run(of).row
    returns = raw_returns()
    returns[best, of.order[5:]] = SENTINEL
    expected = float(raw_returns()[:, :, -1].min())
    assert expected == pytest.approx(run(changed(of, landscape=landscape(returns))).test)


@pytest.mark.parametrize("pruner", PRUNERS)
def test_a_sweep_can_be_repeated(pruner: Pruner) -> None:
    """Run by run; another number is another sweep."""
    of = replay(load("cc_pendulum_sac"), pruner=pruner, allocation="two_stage", trials=16)
    first, second = run(of), run(of)
    assert first == second
    assert first.records != run(changed(of, number=1)).records


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 4), st.integers(0, 99), st.integers(0, 3), st.sampled_from(PRUNERS))
def test_the_order_of_the_runs_changes_nothing(
    workers: int, seed: int, number: int, pruner: Pruner
) -> None:
    """Any number of workers, ending in any order, comes to the same trials and the same winner."""
    of = replay(
        crashing(1, 6, seed=2), allocation="two_stage", pruner=pruner, number=number, lag=7
    )
    item, many = run(of), run(of, workers, np.random.default_rng(seed))
    assert item.row == many.row
    assert item.states == many.states
    assert item.tuning == many.tuning
