"""Validation: types, ranges and names, with all mistakes in one error."""

import json
from copy import deepcopy
from typing import Any

import pytest
from changing import DEFAULT, apply_changes, refusal
from hypothesis import given
from hypothesis import strategies as st
from quick_parts import quick_yaml

from rlexp.agents.mlp import MLP
from rlexp.algorithms.ppo import PPO
from rlexp.config.validate import validate
from rlexp.errors import ConfigError
from rlexp.executors.local import Local
from rlexp.protocol.seeds import SeedPlan

quick = pytest.fixture(autouse=True)(quick_yaml)


@pytest.fixture
def settings() -> dict[str, Any]:
    """A copy of the default configuration, for changes."""
    return deepcopy(DEFAULT.plain)


def test_a_valid_configuration_is_built(settings: dict[str, Any]) -> None:
    """Settings become typed values, and plug-ins become objects of their classes."""
    root, parts = validate(settings)
    assert SeedPlan(root=0, tuning=3, selection=0, test=5) == root.seeds
    assert (MLP, PPO, Local) == (type(parts.agent), type(parts.algorithm), type(parts.executor))
    assert ("CartPole-v1", 100_000) == (parts.environment.task, root.budget.steps)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("budget.steps", 1e5, 100_000),
        ("seeds.test", 1e1, 10),
        ("seeds.test", [1e1, 2], (10, 2)),
        ("seeds.test", [3], (3,)),
        ("budget.timeout", 5, 5.0),
        ("budget.evaluation_every", 1e3, 1000),
    ],
)
def test_a_whole_number_may_be_written_with_an_exponent(
    settings: dict[str, Any], key: str, value: object, expected: object
) -> None:
    """A whole number with an exponent, such as 1e5, is accepted as an integer."""
    root, _ = validate(apply_changes(settings, {key: value}))
    part, name = key.split(".")
    actual = getattr(getattr(root, part), name)
    assert (expected, type(expected)) == (actual, type(actual))


def test_earlier_parts_of_a_training_are_refused(settings: dict[str, Any]) -> None:
    """Nobody but `rlexp extend` says where schedules began again: a new run has no earlier part."""
    with pytest.raises(ConfigError, match=r"budget\.restarts is set by rlexp extend alone"):
        validate(apply_changes(settings, {"budget.restarts": [1000]}))


def test_plug_in_settings_accept_whole_floats(settings: dict[str, Any]) -> None:
    """Whole floats become integers inside plug-ins, schedules and lists."""
    changes = {
        "algorithm.n_steps": 2e3,
        "algorithm.learning_rate": {"shape": "linear", "initial": 1},
        "agent.network": [64.0, 32],
        "environment.vector.count": 4.0,
    }
    _, parts = validate(apply_changes(settings, changes))
    assert (2000, 4) == (parts.algorithm.n_steps, parts.environment.vector.count)
    assert (1.0, (64, 32)) == (parts.algorithm.learning_rate.initial, parts.agent.network)
    assert {int} == {type(width) for width in parts.agent.network}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("budget.steps", 0, "budget.steps=0: must be greater than or equal to 1"),
        ("budget.steps", 1.5, "budget.steps=1.5: must be an integer"),
        ("budget.steps", "many", 'budget.steps="many": must be an integer'),
        ("budget.steps", "5", 'budget.steps="5": must be an integer'),
        ("budget.steps", None, "budget.steps=null: must be an integer"),
        ("budget.steps", True, "budget.steps=true: must be an integer"),
        ("budget.steps", [1], "budget.steps=[1]: must be an integer"),
        ("budget.score", "return", "must be final, auc, last_window (of the return), or the"),
        ("budget.timeout", 0, "budget.timeout=0: must be greater than 0"),
        ("budget.timeout", float("inf"), "must be less than inf"),
        ("budget.evaluation_deterministic", "yes", "must be a boolean"),
        ("seeds.root", -1, "seeds.root=-1: must be greater than or equal to 0"),
        ("seeds.test", 16385, "seeds.test=16385: must be less than or equal to 16384"),
        ("seeds.test", -1, "seeds.test=-1: must be greater than or equal to 0"),
        ("seeds.test", [16384], "seeds.test.0=16384: must be less than 16384"),
        ("seeds.test", [1, 1], "seeds.test repeats [1]"),
        ("seeds.test", "all", 'seeds.test="all": must be an integer or a list'),
        ("phase", "selection", "phase=\"selection\": must be 'test' or 'tuning'"),
        ("failures", "zero", "must be 'missing' or 'worst'"),
        ("experiment", 5, "experiment=5: must be a string"),
        ("compute.threads", 0, "compute.threads=0: must be greater than or equal to 1"),
        ("algorithm.gamma", 1.1, "algorithm.gamma=1.1: must be less than or equal to 1"),
        ("algorithm.gamma", float("nan"), "algorithm.gamma=NaN"),
        ("algorithm.learning_rate", -1, "algorithm.learning_rate=-1: must be greater than 0"),
        ("algorithm.learning_rate", {"shape": "x"}, "algorithm.learning_rate.shape"),
        (
            "algorithm.learning_rate",
            {"a": 1},
            (
                "algorithm.learning_rate is one value, or a schedule whose mapping has a shape: write "
                "algorithm.learning_rate=VALUE or 'algorithm.learning_rate={shape: steps, "
            ),
        ),
        ("algorithm.n_steps", "x", 'algorithm.n_steps="x": must be an integer'),
        ("agent.activation", "swish", "agent.activation"),
        ("environment.vector.kind", "threads", "must be 'dummy' or 'subprocess'"),
        ("environment.id", "a b", "environment.id='a b' is no id"),
        ("executor.workers", 0, "executor.workers=0"),
        (
            "executor.workers",
            "many",
            "executor.workers=\"many\": must be an integer or 'auto'",
        ),
    ],
)
def test_invalid_value_is_reported(
    settings: dict[str, Any], key: str, value: object, message: str
) -> None:
    """The error for an invalid value names the key, the value and what is allowed."""
    assert message in refusal(settings, **{key: value})


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("budget.step", "unknown key 'budget.step'; did you mean 'steps'? (there are: steps,"),
        ("budgets", "unknown key 'budgets'; did you mean 'budget'? (there are: agent,"),
        ("algorithm.gama", "unknown key 'algorithm.gama'; did you mean 'gamma'?"),
        ("algorithm.xyz", "unknown key 'algorithm.xyz' (there are: learning_rate,"),
        ("environment.vector.cuont", "did you mean 'count'? (there are: count, kind,"),
        ("environment.reference.max", "unknown key 'environment.reference.max'"),
        ("executor.worker", "did you mean 'workers'?"),
        ("agent.networks", "did you mean 'network'?"),
    ],
)
def test_unknown_key_is_reported_with_existing_keys(
    settings: dict[str, Any], key: str, message: str
) -> None:
    """An unknown key is reported on every level."""
    assert message in refusal(settings, **{key: 1})


