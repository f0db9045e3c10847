"""Suites: errors name the extra of a missing suite, and the reason of a conflict."""

import importlib.metadata
import sys
from types import ModuleType
from typing import Any

import gymnasium
import pytest
from gymnasium.envs.registration import EnvSpec

from rlexp.config.validate import build
from rlexp.environments import suites
from rlexp.environments.suites import SUITES, install_hint, suite_of_id
from rlexp.environments.wrappers import Wrapper, imported, wrap
from rlexp.errors import ConfigError

EXTRAS = {suite.extra: suite for suite in SUITES}
VERSIONS = {"mujoco": "4.0.0", "pygame-ce": "2.5.8"}
IDS = {
    "atari": ("ALE/Breakout-v5", "ALE/MsPacman-v5", "BreakoutNoFrameskip-v4"),
    "electric-motor": ("Cont-CC-PMSM-v0", "Finite-TC-ExtExDc-v0"),
    "highway": ("highway-v0", "highway-fast-v0", "parking-v0"),
    "metaworld": ("Meta-World/MT1", "Meta-World/reach-v3"),
    "minigrid": ("MiniGrid-Empty-8x8-v0", "BabyAI-GoTo-v0"),
    "multi-objective": ("deep-sea-treasure-v0", "mo-hopper-v5", "minecart-v0"),
    "robotics": ("FetchReach-v4", "PointMaze_UMaze-v3"),
}


