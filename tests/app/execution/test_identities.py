"""Identities of runs do not change when packaged plug-ins are moved or renamed."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from finished_runs import prepared
from quick_parts import quick_parts
from samples import write_tree

from rlexp.algorithms.ppo import PPO
from rlexp.app.execution.request import RunRequest, merge_with_existing, read_request
from rlexp.app.execution.run_process import execute
from rlexp.app.sweeps.request import read_sweep
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError
from rlexp.protocol.identity import Identity
from rlexp.protocol.seeds import Phase
from rlexp.records.events import Failure
from rlexp.records.run import State
from rlexp.store.layout import Layout
from rlexp.store.runs import read_run, read_spec, write_experiment, write_run

SOURCES = Path(__file__).parents[3]
GOLDEN = json.loads((SOURCES / "tests/golden/identities.json").read_text())
UNDECLARED = """
from dataclasses import dataclass
from rlexp.algorithms.a2c import A2C

@dataclass(frozen=True, slots=True, kw_only=True)
class Mine(A2C):
    pass
"""
EXCLUDING = """
from dataclasses import dataclass
from typing import ClassVar
from rlexp.algorithms.a2c import A2C
from rlexp.protocol.identity import Identity

@dataclass(frozen=True, slots=True, kw_only=True)
class Mine(A2C):
    identity: ClassVar = Identity("algorithm", "my_lab/mine", version={version},
        excluded=("{key}",))
    verbosity: int
