"""A matrix of benchmarks is an experiment whose cells can be trained."""

from pathlib import Path

import pytest
from finished_runs import finish, study
from quick_parts import quick_parts

from rlexp.app.execution.request import RunRequest, read_request
from rlexp.errors import ConfigError
from rlexp.store.runs import read_run

quick = pytest.fixture(autouse=True)(quick_parts)

WORD = "+benchmark=classic_control"


def matrix_request(folder: Path, *overrides: str) -> RunRequest:
    """The experiment that a command about the matrix requests."""
    return read_request([WORD, *overrides], study(folder))


def test_labels_are_algorithms_and_tasks_are_environments(tmp_path: Path) -> None:
    """Labels are algorithms without tasks, so that a report can aggregate over tasks."""
    configurations = matrix_request(tmp_path, "algorithm=dqn").experiment.configurations
    assert [("dqn", "CartPole-v1"), ("dqn", "Acrobot-v1"), ("dqn", "MountainCar-v0")] == [
        (c.label, c.task) for c in configurations
    ]


@pytest.mark.parametrize(
    ("overrides", "prefix"),
    [
        (["algorithm=sac"], "classic_control-sac-"),
        (["algorithm=sac", "environment=pendulum"], "Pendulum-v1-sac-"),
    ],
)
def test_the_name_of_a_matrix_stands_for_several_tasks(
    tmp_path: Path, overrides: list[str], prefix: str
) -> None:
    """The name contains the matrix, or with a single task the task."""
    name = matrix_request(tmp_path, *overrides).experiment.name
    assert name.startswith(prefix)
    assert len(name) == len(prefix) + 6


def test_more_seeds_are_the_same_experiment_and_other_steps_another(tmp_path: Path) -> None:
    """More seeds keep the first ones; other steps give another experiment."""
    two_seeds, three_seeds, other_steps = (
        matrix_request(tmp_path, "algorithm=sac", *overrides)
        for overrides in (["seeds.test=2"], ["seeds.test=3"], ["budget.steps=999"])
    )
    assert two_seeds.experiment.name == three_seeds.experiment.name != other_steps.experiment.name
    assert {spec.id for spec in two_seeds.specs()} < {spec.id for spec in three_seeds.specs()}
    assert (4, 6) == (len(two_seeds.specs()), len(three_seeds.specs()))


def test_a_mistake_names_its_cell(tmp_path: Path) -> None:
    """An error names the algorithm and the task for which a value is out of range."""
    with pytest.raises(
        ConfigError, match=r"benchmark=classic_control, ppo on cartpole: .*n_epochs"
    ):
        matrix_request(tmp_path, "algorithm=ppo", "algorithm.n_epochs=0")


def test_a_cell_trains(tmp_path: Path) -> None:
    """A run of one cell trains with the settings of the matrix."""
    overrides = (WORD, "environment=cartpole", "algorithm=dqn", "budget.steps=512")
    record = read_run(finish(tmp_path, *overrides).paths).record
    assert (256, [256, 256]) == (
        record.spec.algorithm["train_freq"],
        record.spec.agent["network"],
    )
    assert record.score is not None
    assert record.step == 512