@pytest.fixture(name="without_suites")
def _without_suites(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without suites and with the packages of `VERSIONS`."""

    def version(package: str) -> str:
        if package not in VERSIONS:
            raise importlib.metadata.PackageNotFoundError(package)
        return VERSIONS[package]

    monkeypatch.setattr(suites, "find_spec", lambda _: None)
    monkeypatch.setattr(suites, "version", version)
    for suite in SUITES:
        for module in (suite.module, *suite.others):
            for imported_before in [name for name in sys.modules if name.startswith(f"{module}.")]:
                monkeypatch.delitem(sys.modules, imported_before)
            monkeypatch.setitem(sys.modules, module, None)
    gymnasium_entries = {k: v for k, v in gymnasium.registry.items() if _is_of_gymnasium(v)}
    monkeypatch.setattr(gymnasium, "registry", gymnasium_entries)


def _is_of_gymnasium(spec: EnvSpec) -> bool:
    """Whether an environment is part of Gymnasium itself."""
    return str(spec.entry_point).startswith("gymnasium.envs")


def make_environment(words: dict[str, Any]) -> Any:
    """The environment of a configuration."""
    vector = {
        **dict.fromkeys(("normalise_observations", "normalise_rewards"), False),
        **dict.fromkeys(("clip_observations", "clip_rewards"), 10.0),
        "count": 1,
        "kind": "dummy",
        "frame_stack": 1,
    }
    settings: dict[str, Any] = {
        "_target_": "rlexp.environments.gymnasium_task.GymnasiumTask",
        **dict.fromkeys(("name", "max_episode_steps")),
        "imports": [],
        "arguments": {},
        "wrappers": [],
        "vector": vector,
        "reference": {},
    }
    return build({**settings, **words}, "environment").make()


def refusal(**words: Any) -> str:
    """The one-line error for an environment."""
    with pytest.raises(ConfigError) as error_info:
        make_environment(words)
    assert "\n" not in str(error_info.value)
    return str(error_info.value)


@pytest.mark.usefixtures("without_suites")
@pytest.mark.parametrize(("extra", "id_"), [(e, i) for e, ids in IDS.items() for i in ids])
def test_an_id_of_a_missing_suite_names_its_extra(extra: str, id_: str) -> None:
    """The error for an unregistered id names the extra of its suite."""
    message = refusal(id=id_)
    assert f"{id_!r} is not registered in Gymnasium" in message
    assert f"pip install 'rlexp[{extra}]'" in message


@pytest.mark.usefixtures("without_suites")
@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.extra)
def test_an_import_of_a_missing_suite_names_its_extra(suite: suites.Suite) -> None:
    """The error for a missing import names the extra of its suite."""
    for module in (suite.module, f"{suite.module}.wrappers", *suite.others):
        with pytest.raises(ConfigError, match=rf"pip install 'rlexp\[{suite.extra}\]'"):
            imported(module)


@pytest.mark.usefixtures("without_suites")
def test_a_conflicting_suite_says_why() -> None:
    """The hint for a conflicting suite names both packages and the installed version."""
    reasons = {
        "metaworld": "metaworld works with mujoco 3.3.0 only, and mujoco 4.0.0 is installed",
        "multi-objective": "mo-gymnasium brings pygame, which overwrites files of pygame-ce, and "
        "pygame-ce 2.5.8 is installed",
        "robotics": "gymnasium-robotics works with mujoco before 4 only, and mujoco 4.0.0 is "
        "installed",
    }
    assert reasons == {
        s.extra: suites.installation_conflict(s) for s in SUITES if suites.installation_conflict(s)
    }
    for extra, reason in reasons.items():
        assert (
            f"{reason}; in a new virtual environment, type: pip install 'rlexp[{extra}]'"
            == install_hint(EXTRAS[extra])
        )


@pytest.mark.usefixtures("without_suites")
def test_a_fitting_version_is_no_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fitting version of a package, or no such package, is no conflict."""
    monkeypatch.setitem(VERSIONS, "mujoco", "3.3.0")
    for extra in ("metaworld", "robotics"):
        assert f"pip install 'rlexp[{extra}]'" == install_hint(EXTRAS[extra])
    monkeypatch.delitem(VERSIONS, "pygame-ce")
    assert "pip install 'rlexp[multi-objective]'" == install_hint(EXTRAS["multi-objective"])


def test_an_installed_conflicting_suite_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An error of a conflicting suite is shown with the likely cause."""

    def fetch(**_: Any) -> None:
        raise AssertionError

    module: Any = ModuleType("gymnasium_robotics.fetch")
    module.fetch = fetch
    monkeypatch.setitem(sys.modules, "gymnasium_robotics.fetch", module)
    monkeypatch.setattr(suites, "version", VERSIONS.get)
    gymnasium.register("Fetch-v0", entry_point="gymnasium_robotics.fetch:fetch")
    try:
        message = refusal(id="Fetch-v0")
    finally:
        gymnasium.registry.pop("Fetch-v0")
    assert "'Fetch-v0' cannot be made: AssertionError; gymnasium-robotics works with" in message
    assert "mujoco 4.0.0 is installed: give rlexp[robotics] a virtual environment" in message


def test_an_installed_suite_that_is_not_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error for an id of a package that is not imported says what to import."""
    monkeypatch.setattr(gymnasium, "registry", {})
    monkeypatch.setattr(suites, "find_spec", lambda _: True)
    assert "('ale_py' goes into environment.imports)" in refusal(id="ALE/Breakout-v5")
    assert "(a package that registers it goes into" in refusal(id="Corridor-v0")


def test_a_wrapper_without_its_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrapper that scales images names the extra with its library."""
    monkeypatch.setitem(sys.modules, "cv2", None)
    env = gymnasium.make("CartPole-v1")
    with pytest.raises(ConfigError, match=r"AtariPreprocessing' needs .* 'rlexp\[atari\]'"):
        wrap(env, Wrapper(name="AtariPreprocessing"), frozenset())


def test_ids_of_gymnasium_itself_belong_to_no_suite() -> None:
    """A misspelt id of Gymnasium matches no suite."""
    gymnasium_ids = [
        k for k, v in gymnasium.registry.items() if "gymnasium.envs" in str(v.entry_point)
    ]
    assert [] == [id_ for id_ in gymnasium_ids if suite_of_id(id_) is not None]
    assert issubclass(type(make_environment({"id": gymnasium_ids[0]}).unwrapped), gymnasium.Env)


def test_every_suite_has_a_distinct_extra() -> None:
    """Every suite has a distinct extra and a known module."""
    assert len(SUITES) == len(EXTRAS) == len({suite.module for suite in SUITES})
