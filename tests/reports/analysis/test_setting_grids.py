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


def only(of: Evidence) -> SettingGrid:
    """The grid, of which there must be one."""
    (found,) = setting_grids(of)
    return found


def on_both(label: str, name: str = "ppo", **values: object) -> list[PlannedRun]:
    """Runs of a setting on two tasks."""
    return [m for task in TASKS for m in runs(setting(label, task, name, **values), -200.0)]


def of_experiments(own: Sequence[PlannedRun]) -> Evidence:
    """The evidence of several experiments, as the runs name them."""
    first = evidence(own)
    names = sorted({m.experiment for m in own})
    return replace(first, experiments=tuple(replace(first.experiments[0], name=n) for n in names))


@pytest.mark.parametrize("sample", [*SAMPLES, *SWEEPS])
def test_without_a_grid_there_is_none(sample: str) -> None:
    """Different algorithms and the trials of a sweep are no grid."""
    assert () == setting_grids({**SAMPLES, **SWEEPS}[sample]())


def test_a_grid_has_its_settings_in_the_order_of_its_values() -> None:
    """Numbers are sorted as numbers: 4 epochs come before 10."""
    own = only(grid())
    assert ("ppo", (CARTPOLE, PENDULUM)) == (own.name, own.tasks)
    assert (RATE, PASSES) == own.parameters
    assert tuple(labelled(rate, epochs) for rate in RATES for epochs in EPOCHS) == own.labels
    assert [[i, j] for i in range(3) for j in range(2)] == own.levels.tolist()


def test_a_grid_has_the_runs_of_its_settings() -> None:
    """The runs are rising, per setting and task."""
    own = only(grid())
    assert (6, 2, 3) == own.runs.shape
    assert [[390.0, 400.0, 410.0], [-210.0, -200.0, -190.0]] == own.runs[3].tolist()
    assert [400.0, -200.0] == own.means[3].tolist()
    assert 6 == own.complete


def test_each_algorithm_with_several_settings_is_a_grid() -> None:
    """Grids are sorted by the name of the algorithm, and a single setting is no grid."""
    found = setting_grids(grid_beside_others())
    assert ["dqn", "ppo"] == [own.name for own in found]
    assert [2, 6] == [len(own.labels) for own in found]


def test_one_task_makes_no_grid() -> None:
    """A grid needs at least two tasks."""
    assert () == setting_grids(evidence([m for m in members() if m.task == CARTPOLE]))


def test_experiments_with_a_task_each_are_one_grid() -> None:
    """Experiments with different tasks form one grid."""
    own = [replace(m, experiment=f"on {m.task}") for m in by_label(members())]
    assert only(grid()).labels == only(of_experiments(own)).labels


def test_experiments_with_a_common_task_are_separate_grids() -> None:
    """Experiments that share a task form separate grids."""
    other = [replace(m, experiment="other", label=f"other/{m.label}") for m in by_label(members())]
    found = setting_grids(of_experiments([*by_label(members()), *other]))
    assert ["ppo of other", "ppo of sample"] == [own.name for own in found]


def test_a_setting_with_a_failed_run_counts_as_not_run() -> None:
    """A setting with a finally failed run has no scores on that task, and is listed."""
    own = only(grid_with_failures())
    place = own.labels.index(labelled(0.01, 4))
    assert np.isnan(own.runs[place, 0]).all()
    assert np.isfinite(own.runs[place, 1]).all()
    assert (f"{labelled(0.01, 4)} on {CARTPOLE}",) == own.failed
    assert 5 == own.complete


def test_failures_that_count_as_the_worst_are_scores() -> None:
    """Failed runs count as scores where the experiment declares it."""
    failed = grid_with_failures()
    worst = replace(
        failed, experiments=tuple(replace(e, failures="worst") for e in failed.experiments)
    )
    own = only(worst)
    assert [1.0, 470.0, 490.0] == own.runs[own.labels.index(labelled(0.01, 4)), 0].tolist()
    assert () == own.failed


def test_unfinished_runs_do_not_remove_a_setting() -> None:
    """The scores of finished runs count while other runs are unfinished."""
    own = members()
    first = own[0]
    own[0] = member(interrupted(run_spec(first.configuration, 0)), first.configuration)
    found = only(evidence(by_label(own)))
    place = found.labels.index(first.label)
    assert 2 == np.isfinite(found.runs[place, 0]).sum()
    assert () == found.failed


def test_parameters_that_change_together_are_one() -> None:
    """Paths that always change together are one parameter, including unset values."""
    own = by_label(
        [
            *on_both("a", n_steps=16, batch=[1, 2], clip=0.1),
            *on_both("b", n_steps=32, batch=[0], clip=0.1),
            *on_both("c", n_steps=64, batch={"size": 3}, clip=0.2),
            *on_both("d", n_steps=16, batch={"size": 3}),
        ]
    )
    found = only(evidence(own))
    expected = (
        "algorithm.batch",
        "algorithm.batch.size",
        "algorithm.clip",
        "algorithm.n_steps",
    )
    assert expected == found.parameters
    assert (4, 4) == found.levels.shape
    coupled = by_label([*on_both("a", x=1, y="long"), *on_both("b", x=2, y="short")])
    assert ("algorithm.x with algorithm.y",) == only(evidence(coupled)).parameters


def test_long_values_that_differ_at_their_end_are_two() -> None:
    """Long values are compared in full."""
    long = "x" * 100
    own = by_label([*on_both("a", net=f"{long}1"), *on_both("b", net=f"{long}2")])
    assert [[0.0], [1.0]] == only(evidence(own)).levels.tolist()


def test_labels_that_differ_in_something_else_are_left_out() -> None:
    """Labels with equal agent and algorithm settings are left out with a reason."""
    own = [*on_both("a", x=1), *on_both("b", x=2), *on_both("c", x=3), *on_both("d", x=3)]
    found = only(evidence(own))
    assert ("a", "b") == found.labels
    told = "c and d have equal values of agent and algorithm, and differ in other settings"
    assert (told,) == found.left_out


def test_a_label_with_other_values_on_another_task_is_left_out() -> None:
    """A label with different values on different tasks is left out with a reason."""
    tuned = [
        m
        for task, x in zip(TASKS, (3, 4), strict=True)
        for m in runs(setting("c", task, x=x), -200.0)
    ]
    found = only(evidence([*on_both("a", x=1), *on_both("b", x=2), *tuned]))
    assert ("a", "b") == found.labels
    assert ("c has different values on different tasks",) == found.left_out


@settings(max_examples=20)
@given(st.integers(0, 1000), st.sampled_from(sorted(GRIDS)))
def test_the_order_of_the_runs_does_not_matter(seed: int, sample: str) -> None:
    """The grid does not depend on the order of labels, tasks and seeds."""
    own = GRIDS[sample]()
    for one, other in zip(setting_grids(own), setting_grids(reordered(own, seed)), strict=True):
        assert (one.labels, one.parameters, one.failed) == (
            other.labels,
            other.parameters,
            other.failed,
        )
        np.testing.assert_array_equal(one.levels, other.levels)
        np.testing.assert_array_equal(one.runs, other.runs)
