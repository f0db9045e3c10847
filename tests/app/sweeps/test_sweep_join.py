"""What may still grow of a sweep that exists, and what is refused with the reason."""

from dataclasses import replace
from pathlib import Path

import pytest
from samples import PRUNER, TUNER, configuration, experiment

from rlexp.app.sweeps.request import join_sweep
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


def asked(test: int = 2, **changes: object) -> Experiment:
    """A sweep as a command asks for it."""
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
    """A sweep of four trials that has not chosen."""
    paths = ExperimentPaths(tmp_path / "sample")
    write_experiment(paths, asked())
    append_trial(
        paths, StoredTrial(number=0, parameters={}, steps=100, configuration=configuration())
    )
    return paths


def choose(paths: ExperimentPaths) -> None:
    """Freeze the default."""
    finalists = (Finalist(number=0, tuning=(1.0,)),)
    write_selection(paths, Selection(winner=0, finalists=finalists, rule="best"))


def test_trials_and_test_seeds_grow_before_the_choice(paths: ExperimentPaths) -> None:
    """More trials and test seeds join; fewer take nothing back."""
    grown = join_sweep(paths, asked(test=5, trials=9), lag_asked=True)
    assert grown.sweep is not None
    assert (9, 5) == (grown.sweep.plan.trials, grown.seeds.test)
    same = join_sweep(paths, asked(test=1, trials=2), lag_asked=True)
    assert same.sweep is not None
    assert (4, 2) == (same.sweep.plan.trials, same.seeds.test)


def test_after_the_choice_only_test_seeds_grow(paths: ExperimentPaths) -> None:
    """More trials would be chosen by knowing the winner, and are refused with a way out."""
    choose(paths)
    assert 7 == join_sweep(paths, asked(test=7), lag_asked=True).seeds.test
    with pytest.raises(RecordError, match=r"Only seeds\.test may grow.*seeds\.root=1"):
        join_sweep(paths, asked(trials=9), lag_asked=True)
    with pytest.raises(RecordError, match="has chosen its winner"):
        join_sweep(paths, asked(steps=10_000_000, trials=5), lag_asked=True)


def test_another_question_is_refused_with_what_differs(paths: ExperimentPaths) -> None:
    """Under a name that exists, another allocation or budget is refused, and named on a line."""
    with pytest.raises(RecordError, match=r"\n  sweep.*allocation: 'fixed' there, 'racing' here$"):
        join_sweep(paths, asked(allocation="racing"), lag_asked=True)
    longer = replace(asked(), configurations=(configuration(steps=2000),))
    with pytest.raises(RecordError, match=r"\n  budget\.steps: \d+ there, 2000 here$"):
        join_sweep(paths, longer, lag_asked=True)


def test_a_lag_that_nobody_asked_for_stays_as_it_was(paths: ExperimentPaths) -> None:
    """On a machine of other cores a sweep keeps its lag; one that is asked for must be the same."""
    kept = join_sweep(paths, asked(lag=15), lag_asked=False)
    assert kept.sweep is not None
    assert 3 == kept.sweep.plan.lag
    with pytest.raises(RecordError, match="lag: 3 there, 15 here"):
        join_sweep(paths, asked(lag=15), lag_asked=True)


def test_an_experiment_that_is_no_sweep_is_left_alone(tmp_path: Path) -> None:
    """A name that stands for plain runs is refused."""
    paths = ExperimentPaths(tmp_path / "plain")
    write_experiment(paths, experiment(configuration()))
    with pytest.raises(RecordError, match="is not a sweep"):
        join_sweep(paths, asked(), lag_asked=True)
