"""Overrides become an experiment with labels and a name, or are refused together."""

import subprocess
import sys
from pathlib import Path

import pytest
from quick_parts import quick_parts
from samples import write_tree

from rlexp.app.execution.client_words import check_client_words
from rlexp.app.execution.request import RunRequest, read_request
from rlexp.app.workspace import Workspace
from rlexp.config.config_files import packaged_root
from rlexp.errors import ConfigError
from rlexp.protocol.seeds import Phase
from rlexp.store.layout import Layout

quick = pytest.fixture(autouse=True)(quick_parts)

MINE = "defaults: [gymnasium, _self_]\nid: CartPole-v1\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace without files; imports of its modules are undone after the test."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


def request(folder: Path, *overrides: str, allowed: tuple[str, ...] = ()) -> RunRequest:
    """The request that these overrides make."""
    return read_request(overrides, Workspace(folder, Layout(folder / "runs"), allowed))


def refusal(folder: Path, *overrides: str) -> str:
    """The one-line message with which the overrides are refused."""
    with pytest.raises(ConfigError) as caught:
        request(folder, *overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def labels(requested: RunRequest) -> list[str]:
    """The labels of the requested configurations."""
    return [c.label for c in requested.experiment.configurations]


def test_an_older_config_file_of_a_study_is_read(folder: Path) -> None:
    """A study's conf/config.yaml without callback and replay gives runs without both."""
    packaged = (packaged_root() / "conf/config.yaml").read_text().splitlines(keepends=True)
    older = "".join(
        x
        for x in packaged
        if x.strip() not in {"- callback: none", "- replay: uniform", "- dataset: none"}
    )
    assert len(older) < len("".join(packaged))
    default = request(folder).experiment.configurations
    write_tree(folder, {"conf/config.yaml": older})
    requested = request(folder)
    assert default == requested.experiment.configurations
    check_client_words(["algorithm=dqn"], Workspace(folder, Layout(folder / "runs"), ()))


def test_defaults_are_five_test_seeds_of_ppo_on_cartpole(folder: Path) -> None:
    """A command without overrides requests PPO on CartPole with five test seeds."""
    requested = request(folder)
    specs = [spec for _, spec in requested.experiment.specs(requested.phase)]
    assert (Phase.TEST, [0, 1, 2, 3, 4]) == (requested.phase, [spec.seed for spec in specs])
    assert ["CartPole-v1"] == [c.task for c in requested.experiment.configurations]


def test_reading_a_request_writes_nothing(folder: Path) -> None:
    """Reading a request creates no file and no folder."""
    request(folder, "algorithm=ppo,a2c")
    assert [] == list(folder.iterdir())


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ([], ["ppo"]),
        (["algorithm=a2c"], ["a2c"]),
        (["algorithm=ppo,a2c"], ["ppo", "a2c"]),
        (["environment=cartpole,acrobot"], ["ppo", "ppo"]),
        (["algorithm.gamma=0.9,0.8"], ["ppo gamma=0.9", "ppo gamma=0.8"]),
        (["algorithm.gamma=0.9"], ["ppo"]),
        (["agent=mlp,linear", "algorithm=ars"], ["ars agent=mlp", "ars agent=linear"]),
        (["agent.network=[8],[16,16]"], ["ppo network=[8]", "ppo network=[16,16]"]),
        (
            ["algorithm=ppo,a2c", "algorithm.gamma=0.9,0.8"],
            ["ppo gamma=0.9", "ppo gamma=0.8", "a2c gamma=0.9", "a2c gamma=0.8"],
        ),
        (["environment.arguments.g=1,2"], ["ppo g=1", "ppo g=2"]),
        (["compute.threads=1,2"], ["ppo threads=1", "ppo threads=2"]),
    ],
)
def test_a_label_names_the_choices(
    folder: Path, overrides: list[str], expected: list[str]
) -> None:
    """A label has the algorithm and the other choices of a grid, without the task."""
    assert expected == labels(request(folder, *overrides))


def test_equal_configurations_are_merged(folder: Path) -> None:
    """Different overrides that define the same runs give one configuration."""
    assert ["ppo gamma=0.9"] == labels(request(folder, "algorithm.gamma=0.9,0.90"))
    assert ["ppo"] == labels(request(folder, "algorithm=ppo,ppo"))


