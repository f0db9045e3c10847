"""An existing sweep may grow in some parts, and other changes are refused."""

from dataclasses import replace
from pathlib import Path

import pytest
from samples import PRUNER, TUNER, configuration, experiment

from rlexp.app.sweeps.merging import merge_with_existing_sweep
from rlexp.errors import RecordError
from rlexp.protocol.experiment import Experiment
from rlexp.protocol.space import Parameter, Real, Space
from rlexp.protocol.sweep import Sweep, SweepPlan
from rlexp.records.selection import Finalist, Selection
from rlexp.store.layout import ExperimentPaths
from rlexp.store.runs import write_experiment
from rlexp.store.sweeps import StoredTrial, append_trial, write_selection

PLAN = SweepPlan(
    trials=4,
    full_runs=None,
    steps=None,
    hours=None,
    allocation="fixed",
    promoted=0.5,
    objective="score",
    aggregate="mean",
    finalists=2,
    lag=3,
    failures="worst",
    stop_after=5,
    storage=None,
)


def requested_sweep(test: int = 2, **changes: object) -> Experiment:
    """A sweep as a command requests it."""
    plan = replace(PLAN, **changes)  # type: ignore[arg-type]
    sweep = Sweep(
        name="",
        space=Space(parameters=(Parameter(key="algorithm.x", domain=Real(0.0, 1.0)),)),
        tuner=TUNER,
        pruner=PRUNER,
        plan=plan,
    )
    return replace(experiment(configuration(), test=test), sweep=sweep)


@pytest.fixture
def paths(tmp_path: Path) -> ExperimentPaths:
    """A sweep of four trials without a chosen winner."""
    paths = ExperimentPaths(tmp_path / "sample")
    write_experiment(paths, requested_sweep())
    append_trial(
        paths, StoredTrial(number=0, parameters={}, steps=100, configuration=configuration())
    )
    return paths


def choose(paths: ExperimentPaths) -> None:
    """Write a selection that chooses the default configuration."""
    finalists = (Finalist(number=0, tuning=(1.0,)),)
    write_selection(paths, Selection(winner=0, finalists=finalists, rule="best"))


def merge(paths: ExperimentPaths, requested: Experiment) -> Experiment:
    """The sweep on disk with what a command requests that sets every setting of the plan."""
    assert requested.sweep is not None
    return merge_with_existing_sweep(paths, requested, requested.sweep.plan)


def test_trials_and_test_seeds_grow_before_the_choice(paths: ExperimentPaths) -> None:
    """A larger number of trials or test seeds extends the sweep; a smaller one removes none."""
    grown = merge(paths, requested_sweep(test=5, trials=9))
    assert grown.sweep is not None
    assert (9, 5) == (grown.sweep.plan.trials, grown.seeds.test)
    same = merge(paths, requested_sweep(test=1, trials=2))
    assert same.sweep is not None
    assert (4, 2) == (same.sweep.plan.trials, same.seeds.test)


def test_after_the_choice_only_test_seeds_grow(paths: ExperimentPaths) -> None:
    """More trials are refused after the choice, with a command for a new sweep."""
    choose(paths)
    assert 7 == merge(paths, requested_sweep(test=7)).seeds.test
    with pytest.raises(RecordError, match=r"Only seeds\.test may grow.*seeds\.root=1"):
        merge(paths, requested_sweep(trials=9))
    with pytest.raises(RecordError, match="has chosen its winner"):
        merge(paths, requested_sweep(steps=10_000_000, trials=5))


def test_another_definition_is_refused_with_the_differences(paths: ExperimentPaths) -> None:
    """Another allocation or budget is refused with one line for each difference."""
    with pytest.raises(
        RecordError, match=r"\n  sweep.*allocation: existing 'fixed', requested 'racing'$"
    ):
        merge(paths, requested_sweep(allocation="racing"))
    longer = replace(requested_sweep(), configurations=(configuration(steps=2000),))
    with pytest.raises(RecordError, match=r"\n  budget\.steps: existing \d+, requested 2000$"):
        merge(paths, longer)


def test_the_lag_is_kept_unless_it_is_set(paths: ExperimentPaths) -> None:
    """The lag of the sweep is kept by default; another requested lag is refused."""
    unset = replace(PLAN, lag=None)
    merged = merge_with_existing_sweep(paths, requested_sweep(lag=15), unset)
    assert merged.sweep is not None
    assert 3 == merged.sweep.plan.lag
    with pytest.raises(RecordError, match="lag: existing 3, requested 15"):
        merge(paths, requested_sweep(lag=15))


def test_an_experiment_that_is_not_a_sweep_is_refused(tmp_path: Path) -> None:
    """A sweep under the name of an ordinary experiment is refused."""
    paths = ExperimentPaths(tmp_path / "plain")
    write_experiment(paths, experiment(configuration()))
    with pytest.raises(RecordError, match="is not a sweep"):
        merge(paths, requested_sweep())


def test_an_older_sweep_goes_on_without_continuation(paths: ExperimentPaths) -> None:
    """A sweep from before `sweep.continuation` keeps its definition unless the command sets it."""
    merged = merge_with_existing_sweep(paths, requested_sweep(continuation=True), PLAN)
    assert merged.sweep is not None
    assert merged.sweep.plan.continuation is None
    assert "continuation" not in merged.sweep.plain()["plan"]
    assert requested_sweep().fingerprint == merged.fingerprint
    with pytest.raises(RecordError, match="continuation"):
        merge(paths, requested_sweep(continuation=True))
