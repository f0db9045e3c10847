"""Properties of every algorithm, tested on every yaml of `conf/algorithm`."""

import json
import subprocess
import sys
from base64 import b64decode
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import sb3_contrib
import stable_baselines3
import torch
from learners import build_learner, library_class, small_algorithm
from members import member, names, settings, target
from pydantic import TypeAdapter, ValidationError
from spaces import tiny_environments
from stable_baselines3.common.base_class import BaseAlgorithm

from rlexp.algorithms.library import NOT_OF_THE_LIBRARY, TREE_POLICY
from rlexp.algorithms.schedules import HyperparameterSchedule, in_library_terms

NOT_SETTINGS = {
    "self", "policy", "env", "policy_kwargs", "verbose", "seed", "device", "tensorboard_log",
    "_init_setup_model", "stats_window_size", "rollout_buffer_class", "rollout_buffer_kwargs",
    "replay_buffer_class",
}  # fmt: skip
APART = ("compiled_dqn", "compiled_ppo", "compiled_sac", "external")
"""Algorithms whose class is none of the libraries: `tests/compiled`, `test_external_algorithm.py`."""
ALGORITHMS = [name for name in names("algorithm") if name not in APART]
"""All algorithms of both libraries."""
LINEAR = {"shape": "linear", "initial": 0.01, "final": 0.0, "until": 0.5}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def weights(learner: BaseAlgorithm) -> list[float]:
    """All parameters of the policy."""
    return [x for p in learner.policy.parameters() for x in p.detach().flatten().tolist()]


def test_all_algorithms_of_both_libraries_are_here() -> None:
    """Every algorithm class that the libraries export has a yaml."""
    exported = {
        value
        for module in (stable_baselines3, sb3_contrib)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, BaseAlgorithm)
    }
    assert exported == {library_class(name) for name in ALGORITHMS}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_yaml_holds_the_library_defaults(name: str) -> None:
    """A yaml has every hyperparameter of the constructor, at its default and in its order."""
    parameters = signature(library_class(name)).parameters
    expected = {key: value.default for key, value in parameters.items() if key not in NOT_SETTINGS}
    if "replay_buffer_class" in parameters:
        assert "replay_buffer_kwargs" in expected
    actual = settings("algorithm", name)
    actual.pop("_target_")
    # Settings of rlexp come last and are off: recorded runs of earlier versions lack them.
    added = {key: actual.pop(key) for key in NOT_OF_THE_LIBRARY & actual.keys()}
    assert {None} == set(added.values())
    assert list(expected.items()) == list(actual.items())


@pytest.mark.parametrize("name", ALGORITHMS)
def test_yaml_and_class_have_the_same_fields(name: str) -> None:
    """The yaml and the class have the same fields."""
    values = settings("algorithm", name)
    kind = target(values.pop("_target_"))
    assert {field.name for field in fields(kind)} == set(values)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_policies_are_those_of_the_library(name: str) -> None:
    """The policies that an algorithm accepts are those that the library knows by name, and trees."""
    assert set(library_class(name).policy_aliases) == set(member("algorithm", name).policies) - {
        TREE_POLICY
    }


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_default_builds(name: str) -> None:
    """The default settings build a learner, and it keeps the largest seed of 32 bits."""
    memory = {"buffer_size": 1000} if "buffer_size" in settings("algorithm", name) else {}
    learner = build_learner(member("algorithm", name, **memory))
    assert type(learner) is library_class(name)
    assert learner.seed == 2**32 - 1


@pytest.mark.parametrize(
    ("name", "action"),
    [(name, action) for name in ALGORITHMS for action in member("algorithm", name).actions],
)
def test_learns_saves_and_loads_without_rlexp(name: str, action: str, tmp_path: Path) -> None:
    """A learner trains on each action space, and its saved model loads without rlexp."""
    algorithm = small_algorithm(name, learning_rate=LINEAR)
    environment = tiny_environments(action=action)
    learner = algorithm.build(algorithm.policies[0], {}, environment, seed=1, device="cpu")
    learner.learn(16)
    learner.save(tmp_path / "model.zip")
    assert weights(learner) == weights(library_class(name).load(tmp_path / "model.zip"))
    with ZipFile(tmp_path / "model.zip") as archive:
        data = json.loads(archive.read("data"))
    pickles = [v[":serialized:"] for v in data.values() if isinstance(v, dict) and ":type:" in v]
    assert pickles
    assert not [text for text in pickles if b"rlexp" in b64decode(text)]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_same_seed_same_weights(name: str) -> None:
    """Equal seeds give equal initial weights, and different seeds give different weights."""
    overrides = {"zero_policy": False} if name == "ars" else {}
    first_weights, second_weights, other_seed_weights = (
        weights(build_learner(small_algorithm(name, **overrides), seed=s)) for s in (1, 1, 2)
    )
    assert first_weights == second_weights
    assert first_weights != other_seed_weights


