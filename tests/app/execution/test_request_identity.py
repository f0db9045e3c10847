"""Requested experiments get names and identities, and keep secrets out of records."""

import sys
from pathlib import Path

import pytest
from quick_parts import quick_parts
from samples import write_tree

from rlexp.app.execution.request import RunRequest, read_request
from rlexp.app.workspace import Workspace
from rlexp.config.validate import build
from rlexp.errors import ConfigError
from rlexp.protocol.identity import canonical
from rlexp.protocol.seeds import Phase
from rlexp.store.layout import Layout
from rlexp.store.runs import read_experiment, write_experiment

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


def identity(folder: Path, *overrides: str) -> str:
    """The id of the first run that the overrides request."""
    _, spec = next(iter(request(folder, *overrides).experiment.specs(Phase.TEST)))
    return spec.id


@pytest.mark.parametrize(
    ("overrides", "start"),
    [
        ([], "CartPole-v1-ppo-"),
        (["algorithm=ppo,a2c"], "CartPole-v1-ppo+a2c-"),
        (["environment=cartpole,acrobot"], "CartPole-v1+Acrobot-v1-ppo-"),
        (["environment.id=ALE/Pong-v5"], "ALE-Pong-v5-ppo-"),
        (["environment.name='My task: ü'"], "My-task-ppo-"),
        (["environment.name='../../etc'"], "etc-ppo-"),
        (["environment.name='...'"], "task-ppo-"),
    ],
)
def test_a_name_is_derived_from_the_choices(
    folder: Path, overrides: list[str], start: str
) -> None:
    """A derived name is a valid folder name and ends with six digits of the definition's hash."""
    name = request(folder, *overrides).experiment.name
    assert start == name[:-6]
    assert int(name[-6:], 16) >= 0


def test_derived_names_differ_exactly_where_definitions_differ(folder: Path) -> None:
    """Equal definitions give equal names, and different definitions give different names."""
    overrides: list[tuple[str, ...]] = [(), ("algorithm.gamma=0.9",), ("seeds.root=1",)]
    names = [request(folder, *words).experiment.name for words in overrides]
    same = request(
        folder, "seeds.test=9", "executor.workers=1", "budget.timeout=9", "phase=tuning"
    )
    assert (3, names[0]) == (len(set(names)), same.experiment.name)


def test_a_long_name_is_cut(folder: Path) -> None:
    """A long name is shortened, because file systems take 255 bytes."""
    name = request(folder, f"environment.name={'x' * 300}").experiment.name
    assert 87 == len(name)


def test_a_given_name_is_used_unchanged(folder: Path) -> None:
    """`experiment=` sets the name as typed."""
    assert "mine.1" == request(folder, "experiment=mine.1").experiment.name


@pytest.mark.parametrize(
    "name", ["../x", "a/b", "'a b'", "''", "..", "'a\nb'", "'ü'", "x" * 300, "'/etc/x'", ".x"]
)
def test_a_name_outside_the_runs_folder_is_refused(folder: Path, name: str) -> None:
    """A name that is a path is refused before anything is written."""
    message = refusal(folder, f"experiment={name}")
    assert "cannot be a folder name" in message
    assert [] == list(folder.iterdir())


@pytest.fixture(scope="module")
def default_identity(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The id of the first run of a command without overrides."""
    return identity(tmp_path_factory.mktemp("a study"))


@pytest.mark.parametrize(
    ("overrides", "same"),
    [
        (("budget.checkpoint_every=5",), True),
        (("budget.timeout=5",), True),
        (("executor.workers=1",), True),
        (("experiment=other",), True),
        (("compute.lean=false",), True),
        (("seeds.test=9",), True),
        (("environment.reference.threshold=1",), True),
        (("failures=worst",), True),
        (("budget.steps=1e5",), True),
        (("algorithm.gamma=0.990",), True),
        (("algorithm.max_grad_norm=5e-1",), True),
        (("algorithm.ent_coef=0",), True),
        (("seeds.root=1",), False),
        (("budget.steps=99",), False),
        (("algorithm.gamma=0.98",), False),
        (("agent.network=[64]",), False),
        (("environment.vector.count=2",), False),
        (("environment.arguments.x=1",), False),
        (("compute.threads=2",), False),
        (("compute.device=cuda",), False),
    ],
)
def test_identity_covers_what_determines_the_numbers(
    folder: Path, default_identity: str, overrides: tuple[str, ...], same: bool
) -> None:
    """Overrides with the same effect give the same run; other numbers give another run."""
    assert same == (default_identity == identity(folder, *overrides))


def test_an_experiment_read_from_disk_is_equal(folder: Path) -> None:
    """A repeated command recognises the experiment on disk as the same one."""
    overrides = (
        "algorithm=ppo,sac",
        "environment=cartpole,pendulum",
        "seeds.test=[3,1]",
        "failures=worst",
        "budget.checkpoint_minutes=null",
    )
    requested = request(folder, *overrides, "environment.reference.minimum=-5").experiment
    paths = Layout(folder / "runs").experiment(requested.name)
    write_experiment(paths, requested)
    assert requested == read_experiment(paths)
    assert requested.fingerprint == read_experiment(paths).fingerprint


def test_a_secret_never_reaches_a_record(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record has the name of a variable; its value is read when the plug-in is built."""
    monkeypatch.setenv("SAMPLE_TOKEN", "hunter2-hunter2")
    text = (
        MINE
        + "arguments: {login: '${oc.env:SAMPLE_TOKEN}', list: [{a: '${oc.env:SAMPLE_TOKEN}'}]}\n"
    )
    write_tree(folder, {"conf/environment/mine.yaml": text})
    requested = request(
        folder, "environment=mine", "environment.arguments.b=${oc.env:SAMPLE_TOKEN}"
    )
    assert "hunter2" not in canonical(requested.experiment.definition())
    (configuration,) = requested.experiment.configurations
    assert "${oc.env:SAMPLE_TOKEN}" == configuration.environment["arguments"]["login"]
    document = {**configuration.environment, "reference": {}}
    built = build(document, "environment")
    secret = "hunter2-hunter2"
    assert {"login": secret, "list": [{"a": secret}], "b": secret} == built.arguments


def test_another_value_of_a_variable_is_the_same_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run keeps its id when the value of a variable changes."""
    word = "environment.arguments.login=${oc.env:SAMPLE_TOKEN}"
    monkeypatch.setenv("SAMPLE_TOKEN", "first-value")
    before = identity(folder, word)
    monkeypatch.setenv("SAMPLE_TOKEN", "second-value")
    assert before == identity(folder, word)


def test_the_interval_of_evaluations_counts_as_its_number(folder: Path) -> None:
    """The default interval, a tenth of the budget, gives the same run as that number of steps."""
    steps, interval = "budget.steps=4000", "budget.evaluation_every"
    by_default = identity(folder, steps)
    assert by_default == identity(folder, steps, f"{interval}=400")
    assert by_default != identity(folder, steps, f"{interval}=401")
    assert by_default != identity(folder, steps, f"{interval}=null")
    (configuration,) = request(folder, steps).experiment.configurations
    assert 400 == configuration.budget.evaluation_every
