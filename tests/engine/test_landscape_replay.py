"""Whole sweeps by the planner, with runs that are read from tables."""

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
    """A landscape whose `rows` crash after their first checkpoint, on one seed or on all."""
    returns = raw_returns()
    crashed_seeds = slice(None) if seed is None else seed
    for row in rows:
        returns[row, crashed_seeds, 1:] = SENTINEL
    return landscape(returns)


def runs_of(outcome: Outcome, phase: Phase) -> list[RunRecord]:
    """The runs of a phase."""
    return [record for record in outcome.records if record.spec.phase is phase]


def expected_steps(sweep: Replay, outcome: Outcome) -> int:
    """The steps of all tuning runs, by the table and by the recorded stops."""
    total = 0
    for record in runs_of(outcome, Phase.TUNING):
        seed = sweep.seed(Phase.TUNING, record.spec.seed)
        checkpoints = np.isfinite(
            sweep.landscape.returns[record.spec.algorithm["row"], seed]
        ).sum()
        if record.state is State.PRUNED:
            total += record.evaluations[-1].step
        else:
            total += STEPS[min(checkpoints, len(STEPS) - 1)]
    return total


def test_the_best_of_all_configurations_wins() -> None:
    """A search over all configurations chooses the one with the best mean score in the table."""
    sweep = replay(landscape())
    means = sweep.landscape.final[:, sweep.draws.order[:5]].mean(axis=1)
    outcome = run(sweep)
    assert int(means.argmax()) == outcome.row
    assert float(means.max()) == pytest.approx(outcome.tuning)
    assert ROWS == outcome.trials
    test = sweep.landscape.final[outcome.row, sweep.draws.order[5:]]
    assert float(test.mean()) == pytest.approx(outcome.test)


def test_winner_and_default_are_tested_on_other_seeds() -> None:
    """The winner and the default are tested on the seeds that tuning did not use."""
    sweep = replay(landscape())
    outcome = run(sweep)
    tests = runs_of(outcome, Phase.TEST)
    assert {sweep.draws.default, outcome.row} == {record.spec.algorithm["row"] for record in tests}
    tuning_seeds = {sweep.seed(Phase.TUNING, k) for k in range(5)}
    assert set(range(10)) - tuning_seeds == {sweep.seed(Phase.TEST, r.spec.seed) for r in tests}


@pytest.mark.parametrize("allocation", ALLOCATIONS)
@pytest.mark.parametrize("pruner", PRUNERS)
def test_test_scores_decide_nothing(allocation: Allocation, pruner: Pruner) -> None:
    """Different test scores leave every tuning run and the choice unchanged."""
    sweep = replay(landscape(), allocation=allocation, pruner=pruner)
    returns = sweep.landscape.returns.copy()
    returns[:, sweep.draws.order[5:]] = 1e6
    first, second = (
        run(sweep),
        run(changed(sweep, landscape=changed(sweep.landscape, returns=returns))),
    )
    assert first.row == second.row
    assert runs_of(first, Phase.TUNING) == runs_of(second, Phase.TUNING)
    assert first.test != second.test


@pytest.mark.parametrize("allocation", ALLOCATIONS)
@pytest.mark.parametrize("pruner", PRUNERS)
@pytest.mark.parametrize("rows", [(), (1, 4), (0, 2, 5, 7, 9)])
def test_every_step_is_on_the_ledger(
    allocation: Allocation, pruner: Pruner, rows: tuple[int, ...]
) -> None:
    """The spent steps include seeds, promotions, pruned runs and crashes, each run once."""
    first = int(replay(landscape()).draws.order[0])
    sweep = replay(crashing(*rows, seed=first), allocation=allocation, pruner=pruner)
    outcome = run(sweep)
    tuning = runs_of(outcome, Phase.TUNING)
    assert len(tuning) == len({record.spec.id for record in tuning})
    assert expected_steps(sweep, outcome) == outcome.spent
    if pruner == Never():
        assert len(rows) == outcome.states.get("failed", 0)


def test_two_stages_cost_what_they_say() -> None:
    """Two stages cost twelve screening runs, and four more seeds for a quarter of them."""
    outcome = run(replay(landscape(), allocation="two_stage"))
    assert (12 + 4 * 3) * STEPS[-1] == outcome.spent


