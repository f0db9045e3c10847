"""Software versions that determine the numbers of a run are collected and compared."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quick_parts import quick_parts
from samples import AGENT, ENVIRONMENT, spec

from rlexp.algorithms.compiled.runtime import processor_features
from rlexp.app.execution.software_versions import collect_versions, describe_changes
from rlexp.protocol.spec import RunSpec

GOLDEN = Path(__file__).parents[2] / "golden"
quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A workspace folder from which modules can be imported."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    assert not {"own_envs", "own_physics", "own_lonely"} & (set(sys.modules) - before)


def spec_on(**environment: Any) -> RunSpec:
    """The specification of a run on another environment."""
    return replace(spec(), environment={**ENVIRONMENT, **environment})


def package(folder: Path, name: str = "own_envs", **modules: str) -> None:
    """Write a package of the user."""
    (folder / name).mkdir(exist_ok=True)
    for module, text in {"__init__": "", **modules}.items():
        (folder / name / f"{module}.py").write_text(text)


def test_libraries_and_processor_determine_every_run() -> None:
    """The versions of libraries, Python and the processor are collected for every run."""
    versions = collect_versions(spec())
    assert np.__version__ == versions["numpy"]
    expected = {"rlexp", "python", "torch", "gymnasium", "stable-baselines3", "sb3-contrib"}
    assert expected | {"processor", "architecture"} <= set(versions)
    assert versions == collect_versions(spec(seed=3, steps=7))


def test_compiler_and_instructions_determine_compiled_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A compiled run has the versions of JAX, the instructions and flags; another run has not."""
    (first, *_) = json.loads((GOLDEN / "compiled_runs.json").read_text())
    versions = {"jax": "0.10.2", "jaxlib": "0.10.1", "ml-dtypes": "0.5.0"}
    monkeypatch.setattr(
        "rlexp.app.execution.software_versions.installed_version",
        lambda name: versions.get(name) or version(name),
    )
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    collected = collect_versions(RunSpec.from_plain(first))
    assert versions.items() <= collected.items()
    assert processor_features() == collected["processor features"]
    assert collected["compiler flags"] == "--xla_cpu_enable_fast_math=true"
    others = set(collect_versions(spec()))
    assert not {*versions, "processor features", "compiler flags"} & others
    drift = describe_changes(collected, {**collected, "jaxlib": "0.10.2"})
    assert drift == "jaxlib was 0.10.1, is 0.10.2"


def test_simulators_determine_the_numbers_of_their_environments() -> None:
    """The versions have the simulator of an environment and no library for rendering."""
    names_by_task = {
        task: set(collect_versions(spec_on(id=task)))
        for task in ("CartPole-v1", "LunarLander-v3", "Hopper-v5")
    }
    assert {"box2d"} == names_by_task["LunarLander-v3"] - names_by_task["CartPole-v1"]
    assert {"mujoco"} == names_by_task["Hopper-v5"] - names_by_task["CartPole-v1"]
    assert not any("pygame" in name for names in names_by_task.values() for name in names)


def test_user_packages_are_hashed_without_being_imported(folder: Path) -> None:
    """A changed source file of a user package changes its hash, and other files do not."""
    package(folder, world="raise SystemExit('imported')\n")
    run = spec_on(id="own_envs:World-v0")
    first = collect_versions(run)
    (folder / "own_envs" / "notes.txt").write_text("a")
    (folder / "unrelated.py").write_text("a = 1\n")
    assert first == collect_versions(run)
    package(folder, world="raise SystemExit('imported!')\n")
    assert "code of own_envs changed" == describe_changes(first, collect_versions(run))


def test_imports_of_user_packages_are_included(folder: Path) -> None:
    """Modules that a user package imports are hashed, or listed with their version."""
    package(folder, world="import numpy\nfrom own_physics.bodies import Ball\nfrom . import x\n")
    package(folder, "own_physics", bodies="import yaml as y\n\n\nclass Ball: ...\n")
    versions = collect_versions(spec_on(imports=["own_envs.world"]))
    assert {"code of own_envs", "code of own_physics", "pyyaml"} <= set(versions)
    assert "pyyaml" not in collect_versions(spec())
    package(folder, "own_physics", bodies="class Ball: ...\n")
    changed_versions = collect_versions(spec_on(imports=["own_envs.world"]))
    message = describe_changes(versions, changed_versions)
    assert (
        f"pyyaml was {versions['pyyaml']}, is not installed; code of own_physics changed"
        == message
    )


def test_every_plug_in_may_name_user_packages(folder: Path) -> None:
    """Targets, wrappers and imports of any plug-in can name a user package."""
    (folder / "own_lonely.py").write_text("a = 1\n")
    specs = (
        spec_on(wrappers=[{"name": "own_lonely:Wrapper"}]),
        spec_on(imports=["own_lonely"]),
        replace(spec(), agent={**AGENT, "_target_": "own_lonely.Agent"}),
        replace(spec(), algorithm={"_target_": "own_lonely.Algorithm"}),
    )
    assert all("code of own_lonely" in collect_versions(run) for run in specs)


def test_invalid_or_missing_code_does_not_stop_a_run(folder: Path) -> None:
    """Files that are not valid Python and modules that do not exist are tolerated."""
    package(folder, broken="import (\0", deep="(" * 100_000)
    (folder / "own_envs" / "link.py").symlink_to(folder / "nowhere.py")
    versions = collect_versions(spec_on(imports=["own_envs", "nowhere_at_all"]))
    assert {"code of own_envs"} == {name for name in versions if name.startswith("code of")}


def test_differences_are_one_line() -> None:
    """One line has the changes of packages before those of code; equal versions give None."""
    then = {"numpy": "1", "torch": "2", "gone": "3", "code of b": "x", "code of c": "x"}
    now = {"numpy": "2", "torch": "2", "new": "3", "code of b": "y", "code of a": "x"}
    message = (
        "gone was 3, is not installed; new was not installed, is 3; numpy was 1, is 2; "
        "code of a is new; code of b changed; code of c is gone"
    )
    assert message == describe_changes(then, now)
    assert describe_changes(then, dict(then)) is None


@pytest.mark.parametrize("recorded", [None, [], "numpy 1"])
def test_unrecorded_versions_count_as_a_change(recorded: Any) -> None:
    """Missing or malformed recorded versions count as a change."""
    assert "the versions that it was made with are not recorded" == describe_changes(
        recorded, {"numpy": "1"}
    )


def test_damaged_versions_are_described_in_one_short_line() -> None:
    """Damaged versions give one short line."""
    message = describe_changes(
        {"numpy": ["1\n2"] * 1000, "torch": None}, {"numpy": "1", "torch": "2"}
    )
    assert message is not None
    assert "\n" not in message
    assert len(message) <= 1000