"""

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace; imports of its modules are undone after the test."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def workspace(folder: Path, *allowed: str) -> Workspace:
    """The workspace in a folder."""
    return Workspace(folder, Layout(folder / "runs"), allowed)


def request(folder: Path, *overrides: str, allowed: str = "") -> RunRequest:
    """The request that these overrides make."""
    return read_request(overrides, workspace(folder, allowed))


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: " ".join(golden["words"]))
def test_packaged_configurations_keep_their_identities(
    folder: Path, golden: dict[str, Any]
) -> None:
    """Ids and names of packaged configurations are those of the golden file."""
    (folder / "train.py").write_text("print('trained')\n")
    requested = request(folder, *golden["words"])
    spec = requested.specs()[0]
    assert golden["id"] == spec.id
    assert golden["folder"] == spec.name
    assert golden["experiment"] == requested.experiment.name


def move_class(folder: Path, group: str, source_path: str, class_name: str) -> str:
    """Copy the module of a class to another package, which the option `moved` selects."""
    package = f"moved_{folder.name.replace('-', '_')}"
    module = Path(source_path).stem
    text = (SOURCES / "conf" / group / f"{module}.yaml").read_text()
    target = f"rlexp.{'.'.join(Path(source_path).with_suffix('').parts[1:])}.{class_name}"
    assert target in text
    write_tree(
        folder,
        {
            f"{package}/elsewhere.py": (SOURCES / source_path)
            .read_text()
            .replace(class_name, "Renamed"),
            f"conf/{group}/moved.yaml": text.replace(target, f"{package}.elsewhere.Renamed"),
        },
    )
    return package


@pytest.mark.parametrize(
    ("group", "name", "source", "kind"),
    [
        ("algorithm", "a2c", "rlexp/algorithms/a2c.py", "A2C"),
        ("agent", "linear", "rlexp/agents/linear.py", "Linear"),
        ("component", "sticky_actions", "rlexp/components/sticky_actions.py", "StickyActions"),
    ],
)
def test_a_class_that_was_moved_and_renamed_makes_the_same_runs(
    folder: Path, group: str, name: str, source: str, kind: str
) -> None:
    """A class with the same declaration in another module gives the same ids and names."""
    package = move_class(folder, group, source, kind)
    before = request(folder, f"{group}={name}")
    after = request(folder, f"{group}=moved", allowed=package)
    assert package in json.dumps(after.specs()[0].plain())
    assert [spec.id for spec in before.specs()] == [spec.id for spec in after.specs()]
    assert [spec.name for spec in before.specs()] == [spec.name for spec in after.specs()]
    assert before.experiment.name == after.experiment.name
    assert before.experiment.definition() == after.experiment.definition()


def test_a_moved_tuner_gives_the_same_sweep(folder: Path) -> None:
    """A sweep with a moved tuner has the same definition, without a Python path."""
    package = move_class(folder, "tuner", "rlexp/tuners/random.py", "RandomSearch")
    overrides = ("algorithm.gamma=interval(0.9,0.99)", "budget.steps=10", "pruner=none")
    before = read_sweep(None, ["tuner=random", *overrides], workspace(folder)).experiment
    after = read_sweep(None, ["tuner=moved", *overrides], workspace(folder, package)).experiment
    assert before.fingerprint == after.fingerprint
    assert "_target_" not in json.dumps(before.definition())


def test_a_class_that_declares_nothing_is_named_by_its_module_path(folder: Path) -> None:
    """A class without its own declaration is identified by its module path."""
    package = f"mine_{folder.name.replace('-', '_')}"
    yaml = f"defaults: [a2c, _self_]\n_target_: {package}.own.Mine\n"
    write_tree(folder, {f"{package}/own.py": UNDECLARED, "conf/algorithm/mine.yaml": yaml})
    spec = request(folder, "algorithm=mine", allowed=package).specs()[0]
    assert spec.algorithm["plug_in"] == {
        "group": "algorithm",
        "name": f"{package}.own:Mine",
        "named_by": "module path",
    }
    assert spec.name.startswith("own-test-0-")
    assert spec.id != request(folder, "algorithm=a2c").specs()[0].id


def excluding(folder: Path, key: str, version: int) -> str:
    """Write an algorithm that excludes a setting from its identity; returns its package."""
    package = f"excluding_{version}_{folder.name.replace('-', '_')}"
    yaml = f"defaults: [a2c, _self_]\n_target_: {package}.own.Mine\nverbosity: 0\n"
    text = EXCLUDING.format(key=key, version=version)
    write_tree(folder, {f"{package}/own.py": text, "conf/algorithm/mine.yaml": yaml})
    return package


def test_a_class_may_exclude_settings_and_count_versions(folder: Path) -> None:
    """An excluded setting does not change the run, and another version of the class does."""
    package = excluding(folder, "verbosity", 1)
    overrides = ((), ("algorithm.verbosity=1",), ("algorithm.gamma=0.5",))
    specs = [request(folder, "algorithm=mine", *w, allowed=package).specs()[0] for w in overrides]
    assert specs[0].id == specs[1].id
    assert specs[0].id != specs[2].id
    assert specs[1].algorithm["verbosity"] == 1
    assert specs[0].name.startswith("mine-test-0-")
    later = excluding(folder, "verbosity", 2)
    assert request(folder, "algorithm=mine", allowed=later).specs()[0].id != specs[0].id


def test_a_setting_that_is_excluded_must_exist(folder: Path) -> None:
    """A misspelt name of an excluded setting is refused."""
    package = excluding(folder, "verbositty", 1)
    with pytest.raises(ConfigError, match="excludes 'verbositty', which is no setting"):
        request(folder, "algorithm=mine", allowed=package)


def test_overrides_cannot_change_an_identity(folder: Path) -> None:
    """An override of an identity is refused as an unknown key."""
    with pytest.raises(ConfigError, match=r"unknown key 'algorithm\.plug_in'"):
        request(folder, "+algorithm.plug_in.name=sac")


def test_missing_runs_are_built_from_the_moved_class(folder: Path) -> None:
    """After a class was moved, missing runs of the experiment are built from the moved class."""
    before = request(folder, "algorithm=a2c", "seeds.test=1").experiment
    paths = Layout(folder / "runs").experiment(before.name)
    write_experiment(paths, before)
    package = move_class(folder, "algorithm", "rlexp/algorithms/a2c.py", "A2C")
    requested = request(folder, "algorithm=moved", "seeds.test=2", allowed=package).experiment
    planned = paths.run(next(before.specs(Phase.TEST))[1].name)
    write_run(planned, next(before.specs(Phase.TEST))[1])
    specs = [spec for _, spec in merge_with_existing(paths, requested).specs(Phase.TEST)]
    write_run(planned, specs[0])
    targets = {spec.algorithm["_target_"] for spec in (*specs, read_spec(planned))}
    assert {f"{package}.elsewhere.Renamed"} == targets


def test_a_run_is_not_trained_by_another_version_of_its_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run fails with a sentence that names both versions, and nothing is trained."""
    run = prepared(tmp_path)
    monkeypatch.setattr(PPO, "identity", Identity("algorithm", "ppo", version=2))
    execute([str(run.paths.folder), "1"])
    record = read_run(run.paths).record
    assert (State.FAILED, Failure.USER, 0) == (record.state, record.failure, record.step)
    reason = "was recorded with algorithm ppo, but its class is now ppo, version 2"
    assert reason in str(record.reason)