@pytest.mark.parametrize(("steps", "trials"), [(200, 1), (399, 1), (400, 2), (1_100, 5)])
def test_a_budget_of_steps_is_never_passed(steps: int, trials: int) -> None:
    """A sweep stops within its budget of steps; a trial on five seeds takes 200 steps."""
    outcome = run(replay(landscape(), steps=steps))
    assert trials == outcome.trials
    assert trials * 200 == outcome.spent


def test_the_sentinel_would_win_as_a_score() -> None:
    """The crash value would win as a score, because it is above all negative returns."""
    returns = raw_returns()
    returns[3, :, 1:] = SENTINEL
    assert 3 == returns[:, :, -1].mean(axis=1).argmax()
    assert 3 == returns[:, :, -1].std(axis=1).argmin()


@pytest.mark.parametrize("objective", ["score", "spread"])
@pytest.mark.parametrize("failures", ["worst", "exclude"])
@pytest.mark.parametrize("number", range(6))
def test_a_crash_never_wins(objective: str, failures: str, number: int) -> None:
    """A crashed configuration wins neither with score nor with spread as the objective."""
    sweep = replay(crashing(3), objective=objective, failures=failures, number=number)
    outcome = run(sweep)
    assert 1 == outcome.states["failed"]
    assert outcome.row is not None
    assert 3 != outcome.row
    final = np.delete(sweep.landscape.final, 3, axis=0)[:, sweep.draws.order[:5]]
    merits = final.mean(axis=1) if objective == "score" else -final.std(axis=1)
    assert np.insert(merits, 3, -np.inf).argmax() == outcome.row


@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_one_crashed_seed_is_enough_to_lose(allocation: Allocation) -> None:
    """The best configuration loses after a crash on one of its tuning seeds."""
    sweep = replay(landscape(), allocation=allocation)
    best = run(sweep).row
    assert best is not None
    returns = raw_returns()
    returns[best, sweep.draws.order[2]] = SENTINEL
    outcome = run(changed(sweep, landscape=landscape(returns)))
    assert outcome.row is not None
    assert best != outcome.row


@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_where_everything_crashes_nothing_wins(allocation: Allocation) -> None:
    """A sweep in which everything crashes has no winner and no test run."""
    outcome = run(replay(crashing(*range(ROWS)), allocation=allocation))
    assert {"failed": ROWS} == outcome.states
    assert (None, None, None) == (outcome.row, outcome.tuning, outcome.test)
    assert [] == runs_of(outcome, Phase.TEST)


def test_crashed_test_runs_count_as_the_worst() -> None:
    """Crashed test runs of the winner count as the lowest score of the table."""
    sweep = replay(landscape())
    best = run(sweep).row
    returns = raw_returns()
    returns[best, sweep.draws.order[5:]] = SENTINEL
    expected = float(raw_returns()[:, :, -1].min())
    assert expected == pytest.approx(run(changed(sweep, landscape=landscape(returns))).test)


@pytest.mark.parametrize("pruner", PRUNERS)
def test_a_sweep_can_be_repeated(pruner: Pruner) -> None:
    """A repeated sweep makes the same runs; another number makes other runs."""
    sweep = replay(load("cc_pendulum_sac"), pruner=pruner, allocation="two_stage", trials=16)
    first, second = run(sweep), run(sweep)
    assert first == second
    assert first.records != run(changed(sweep, number=1)).records


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 4), st.integers(0, 99), st.integers(0, 3), st.sampled_from(PRUNERS))
def test_the_order_of_the_runs_changes_nothing(
    workers: int, seed: int, number: int, pruner: Pruner
) -> None:
    """Any number of workers and any order of ends give the same trials and winner."""
    sweep = replay(
        crashing(1, 6, seed=2), allocation="two_stage", pruner=pruner, number=number, lag=7
    )
    sequential, parallel = run(sweep), run(sweep, workers, np.random.default_rng(seed))
    assert sequential.row == parallel.row
    assert sequential.states == parallel.states
    assert sequential.tuning == parallel.tuning