@pytest.mark.parametrize("name", ALGORITHMS)
def test_wrong_types_unknown_keys_and_ranges_are_refused(name: str) -> None:
    """Text for a number, NaN, a negative rate and a misspelt key are all found at once."""
    values = settings("algorithm", name)
    kind = target(values.pop("_target_"))
    adapter = TypeAdapter(kind)
    for wrong_rate in ('"fast"', "NaN", "-1.0", "Infinity", "true", "null"):
        text = f'{{"learning_rate": {wrong_rate}, "learning_rat": 1}}'
        with pytest.raises(ValidationError) as error_info:
            adapter.validate_json(text, strict=True, extra="forbid")
        places = {error["loc"][0] for error in error_info.value.errors()}
        assert {"learning_rate", "learning_rat", *values} - NOT_OF_THE_LIBRARY == places


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name != "ars"])
def test_a_linear_schedule_lowers_the_learning_rate(name: str) -> None:
    """A linear schedule ends at half of training, and the optimiser uses its rate."""
    learner = build_learner(small_algorithm(name, learning_rate=LINEAR))
    rates = [learner.lr_schedule(progress) for progress in (1.0, 0.75, 0.5, 0.0)]
    assert rates == pytest.approx([0.01, 0.005, 0.0, 0.0])
    learner.learn(24)
    policy: Any = learner.policy
    owner: Any = policy if hasattr(policy, "optimizer") else policy.actor
    assert owner.optimizer.param_groups[0]["lr"] < 0.01


def test_constant_schedule_stays() -> None:
    """A constant schedule has its initial value at the start and at the end of training."""
    schedule = in_library_terms(HyperparameterSchedule(shape="constant", initial=0.3))
    assert [schedule(1.0), schedule(0.0)] == [0.3, 0.3]


@pytest.mark.parametrize(
    ("name", "field", "attribute"),
    [
        ("ppo", "clip_range", "clip_range"),
        ("ppo", "clip_range_vf", "clip_range_vf"),
        ("maskable_ppo", "clip_range", "clip_range"),
        ("recurrent_ppo", "clip_range_vf", "clip_range_vf"),
        ("ars", "delta_std", "delta_std_schedule"),
    ],
)
def test_other_schedules(name: str, field: str, attribute: str, tmp_path: Path) -> None:
    """Clip ranges and the deviation of ARS accept schedules, which survive saving."""
    learner = build_learner(small_algorithm(name, **{field: LINEAR}))
    learner.save(tmp_path / "model.zip")
    loaded = library_class(name).load(tmp_path / "model.zip")
    schedule = getattr(loaded, attribute)
    assert [schedule(1.0), schedule(0.75)] == pytest.approx([0.01, 0.005])


@pytest.mark.parametrize("kind", ["normal", "ornstein_uhlenbeck"])
@pytest.mark.parametrize("name", ["crossq", "ddpg", "sac", "td3", "tqc"])
def test_action_noise(name: str, kind: str) -> None:
    """Action noise has the shape of an action, and learning uses it on several environments."""
    algorithm = small_algorithm(name, action_noise={"kind": kind, "sigma": 0.1})
    learner: Any = build_learner(algorithm, count=2)
    assert learner.action_noise().shape == (2,)
    learner.learn(8)
    assert learner.action_noise.n_envs == 2


@pytest.mark.parametrize("group", ["agent", "algorithm", "environment"])
def test_a_configuration_is_validated_without_a_heavy_import(group: str) -> None:
    """The modules of plug-ins import no learning library, no Gymnasium and no NumPy."""
    modules = sorted(
        {settings(group, name)["_target_"].rpartition(".")[0] for name in names(group)}
    )
    heavy = ["torch", "stable_baselines3", "sb3_contrib", "gymnasium", "numpy"]
    code = f"import sys, {', '.join(modules)}; print([m for m in {heavy} if m in sys.modules])"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout == "[]\n"
