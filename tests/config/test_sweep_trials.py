"""Configurations of trials: Hydra composes once per combination of groups."""

import time
from pathlib import Path
from typing import Any

import pytest
from composing import compose_one, value_at
from hypothesis import given
from hypothesis import strategies as st
from quick_parts import quick_parts
from samples import write_tree
from sweeping import DEFINITION, domains

from rlexp.config.sweep import SweepRequest, compose_sweep
from rlexp.config.sweep_configurations import compose_overrides
from rlexp.protocol.space import Integer

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study with a definition of its own."""
    return write_tree(tmp_path, {"sweeps/mine.yaml": DEFINITION})


@pytest.fixture(scope="module")
def sweep_request(tmp_path_factory: pytest.TempPathFactory) -> SweepRequest:
    """The sweep of the definition without overrides."""
    folder = write_tree(tmp_path_factory.mktemp("study"), {"sweeps/mine.yaml": DEFINITION})
    return compose_sweep("mine", [], folder)


def test_default_configuration_equals_that_of_a_run(folder: Path) -> None:
    """The default trial trains what `rlexp run` trains with the same overrides."""
    overrides = ["algorithm=dqn", "budget.steps=2000", "budget.evaluation_every=500"]
    seeds = ["seeds.tuning=5", "seeds.selection=5", "seeds.test=10"]
    assert compose_one(folder, *overrides, *seeds) == compose_sweep("mine", [], folder).plain


def test_default_values_change_nothing(sweep_request: SweepRequest) -> None:
    """Trial 0 has a value for every active parameter and equals the default configuration."""
    assert {
        "agent.network": None,
        "switch.gamma": True,
        "algorithm.gamma": 0.99,
        "algorithm.learning_rate": 0.0001,
    } == sweep_request.default
    assert sweep_request.plain == sweep_request.configure(sweep_request.default)


def test_fixed_value_is_in_every_trial(folder: Path) -> None:
    """A value that an override fixes wins over the definition."""
    request = compose_sweep("mine", ["algorithm.learning_rate=0.25"], folder)
    trial = request.configure({"agent.network": [64]})
    assert (0.25, [64]) == (trial["algorithm"]["learning_rate"], trial["agent"]["network"])


def test_groups_are_composed_again(folder: Path) -> None:
    """An algorithm brings its own hyperparameters; other values of the definition stay."""
    request = compose_sweep("mine", ["algorithm=dqn,ppo", "algorithm.n_steps=range(1,4)"], folder)
    ppo = request.configure({"algorithm": "ppo", "algorithm.n_steps": 2})
    assert {**compose_one(folder, "algorithm=ppo")["algorithm"], "n_steps": 2} == ppo["algorithm"]
    assert ("dqn", 2000) == (request.default["algorithm"], ppo["budget"]["steps"])
    assert request.plain == request.configure(request.default)


def test_first_option_is_default_if_the_default_is_not_searched(folder: Path) -> None:
    """If the default option is not searched, the first searched option is the default."""
    request = compose_sweep("mine", ["algorithm=a2c,ppo"], folder)
    assert ("a2c", "rlexp.algorithms.a2c.A2C") == (
        request.default["algorithm"],
        request.plain["algorithm"]["_target_"],
    )
    assert request.plain == request.configure(request.default)


def test_group_of_a_study_can_be_searched(folder: Path) -> None:
    """A study can search presets of several keys."""
    for name, layers in (("small", "[8]"), ("large", "[64, 64]")):
        text = f"# @package _global_\n# Some.\nagent: {{network: {layers}}}\n"
        write_tree(folder, {f"conf/preset/{name}.yaml": text})
    overrides = ["+preset=small,large", "sweep.space.agent.network=null"]
    request = compose_sweep("mine", overrides, folder)
    networks = [request.configure({"preset": p})["agent"]["network"] for p in ("small", "large")]
    assert ([[8], [64, 64]], "small") == (networks, request.default["preset"])


def test_steps_of_a_trial_replace_those_of_the_budget(sweep_request: SweepRequest) -> None:
    """A trial at a lower fidelity differs from the default in its steps only."""
    short_trial = sweep_request.configure({}, 123)
    assert (123, 2000) == (
        short_trial["budget"].pop("steps"),
        sweep_request.plain["budget"]["steps"],
    )
    assert short_trial["budget"] == {
        k: v for k, v in sweep_request.plain["budget"].items() if k != "steps"
    }


def test_free_form_keys_can_be_searched(folder: Path) -> None:
    """Arguments of a library that the configuration does not list can be searched."""
    request = compose_sweep(
        "mine",
        ["environment.arguments.gravity=interval(1,9)", "agent.policy_kwargs.n.m=choice(1,2)"],
        folder,
    )
    trial = request.configure({"environment.arguments.gravity": 2.5, "agent.policy_kwargs.n.m": 2})
    assert ({"gravity": 2.5}, {"n": {"m": 2}}) == (
        trial["environment"]["arguments"],
        trial["agent"]["policy_kwargs"],
    )
    assert {} == request.plain["environment"]["arguments"]


def test_items_of_a_list_are_searched_by_position(folder: Path) -> None:
    """The arguments of a wrapper in a list can be searched."""
    wrapper = "environment.wrappers=[{name:TimeLimit,arguments:{max_episode_steps:100}}]"
    key = "environment.wrappers.0.arguments.max_episode_steps"
    request = compose_sweep("mine", [wrapper, f"{key}=interval(50,200)"], folder)
    assert Integer(50, 200) == domains(request)[key]
    trial = request.configure({key: 70})
    assert 70 == trial["environment"]["wrappers"][0]["arguments"]["max_episode_steps"]


def test_references_follow_the_values_of_a_trial(folder: Path) -> None:
    """A batch size that refers to the rollout length follows it in every trial."""
    text = "defaults: [ppo, _self_]\nbatch_size: ${algorithm.n_steps}\n"
    write_tree(folder, {"conf/algorithm/whole.yaml": f"# Whole rollouts.\n{text}"})
    request = compose_sweep("mine", ["algorithm=whole", "algorithm.n_steps=64,128"], folder)
    algorithm = request.configure({"algorithm.n_steps": 128}, 77)["algorithm"]
    assert (128, 128) == (algorithm["n_steps"], algorithm["batch_size"])
    assert 77 == request.configure({}, 77)["budget"]["steps"]


POINTS = st.lists(st.floats(0, 1), min_size=4, max_size=4)


@given(POINTS, st.randoms())
def test_trial_differs_from_the_default_in_its_values_only(
    sweep_request: SweepRequest, point: list[float], random: Any
) -> None:
    """A trial differs from the default in its values only, in any order of the values."""
    values = list(sweep_request.space.decode(point).items())
    random.shuffle(values)
    trial = sweep_request.configure(dict(values))
    for key, value in values:
        if not key.startswith("switch."):
            assert value == value_at(trial, key)
            node, last_key = value_at(trial, key.rpartition(".")[0]), key.rpartition(".")[2]
            node[last_key] = value_at(sweep_request.plain, key)
    assert sweep_request.plain == trial
    trial["algorithm"]["gamma"] = trial["environment"]["vector"]["count"] = "changed"
    assert sweep_request.plain == sweep_request.configure(sweep_request.default)


def test_values_are_applied_without_composing_again(sweep_request: SweepRequest) -> None:
    """A hundred trials take less time than one composition."""
    begin = time.process_time()
    compose_overrides([], Path())
    composition_time = time.process_time() - begin
    begin = time.process_time()
    for _ in range(100):
        sweep_request.configure(sweep_request.default, 100)
    assert time.process_time() - begin < composition_time