def test_two_configurations_under_one_label_are_refused(folder: Path) -> None:
    """Different configurations with one label are refused, because a report would mix them."""
    overrides = (
        "environment=gymnasium",
        "environment.id=CartPole-v0,CartPole-v1",
        "environment.name=x",
    )
    assert "would both be reported as ppo on x" in refusal(folder, *overrides)


@pytest.mark.parametrize("setting", ["steps=100,200", "final_episodes=5,6", "score=final,auc"])
def test_different_budgets_on_one_task_are_refused(folder: Path, setting: str) -> None:
    """Different budgets on one task are refused before training."""
    assert "would have different budgets on CartPole-v1" in refusal(folder, f"budget.{setting}")


def test_a_phase_without_seeds_is_refused(folder: Path) -> None:
    """A phase without seeds is refused, and the error names the empty list."""
    assert "seeds.test is empty" in refusal(folder, "seeds.test=0")
    assert "seeds.tuning is empty" in refusal(folder, "seeds.tuning=[]", "phase=tuning")
    assert Phase.TUNING is request(folder, "seeds.test=0", "phase=tuning").phase


def test_failures_as_worst_need_a_declared_minimum(folder: Path) -> None:
    """A failure can count as the minimum return only where the task declares it."""
    overrides = ("failures=worst", "environment.reference.minimum=null")
    assert "failures=worst needs the minimum return of CartPole-v1" in refusal(folder, *overrides)
    assert "of Pendulum-v1" in refusal(
        folder,
        "failures=worst",
        "environment=cartpole,gymnasium",
        "environment.id=Pendulum-v1",
        "environment.name=null",
        "environment.reference.minimum=null",
    )
    assert "worst" == request(folder, "failures=worst").experiment.failures


@pytest.mark.parametrize(
    "word",
    ["environment.arguments.x=inf", "environment.arguments.x=[nan]", "agent.policy_kwargs.x=-inf"],
)
def test_a_number_that_records_cannot_hold_is_refused(folder: Path, word: str) -> None:
    """Infinity and NaN are refused because JSON has neither."""
    assert "inf or nan, which records cannot hold" in refusal(folder, word)


def test_an_error_in_any_cell_of_a_grid_is_reported(folder: Path) -> None:
    """An error in one configuration of a grid refuses the whole command."""
    assert "algorithm.gamma=2: must be less than" in refusal(folder, "algorithm.gamma=0.9,2")


PACKAGE = """
from dataclasses import dataclass
from rlexp.algorithms.ppo import PPO

@dataclass(frozen=True, slots=True, kw_only=True)
class Ours(PPO):
    later: int
"""


def test_a_package_of_the_workspace_needs_permission(folder: Path) -> None:
    """With permission, classes of a package in the workspace are plug-ins."""
    name = f"ours_{folder.name.replace('-', '_')}"
    text = f"defaults: [ppo, _self_]\n_target_: {name}.learner.Ours\nlater: 5\n"
    files = {f"{name}/learner.py": PACKAGE, "conf/algorithm/ours.yaml": text}
    write_tree(folder, files)
    assert "allow another package with --allow-import" in refusal(folder, "algorithm=ours")
    requested = request(folder, "algorithm=ours", allowed=(name,))
    (configuration,) = requested.experiment.configurations
    assert ("learner", 5) == (configuration.label, configuration.algorithm["later"])


def test_the_installed_script_finds_a_package_of_the_workspace(folder: Path) -> None:
    """A package in the current folder is found although Python does not search there."""
    text = "defaults: [ppo, _self_]\n_target_: ours.learner.Ours\nlater: 5\n"
    write_tree(folder, {"ours/learner.py": PACKAGE, "conf/algorithm/mine.yaml": text})
    code = (
        "from rlexp.app.execution.request import read_request; from rlexp.app.workspace import Workspace; "
        "print(read_request(['algorithm=mine'], Workspace.here(('ours',))).experiment.name)"
    )
    process = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert ("CartPole-v1-learner-", "") == (process.stdout.strip()[:-6], process.stderr)
