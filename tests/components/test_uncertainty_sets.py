"""The uncertainty sets of RRLS: one name chooses a set, and every parameter of it acts."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from members import member, names, settings

from rlexp.environments import Stage
from rlexp.environments.composed import at_stage
from rlexp.training.environments.episode_log import digest

SETS = [name for name in names("environment") if name.startswith("rrls_")]
PLANAR = ("half_cheetah", "hopper", "inverted_pendulum", "walker")
"""Tasks in the plane of x and z, where a force along y changes nothing."""


@pytest.fixture(autouse=True)
def _in_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a temporary folder, because MuJoCo writes its warnings into the current folder."""
    monkeypatch.chdir(tmp_path)


def parameters_of(name: str) -> dict[str, Any]:
    """The parameters of a set, as its yaml declares them."""
    parameters: dict[str, Any] = settings("environment", name)["components"]["context"][
        "parameters"
    ]
    return parameters


def trace(environment: gym.Env[Any, Any], steps: int = 40) -> list[str]:
    """Digests of the observations of some steps, with the same actions for every environment."""
    generator = np.random.default_rng(0)
    space: Any = environment.action_space
    observations = [digest(environment.reset(seed=3)[0])]
    for _ in range(steps):
        action = generator.uniform(space.low, space.high).astype(space.dtype)
        observation, _, terminated, truncated, _ = environment.step(action)
        observations.append(digest(observation))
        if terminated or truncated:
            break
    return observations


def played(name: str, context: dict[str, float]) -> list[str]:
    """The trace of an episode of a set in one context."""
    environment = at_stage(member("environment", name), Stage.TRAINING).make()
    try:
        environment.get_wrapper_attr("plan_next")(np.array(list(context.values())))
        return trace(environment)
    finally:
        environment.close()


def test_a_set_has_the_dimensions_of_its_name() -> None:
    """Sets with one, two and three parameters exist for each task, and one with forces."""
    tasks = {name.removeprefix("rrls_").rsplit("_", 1)[0] for name in SETS}
    assert {"ant", "humanoid_standup", *PLANAR} == tasks
    for name in SETS:
        kind = name.rsplit("_", 1)[1]
        parameters = parameters_of(name)
        assert kind == "forces" or int(kind) == len(parameters)
        assert (kind == "forces") == all("xfrc_applied" in p["field"] for p in parameters.values())
        assert all(p["training"] == p["test"] for p in parameters.values())


@pytest.mark.parametrize("name", SETS)
def test_every_parameter_acts(name: str) -> None:
    """The low and the high end of each parameter make different episodes."""
    parameters = parameters_of(name)
    middle = {key: (p["test"]["low"] + p["test"]["high"]) / 2 for key, p in parameters.items()}
    planar = name.removeprefix("rrls_").startswith(PLANAR)
    for key, parameter in parameters.items():
        low, high = (
            played(name, {**middle, key: parameter["test"][end]}) for end in ("low", "high")
        )
        assert (low == high) == (planar and key.endswith("force_y"))


def test_a_force_holds_for_the_whole_episode_and_for_no_other() -> None:
    """MuJoCo clears forces at each reset: the next episode has those of its context alone."""
    environment: Any = at_stage(member("environment", "rrls_hopper_forces"), Stage.TRAINING).make()
    plan = environment.get_wrapper_attr("plan_next")
    for force in (3.0, -1.5):
        plan(np.array([force, 0.0]))
        environment.reset(seed=1)
        for _ in range(3):
            environment.step(environment.action_space.sample())
            applied = environment.unwrapped.data.xfrc_applied
            assert {0.0, force} == set(applied.ravel().tolist())
            assert force == applied[4, 0]
