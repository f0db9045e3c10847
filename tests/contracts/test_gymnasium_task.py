"""Settings that a Gymnasium task accepts and refuses."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from members import member

from rlexp.errors import ConfigError

BASE = "gymnasium"
PACKAGE = """
import gymnasium
class Corridor(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(3)
    action_space = gymnasium.spaces.Discrete(2)
    def __init__(self, length=3): self.length = length
    def reset(self, *, seed=None, options=None): return 0, {}
    def step(self, action): return 0, 1.0, False, False, {}
class Double(gymnasium.RewardWrapper):
    def reward(self, reward): return 2 * reward
def function(env): return env
if "Corridor-v0" not in gymnasium.registry:
    gymnasium.register("Corridor-v0", entry_point=Corridor, max_episode_steps=4)
"""


@pytest.fixture(name="package")
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module of the user, beside a module that cannot be imported."""
    (tmp_path / "corridors.py").write_text(PACKAGE)
    (tmp_path / "broken.py").write_text("raise RuntimeError('two\\nlines')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "corridors", raising=False)
    yield "corridors"
    gymnasium.registry.pop("Corridor-v0", None)


def task(**changes: Any) -> Any:
    """The base environment with changes."""
    return member("environment", BASE, **{"id": "CartPole-v1", **changes})


def refusal(environment: Any) -> str:
    """The one-line error for an environment."""
    with pytest.raises(ConfigError) as error_info:
        environment.make()
    message = str(error_info.value)
    assert "\n" not in message
    return message


def test_the_task_is_the_id_unless_it_is_named() -> None:
    """The task has the name of the id without its module, unless `name` is set."""
    tasks = [task(), task(id="some.where:My/Task-v2"), task(name="balance")]
    assert [each.task for each in tasks] == ["CartPole-v1", "My/Task-v2", "balance"]


def test_arguments_limit_and_render_mode_reach_gymnasium() -> None:
    """Keyword arguments, the step limit and the render mode are passed on."""
    environment = task(arguments={"sutton_barto_reward": True}, max_episode_steps=3)
    env = environment.make(render="rgb_array")
    env.reset(seed=1)
    assert env.spec is not None
    assert env.spec.max_episode_steps == 3
    assert env.step(0)[1] == 0.0
    assert env.render().shape == (400, 600, 3)


def test_wrappers_apply_in_order_around_the_inner_one() -> None:
    """Wrappers apply in their order, around the wrapper that the caller passes."""
    inner_tasks: list[gymnasium.Env[Any, Any]] = []

    def inner(bare: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
        inner_tasks.append(bare)
        return gymnasium.wrappers.RecordEpisodeStatistics(bare)

    environment = task(
        wrappers=[
            {"name": "RescaleObservation", "arguments": {"min_obs": -1.0, "max_obs": 1.0}},
            {"name": "TimeAwareObservation"},
        ]
    )
    with pytest.raises(ConfigError, match="RescaleObservation' refuses arguments"):
        environment.make()
    environment = task(wrappers=[{"name": "TimeAwareObservation"}, {"name": "FlattenObservation"}])
    kinds: list[str] = []
    layer: Any = environment.make(inner=inner)
    while layer is not inner_tasks[0]:
        kinds.append(type(layer).__name__)
        layer = layer.env
    assert kinds == ["FlattenObservation", "TimeAwareObservation", "RecordEpisodeStatistics"]


def test_a_users_package_works_by_name(package: str) -> None:
    """Environments and wrappers of an imported package work by name."""
    for package_settings in ({"imports": [package]}, {"id": f"{package}:Corridor-v0"}):
        for wrapper in (f"{package}:Double", f"{package}.Double"):
            env = task(
                **{"id": "Corridor-v0", "arguments": {"length": 9}, **package_settings},
                wrappers=[{"name": wrapper}],
            ).make()
            env.reset()
            assert (env.unwrapped.length, env.step(0)[1]) == (9, 2.0)


def test_an_atari_wrapper_of_the_library_is_allowed() -> None:
    """The wrappers that stable-baselines3 brings for Atari need no import."""
    name = "stable_baselines3.common.atari_wrappers:ClipRewardEnv"
    assert type(task(wrappers=[{"name": name}]).make()).__name__ == "ClipRewardEnv"


@pytest.mark.parametrize(
    ("wrong_id", "expected"),
    [("CartPol-v1", "CartPole-v1"), ("Taxi-v3", "Taxi-v4"), ("LunarLander-v2", "LunarLander-v3")],
)
def test_an_unknown_id_suggests_a_known_one(wrong_id: str, expected: str) -> None:
    """The error for a misspelt or retired id suggests the nearest existing id."""
    assert f"did you mean '{expected}'?" in refusal(task(id=wrong_id))


@pytest.mark.parametrize(
    "wrong_id", ["", "Cart Pole-v1", "a:b:C-v1", "../x", "a/b/C-v1", "x;y", "é!"]
)
def test_a_malformed_id_is_refused(wrong_id: str) -> None:
    """An id with a wrong form is refused before any environment is made."""
    with pytest.raises(ConfigError, match=r"environment\.id=.* is no id"):
        task(id=wrong_id)


def test_a_module_that_does_not_import_is_named_with_its_reason(package: str) -> None:
    """A missing and a broken module are refused with different errors."""
    assert package == "corridors"
    message = refusal(task(imports=["no_such_package"]))
    assert "'no_such_package' does not import (ModuleNotFoundError" in message
    assert "'broken' does not import (RuntimeError: two lines)" in refusal(task(id="broken:X-v0"))


@pytest.mark.parametrize("wrong_module", ["", ".relative", "os;x", "a b", "a..b"])
def test_a_malformed_module_is_refused(wrong_module: str) -> None:
    """A module name that is not made of dotted identifiers is refused."""
    with pytest.raises(ConfigError, match="is no module"):
        task(imports=[wrong_module])


@pytest.mark.parametrize(
    "foreign_wrapper", ["os:system", "subprocess.Popen", "stable_baselines3.PPO"]
)
def test_a_wrapper_of_a_foreign_package_is_refused(foreign_wrapper: str) -> None:
    """A wrapper may come from Gymnasium or from an imported package only."""
    with pytest.raises(ConfigError, match=r"may not be loaded: .* environment\.imports"):
        task(wrappers=[{"name": foreign_wrapper}])


def test_unknown_wrappers_are_refused(package: str) -> None:
    """A misspelt wrapper gets a suggestion; a name that is no wrapper class is refused."""
    message = refusal(task(wrappers=[{"name": "FlatenObservation"}]))
    assert "did you mean 'FlattenObservation'?" in message
    package_imports = {"imports": [package]}
    assert "is no class of" in refusal(
        task(**package_imports, wrappers=[{"name": f"{package}:function"}])
    )
    assert "is no subclass" in refusal(
        task(**package_imports, wrappers=[{"name": f"{package}:Corridor"}])
    )


@pytest.mark.parametrize("name", ["render_mode", "max_episode_steps", "disable_env_checker"])
def test_arguments_that_rlexp_sets_are_refused(name: str) -> None:
    """Arguments that rlexp passes to Gymnasium itself are refused."""
    with pytest.raises(ConfigError, match=f"environment.arguments.{name} is set by rlexp"):
        task(arguments={name: 1})


def test_an_unknown_argument_is_refused() -> None:
    """An argument that the environment does not accept is a configuration error."""
    assert "unexpected keyword argument 'gravty'" in refusal(task(arguments={"gravty": 1}))


@pytest.mark.parametrize(
    ("id_", "missing_module", "extra"),
    [("LunarLander-v3", "Box2D", "box2d"), ("Hopper-v5", "mujoco", "mujoco")],
)
def test_a_missing_dependency_names_the_extra(
    id_: str, missing_module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error for a missing physics engine names the extra to install."""
    for module in list(sys.modules):
        if module.startswith(f"gymnasium.envs.{extra}"):
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, missing_module, None)
    assert f"pip install 'rlexp[{extra}]'" in refusal(task(id=id_))


def test_the_base_has_no_id() -> None:
    """The base yaml names no environment, so that nobody trains on one by accident."""
    with pytest.raises(ConfigError, match=r"environment\.id"):
        member("environment", BASE, id=None)


def test_wrong_types_are_refused_at_once() -> None:
    """One validation finds wrong values and unknown keys in nested settings."""
    vector = {**_slot_values(task().vector), "count": 0, "kind": "threads", "frames": 4}
    with pytest.raises(ConfigError) as error_info:
        task(vector=vector, max_episode_steps=0, wrappers=["FlattenObservation"], ids=1)
    for place in ("vector.count", "vector.kind", "vector.frames", "max_episode_steps", "ids"):
        assert f"environment.{place}" in str(error_info.value)
    assert "environment.wrappers.0" in str(error_info.value)


@pytest.mark.parametrize(
    ("wrapper", "advice"),
    [
        ("NormalizeObservation", "environment.vector.normalise_observations=true"),
        ("stable_baselines3.common.atari_wrappers:EpisodicLifeEnv", "leave it out"),
        ("stable_baselines3.common.atari_wrappers:AtariWrapper", "terminal_on_life_loss: false"),
    ],
)
def test_wrappers_that_would_change_the_score_are_refused(wrapper: str, advice: str) -> None:
    """Wrappers that normalise observations or end episodes at a lost life are refused."""
    with pytest.raises(ConfigError, match=advice):
        task(wrappers=[{"name": wrapper, "arguments": {}}])


def _slot_values(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__slots__}
