"""Properties of every benchmark, tested on every yaml of `conf/benchmark` and its cells."""

import shlex
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from members import names

from rlexp.app.execution.request import RunRequest, read_request
from rlexp.app.execution.run_process import assemble
from rlexp.app.workspace import Workspace
from rlexp.config.matrix import matrix_file, read_matrix
from rlexp.errors import ConfigError
from rlexp.protocol.experiment import Configuration
from rlexp.store.layout import Layout

NOWHERE = Path("nowhere")
MODULES = {"atari": "ale_py", "box2d": "Box2D", "mujoco": "mujoco"}
"""Matrices whose environments need an extra of the same name, and a module that it brings."""
MATRICES = [name for name in names("benchmark") if matrix_file(name, NOWHERE)]
WITHOUT_THRESHOLD = {"Walker2d-v5"}
"""Tasks without a solved threshold in Gymnasium and in the zoo."""
BUFFER = 600
"""Transitions in the replay buffer of a learner, which is only built."""


@cache
def cells(name: str) -> list[str]:
    """The cells of a benchmark; a benchmark that is not a matrix has one without a name."""
    path = matrix_file(name, NOWHERE)
    matrix_cells = read_matrix(name, path, NOWHERE) if path else []
    return ["-".join(option for _, option in cell.choices) for cell in matrix_cells] or [""]


CELLS = [(name, position) for name in names("benchmark") for position in range(len(cells(name)))]
IDS = [f"{name}-{cell}" for name in names("benchmark") for cell in cells(name)]


WITHOUT_GUIDE = {
    "corridor_snapshots": ("environment.components.snapshots.probability=0",),
    "jump_start": ("environment.components.jump_start.steps=0",),
    "snapshots": ("environment.components.snapshots.probability=0",),
}
"""Overrides that switch off a component that needs a trained policy."""


@cache
def request_of(name: str) -> RunRequest:
    """The run request of a benchmark."""
    words = [f"+benchmark={name}", *WITHOUT_GUIDE.get(name, ())]
    return read_request(words, Workspace(NOWHERE, Layout(NOWHERE / "runs")))


def configuration(name: str, position: int) -> Configuration:
    """The configuration of a cell of a benchmark."""
    return request_of(name).experiment.configurations[position]


@pytest.mark.parametrize(("name", "position"), CELLS, ids=IDS)
def test_cell_builds_its_learner_on_the_real_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, position: int
) -> None:
    """A learner builds from the agent, the algorithm and the environment of each cell."""
    pytest.importorskip(MODULES.get(name, "gymnasium"), reason=f"needs rlexp[{name}]")
    monkeypatch.chdir(tmp_path)
    cell = configuration(name, position)
    algorithm = dict(cell.algorithm)
    if "buffer_size" in algorithm:
        algorithm["buffer_size"] = BUFFER
    spec = replace(cell, algorithm=algorithm).spec(request_of(name).phase, 0, 0)

    learner = assemble(spec).build(tmp_path)

    assert learner.env is not None
    learner.env.close()
    assert learner.num_timesteps == 0


@pytest.mark.parametrize("name", names("benchmark"))
def test_every_cell_is_a_distinct_configuration(name: str) -> None:
    """A benchmark has as many distinct configurations as cells."""
    assert len(cells(name)) == len(request_of(name).experiment.configurations)


@pytest.mark.parametrize("name", WITHOUT_GUIDE)
def test_a_benchmark_without_its_guide_names_the_command_that_trains_it(
    tmp_path: Path, name: str
) -> None:
    """The command in the message is valid, and trains an experiment of the name that the guide has."""
    workspace = Workspace(tmp_path, Layout(tmp_path / "runs"))
    with pytest.raises(ConfigError) as refusal:
        read_request([f"+benchmark={name}"], workspace)
    message, command = str(refusal.value).split(": to train it, type rlexp run ")

    request = read_request(shlex.split(command), workspace)

    assert message.endswith(f"guide='runs/{request.experiment.name}' is no run's folder")
    assert 1 == len(list(request.specs()))


def test_a_guide_that_is_switched_off_is_not_named_in_errors_about_another(tmp_path: Path) -> None:
    """The error about a guide that no benchmark trains stays as it is beside an absent guide that is not used."""
    words = [
        "+benchmark=snapshots",
        "component=[snapshots,jump_start]",
        *WITHOUT_GUIDE["snapshots"],
    ]
    other = "environment.components.jump_start.guide=runs/other"

    with pytest.raises(ConfigError) as refusal:
        read_request([*words, other], Workspace(tmp_path, Layout(tmp_path / "runs")))

    assert str(refusal.value).startswith("environment.components.jump_start.guide='runs/other' is")
    assert "to train it" not in str(refusal.value)


@pytest.mark.parametrize("name", MATRICES)
def test_tasks_have_the_anchors_of_normalised_scores(name: str) -> None:
    """Tasks have a random score and, if there is one, a solved threshold."""
    for cell in request_of(name).experiment.configurations:
        low, high = cell.reference["random"], cell.reference["threshold"]
        assert low < high if cell.task not in WITHOUT_THRESHOLD else high is None, cell.task


@pytest.mark.parametrize("name", MATRICES)
def test_a_matrix_says_where_its_hyperparameters_come_from(name: str) -> None:
    """The first comment of a matrix names the source and version of its hyperparameters."""
    path = matrix_file(name, NOWHERE)
    assert path is not None
    assert "rl-baselines3-zoo 2." in path.read_text().partition("\ntasks:")[0]