def test_a_mapping_that_is_no_schedule_is_one_mistake(settings: dict[str, Any]) -> None:
    """No further message names the keys of a schedule that nobody meant."""
    message = refusal(settings, **{"agent.network": {"a": [64]}})
    assert message.startswith("agent.network is one value, or a schedule")
    assert 1 == message.count("agent.network=VALUE")
    assert "missing" not in message
    assert "unknown key" not in message


@pytest.mark.parametrize(
    "key", ["budget", "budget.steps", "seeds.root", "algorithm.gamma", "environment.vector.count"]
)
def test_missing_key_is_reported(settings: dict[str, Any], key: str) -> None:
    """Every key is required, because defaults exist in yaml only."""
    assert f"{key} is missing" in refusal(settings, **{key: ...})


@pytest.mark.parametrize("group", ["agent", "algorithm", "environment", "executor"])
@pytest.mark.parametrize("value", [None, "ppo", [], 5])
def test_value_of_a_group_must_be_a_mapping(
    settings: dict[str, Any], group: str, value: object
) -> None:
    """A text, a list or a number in the place of a group is refused."""
    message = f"{group} must be one of the group's options, not {value!r}"
    assert message in refusal(settings, **{group: value})


def test_a_wrong_element_of_a_list_is_the_only_mistake(settings: dict[str, Any]) -> None:
    """A key that also allows a mapping is not said to need one where an element is wrong."""
    message = refusal(settings, **{"agent.network": ["a"]})
    assert 'agent.network.0="a": must be an integer' == message


def test_all_mistakes_are_reported_together(settings: dict[str, Any]) -> None:
    """One error lists the mistakes of all plug-ins and settings."""
    message = refusal(
        settings,
        **{
            "phase": "selection",
            "budget.steps": 0,
            "seeds.root": -1,
            "compute.threads": "two",
            "agent.network": 3,
            "agent.later": 1,
            "algorithm.gamma": 2,
            "algorithm.n_steps": "x",
            "environment.vector.count": 0,
            "executor.grace": ...,
        },
    )
    assert 10 == len(message.replace("; did you mean", "").split("; "))
    for key in ("phase", "budget.steps", "seeds.root", "compute.threads", "agent.network"):
        assert 1 == message.count(f"{key}=")
    assert "unknown key 'agent.later'" in message
    assert "executor.grace is missing" in message


def test_rule_between_settings_is_reported_with_other_mistakes(settings: dict[str, Any]) -> None:
    """The error about a combination of settings is listed with other mistakes."""
    message = refusal(
        settings, **{"budget.score": "auc", "budget.evaluation_every": None, "phase": "x"}
    )
    assert "budget.score=auc reads the evaluation curve" in message
    assert 'phase="x"' in message


keys = st.sampled_from(
    ["budget.steps", "seeds.test", "algorithm.gamma", "agent.network", "environment.id", "phase"]
)


any_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


@given(keys, any_values)
def test_any_value_is_accepted_or_refused_in_one_line(key: str, value: Any) -> None:
    """No value raises another error than a one-line ConfigError."""
    message = ""
    try:
        validate(apply_changes(deepcopy(DEFAULT.plain), {key: value}))
    except ConfigError as error:
        message = str(error)
    assert "\n" not in message


def test_value_that_is_not_json_is_refused(settings: dict[str, Any]) -> None:
    """A configuration may have JSON values only."""
    assert "is not JSON" in refusal(settings, **{"environment.arguments": {"a": object()}})


def test_validation_does_not_change_its_input(settings: dict[str, Any]) -> None:
    """Validation turns whole floats into integers in a copy of its input."""
    apply_changes(settings, {"budget.steps": 1e5, "algorithm.n_steps": 2e3})
    before = json.dumps(settings)
    validate(settings)
    assert before == json.dumps(settings)
