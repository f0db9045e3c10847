"""Grids of settings among the labels of a report."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from evidence_samples import (
    CARTPOLE,
    PENDULUM,
    SAMPLES,
    evidence,
    interrupted,
    member,
    reordered,
    run_spec,
)
from grid_samples import (
    EPOCHS,
    GRIDS,
    RATES,
    TASKS,
    by_label,
    grid,
    grid_beside_others,
    grid_with_failures,
    labelled,
    members,
    runs,
    setting,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from sweep_samples import SWEEPS

from rlexp.reports.analysis.setting_grids import SettingGrid, setting_grids
from rlexp.reports.evidence.runs import Evidence, PlannedRun

RATE, PASSES = "algorithm.learning_rate", "algorithm.n_epochs"


def only_grid(sample: Evidence) -> SettingGrid:
    """The only grid of a sample."""
    (setting_grid,) = setting_grids(sample)
    return setting_grid


def runs_on_both_tasks(label: str, name: str = "ppo", **values: object) -> list[PlannedRun]:
    """Runs of a setting on two tasks."""
    return [m for task in TASKS for m in runs(setting(label, task, name, **values), -200.0)]


def evidence_of_experiments(planned_runs: Sequence[PlannedRun]) -> Evidence:
    """The evidence of these runs, with one experiment for each name in the runs."""
    combined = evidence(planned_runs)
    names = sorted({m.experiment for m in planned_runs})
    return replace(
        combined, experiments=tuple(replace(combined.experiments[0], name=n) for n in names)
    )


@pytest.mark.parametrize("sample", [*SAMPLES, *SWEEPS])
def test_without_a_grid_there_is_none(sample: str) -> None:
    """Different algorithms, and the trials of a sweep, are no grid."""
    assert () == setting_grids({**SAMPLES, **SWEEPS}[sample]())


def test_a_grid_has_its_settings_in_the_order_of_its_values() -> None:
    """Numbers are sorted as numbers: 4 epochs come before 10."""
    setting_grid = only_grid(grid())
    assert ("ppo", (CARTPOLE, PENDULUM)) == (setting_grid.name, setting_grid.tasks)
    assert (RATE, PASSES) == setting_grid.parameters
    assert (
        tuple(labelled(rate, epochs) for rate in RATES for epochs in EPOCHS) == setting_grid.labels
    )
    assert [[i, j] for i in range(3) for j in range(2)] == setting_grid.levels.tolist()


def test_a_grid_has_the_runs_of_its_settings() -> None:
    """The scores of each setting and task are in rising order."""
    setting_grid = only_grid(grid())
    assert (6, 2, 3) == setting_grid.runs.shape
    assert [[390.0, 400.0, 410.0], [-210.0, -200.0, -190.0]] == setting_grid.runs[3].tolist()
    assert [400.0, -200.0] == setting_grid.means[3].tolist()
    assert 6 == setting_grid.complete


def test_each_algorithm_with_several_settings_is_a_grid() -> None:
    """Grids are sorted by the name of the algorithm, and a single setting is no grid."""
    grids = setting_grids(grid_beside_others())
    assert ["dqn", "ppo"] == [setting_grid.name for setting_grid in grids]
    assert [2, 6] == [len(setting_grid.labels) for setting_grid in grids]


def test_one_task_makes_no_grid() -> None:
    """A grid needs at least two tasks."""
    assert () == setting_grids(evidence([m for m in members() if m.task == CARTPOLE]))


def test_experiments_with_a_task_each_are_one_grid() -> None:
    """Experiments with different tasks form one grid."""
    planned_runs = [replace(m, experiment=f"on {m.task}") for m in by_label(members())]
    assert only_grid(grid()).labels == only_grid(evidence_of_experiments(planned_runs)).labels


def test_experiments_with_a_common_task_are_separate_grids() -> None:
    """Experiments that share a task form separate grids."""
    other = [replace(m, experiment="other", label=f"other/{m.label}") for m in by_label(members())]
    grids = setting_grids(evidence_of_experiments([*by_label(members()), *other]))
    assert ["ppo of other", "ppo of sample"] == [setting_grid.name for setting_grid in grids]


def test_a_setting_with_a_failed_run_counts_as_not_run() -> None:
    """A setting with a finally failed run has no scores on that task, and is listed."""
    setting_grid = only_grid(grid_with_failures())
    position = setting_grid.labels.index(labelled(0.01, 4))
    assert np.isnan(setting_grid.runs[position, 0]).all()
    assert np.isfinite(setting_grid.runs[position, 1]).all()
    assert (f"{labelled(0.01, 4)} on {CARTPOLE}",) == setting_grid.failed
    assert 5 == setting_grid.complete


def test_failures_that_count_as_the_worst_are_scores() -> None:
    """Failed runs count as scores if the experiment counts failures as worst."""
    sample = grid_with_failures()
    counted_as_worst = replace(
        sample, experiments=tuple(replace(e, failures="worst") for e in sample.experiments)
    )
    setting_grid = only_grid(counted_as_worst)
    assert [1.0, 470.0, 490.0] == setting_grid.runs[
        setting_grid.labels.index(labelled(0.01, 4)), 0
    ].tolist()
    assert () == setting_grid.failed


def test_unfinished_runs_do_not_remove_a_setting() -> None:
    """The scores of finished runs count while other runs are unfinished."""
    planned_runs = members()
    first = planned_runs[0]
    planned_runs[0] = member(interrupted(run_spec(first.configuration, 0)), first.configuration)
    setting_grid = only_grid(evidence(by_label(planned_runs)))
    position = setting_grid.labels.index(first.label)
    assert 2 == np.isfinite(setting_grid.runs[position, 0]).sum()
    assert () == setting_grid.failed


def test_parameters_that_change_together_are_one() -> None:
    """Paths that always change together are one parameter, including unset values."""
    planned_runs = by_label(
        [
            *runs_on_both_tasks("a", n_steps=16, batch=[1, 2], clip=0.1),
            *runs_on_both_tasks("b", n_steps=32, batch=[0], clip=0.1),
            *runs_on_both_tasks("c", n_steps=64, batch={"size": 3}, clip=0.2),
            *runs_on_both_tasks("d", n_steps=16, batch={"size": 3}),
        ]
    )
    setting_grid = only_grid(evidence(planned_runs))
    expected = (
        "algorithm.batch",
        "algorithm.batch.size",
        "algorithm.clip",
        "algorithm.n_steps",
    )
    assert expected == setting_grid.parameters
    assert (4, 4) == setting_grid.levels.shape
    coupled = by_label(
        [*runs_on_both_tasks("a", x=1, y="long"), *runs_on_both_tasks("b", x=2, y="short")]
    )
    assert ("algorithm.x with algorithm.y",) == only_grid(evidence(coupled)).parameters


def test_long_values_that_differ_at_their_end_are_two() -> None:
    """Long values are compared in full."""
    long = "x" * 100
    planned_runs = by_label(
        [*runs_on_both_tasks("a", net=f"{long}1"), *runs_on_both_tasks("b", net=f"{long}2")]
    )
    assert [[0.0], [1.0]] == only_grid(evidence(planned_runs)).levels.tolist()


def test_labels_that_differ_in_something_else_are_left_out() -> None:
    """Labels with equal agent and algorithm settings are left out with a reason."""
    planned_runs = [
        *runs_on_both_tasks("a", x=1),
        *runs_on_both_tasks("b", x=2),
        *runs_on_both_tasks("c", x=3),
        *runs_on_both_tasks("d", x=3),
    ]
    setting_grid = only_grid(evidence(planned_runs))
    assert ("a", "b") == setting_grid.labels
    reason = "c and d have equal values of agent and algorithm, and differ in other settings"
    assert (reason,) == setting_grid.left_out


def test_a_label_with_other_values_on_another_task_is_left_out() -> None:
    """A label with different values on different tasks is left out with a reason."""
    tuned = [
        m
        for task, x in zip(TASKS, (3, 4), strict=True)
        for m in runs(setting("c", task, x=x), -200.0)
    ]
    setting_grid = only_grid(
        evidence([*runs_on_both_tasks("a", x=1), *runs_on_both_tasks("b", x=2), *tuned])
    )
    assert ("a", "b") == setting_grid.labels
    assert ("c has different values on different tasks",) == setting_grid.left_out


@settings(max_examples=20)
@given(st.integers(0, 1000), st.sampled_from(sorted(GRIDS)))
def test_the_order_of_the_runs_does_not_matter(seed: int, sample: str) -> None:
    """The grid does not depend on the order of labels, tasks and seeds."""
    original = GRIDS[sample]()
    for expected, actual in zip(
        setting_grids(original), setting_grids(reordered(original, seed)), strict=True
    ):
        assert (expected.labels, expected.parameters, expected.failed) == (
            actual.labels,
            actual.parameters,
            actual.failed,
        )
        np.testing.assert_array_equal(expected.levels, actual.levels)
        np.testing.assert_array_equal(expected.runs, actual.runs)
