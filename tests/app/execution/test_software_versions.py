"""Versions that determine a run's numbers besides its definition, and how changes are described."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from quick_parts import quick_parts
from samples import AGENT, ENVIRONMENT, spec

from rlexp.app.execution.software_versions import collect_versions, describe_changes
from rlexp.protocol.spec import RunSpec

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A workspace folder from which modules can be imported."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    assert not {"own_envs", "own_physics", "own_lonely"} & (set(sys.modules) - before)


def on(**environment: Any) -> RunSpec:
    """The specification of a run on another environment."""
    return replace(spec(), environment={**ENVIRONMENT, **environment})


def package(folder: Path, name: str = "own_envs", **modules: str) -> None:
    """Write a package of the user."""
    (folder / name).mkdir(exist_ok=True)
    for module, text in {"__init__": "", **modules}.items():
        (folder / name / f"{module}.py").write_text(text)


def test_libraries_and_processor_determine_every_run() -> None:
    """Each library is listed with its installed version."""
    versions_found = collect_versions(spec())
    assert np.__version__ == versions_found["numpy"]
    expected = {"rlexp", "python", "torch", "gymnasium", "stable-baselines3", "sb3-contrib"}
    assert expected | {"processor", "architecture"} <= set(versions_found)
    assert versions_found == collect_versions(spec(seed=3, steps=7))


def test_simulators_determine_the_numbers_of_their_environments() -> None:
    """Libraries for rendering are not listed."""
    versions_found = {
        i: set(collect_versions(on(id=i))) for i in ("CartPole-v1", "LunarLander-v3", "Hopper-v5")
    }
    assert {"box2d"} == versions_found["LunarLander-v3"] - versions_found["CartPole-v1"]
    assert {"mujoco"} == versions_found["Hopper-v5"] - versions_found["CartPole-v1"]
    assert not any("pygame" in name for names in versions_found.values() for name in names)


def test_user_packages_are_hashed_without_being_imported(folder: Path) -> None:
    """One changed byte in a source file changes the hash; other files do not."""
    package(folder, world="raise SystemExit('imported')\n")
    run = on(id="own_envs:World-v0")
    first = collect_versions(run)
    (folder / "own_envs" / "notes.txt").write_text("a")
    (folder / "unrelated.py").write_text("a = 1\n")
    assert first == collect_versions(run)
    package(folder, world="raise SystemExit('imported!')\n")
    assert "code of own_envs changed" == describe_changes(first, collect_versions(run))


def test_imports_of_user_packages_are_included(folder: Path) -> None:
    """Neighbouring modules are hashed, and other packages are listed with their versions."""
    package(folder, world="import numpy\nfrom own_physics.bodies import Ball\nfrom . import x\n")
    package(folder, "own_physics", bodies="import yaml as y\n\n\nclass Ball: ...\n")
    versions_found = collect_versions(on(imports=["own_envs.world"]))
    assert {"code of own_envs", "code of own_physics", "pyyaml"} <= set(versions_found)
    assert "pyyaml" not in collect_versions(spec())
    package(folder, "own_physics", bodies="class Ball: ...\n")
    now = collect_versions(on(imports=["own_envs.world"]))
    message = describe_changes(versions_found, now)
    assert (
        f"pyyaml was {versions_found['pyyaml']}, is not installed; code of own_physics changed"
        == message
    )


def test_every_plug_in_may_name_user_packages(folder: Path) -> None:
    """Targets, wrappers and imports count alike, and a single module counts as a package."""
    (folder / "own_lonely.py").write_text("a = 1\n")
    named = (
        on(wrappers=[{"name": "own_lonely:Wrapper"}]),
        on(imports=["own_lonely"]),
        replace(spec(), agent={**AGENT, "_target_": "own_lonely.Agent"}),
        replace(spec(), algorithm={"_target_": "own_lonely.Algorithm"}),
    )
    assert all("code of own_lonely" in collect_versions(run) for run in named)


def test_invalid_or_missing_code_does_not_stop_a_run(folder: Path) -> None:
    """Files that are not Python and modules that do not exist are tolerated."""
    package(folder, broken="import (\0", deep="(" * 100_000)
    (folder / "own_envs" / "link.py").symlink_to(folder / "nowhere.py")
    versions_found = collect_versions(on(imports=["own_envs", "nowhere_at_all"]))
    assert {"code of own_envs"} == {name for name in versions_found if name.startswith("code of")}


def test_differences_are_one_line() -> None:
    """One line lists changed, missing and new packages before changed code; None if equal."""
    then = {"numpy": "1", "torch": "2", "gone": "3", "code of b": "x", "code of c": "x"}
    now = {"numpy": "2", "torch": "2", "new": "3", "code of b": "y", "code of a": "x"}
    message = (
        "gone was 3, is not installed; new was not installed, is 3; numpy was 1, is 2; "
        "code of a is new; code of b changed; code of c is gone"
    )
    assert message == describe_changes(then, now)
    assert describe_changes(then, dict(then)) is None


@pytest.mark.parametrize("kept", [None, [], "numpy 1"])
def test_unrecorded_versions_count_as_a_change(kept: Any) -> None:
    """A checkpoint without recorded versions is refused."""
    assert "the versions that it was made with are not recorded" == describe_changes(
        kept, {"numpy": "1"}
    )


def test_damaged_versions_are_described_in_one_short_line() -> None:
    """Any content in folder of the versions gives one short line."""
    message = describe_changes(
        {"numpy": ["1\n2"] * 1000, "torch": None}, {"numpy": "1", "torch": "2"}
    )
    assert message is not None
    assert "\n" not in message
    assert len(message) <= 1000
