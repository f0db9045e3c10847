"""The identity of a run: what changes it, and what does not."""

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import algorithm, spec

from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import RunSpec, canonical, digest, short_name

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
) | st.text(max_size=8)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)
mappings = st.dictionaries(st.text(max_size=5), values, max_size=5)


def reversed_keys(value: Any) -> Any:
    """The same value, with the keys of every mapping in the opposite order."""
    if isinstance(value, dict):
        return {key: reversed_keys(value[key]) for key in reversed(value)}
    return [reversed_keys(item) for item in value] if isinstance(value, list) else value


@given(mappings)
def test_the_order_of_keys_does_not_matter(hyperparameters: dict[str, Any]) -> None:
    """Identity is of what is said, not of how it is written."""
    first = spec(learner=hyperparameters)
    second = spec(learner=reversed_keys(hyperparameters))
    assert (first.id, first.fingerprint) == (second.id, second.fingerprint)


@given(mappings)
def test_a_null_counts_as_absent(hyperparameters: dict[str, Any]) -> None:
    """An option that is added later, and is null where it is not used, changes no identity."""
    first = spec(learner=hyperparameters)
    second = spec(learner={"later option": None, **hyperparameters})
    assert (first.id, first.fingerprint) == (second.id, second.fingerprint)


def test_a_null_inside_a_setting_is_a_value() -> None:
    """A null argument of the library is not the same as none: it may mean a random map."""
    runs = [spec(learner={"arguments": arguments}) for arguments in ({}, {"map_name": None})]
    assert runs[0].id != runs[1].id


@given(mappings)
def test_identity_survives_the_disk(hyperparameters: dict[str, Any]) -> None:
    """A specification read back from JSON is the same run."""
    run = spec(learner=hyperparameters)
    read = RunSpec.from_plain(json.loads(json.dumps(run.plain())))
    assert (run, run.id) == (read, read.id)


def test_an_item_of_a_list_that_is_null_counts() -> None:
    """Only a key can be absent; the place in a list is said."""
    assert canonical([1, None]) != canonical([1])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("agent", {"_target_": "rlexp.agents.mlp.MLP", "network": [64]}),
        ("algorithm", algorithm("ppo", gamma=0.9)),
        ("environment", {"_target_": "x", "id": "Acrobot-v1"}),
        ("budget", {"steps": 101}),
        ("compute", {"threads": 2, "device": "cpu"}),
        ("phase", Phase.TUNING),
        ("root", 1),
        ("seed", 1),
    ],
)
def test_every_field_is_part_of_the_identity(field: str, value: Any) -> None:
    """Another value of any field is another run; of any but the seeds, another configuration."""
    changed = replace(spec(), **{field: value})
    assert spec().id != changed.id
    same_configuration = field in {"phase", "root", "seed"}
    assert same_configuration == (spec().fingerprint == changed.fingerprint)


def test_every_field_was_tried() -> None:
    """A field added later is to be added to the test above."""
    known = {"agent", "algorithm", "environment", "budget", "compute", "phase", "root", "seed"}
    assert known == {field.name for field in fields(RunSpec)}


@pytest.mark.parametrize(
    "changes", [{"checkpoint_every": 7}, {"checkpoint_minutes": 7.0}, {"timeout": 3.0}]
)
def test_how_a_run_is_executed_is_no_part_of_it(changes: dict[str, Any]) -> None:
    """The same run is found again with another cadence of checkpoints or another time limit."""
    assert spec().id == spec(**changes).id


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": 99},
        {"evaluation_every": 9},
        {"evaluation_episodes": 3},
        {"evaluation_deterministic": False},
        {"final_episodes": 3},
        {"score": "auc"},
    ],
)
def test_every_other_setting_of_the_budget_is(changes: dict[str, Any]) -> None:
    """What decides numbers decides identity."""
    assert spec().id != spec(**changes).id


def test_the_identity_is_for_ever() -> None:
    """Folders of earlier versions are found again: this id never changes."""
    expected = "48817ab1f3c6cd70cfabde50c22caa7739a0b66c5dfe38b7b2a0edc21a3d09e6"
    assert expected == spec().id


def test_nan_has_no_identity() -> None:
    """A number that JSON lacks is refused instead of being hashed as a word."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        digest({"gamma": float("nan")})


def test_the_folder_is_named_for_reading() -> None:
    """Algorithm, phase, seed and the first ten digits of the id."""
    run = spec(3, Phase.TUNING)
    assert f"ppo-tuning-3-{run.id[:10]}" == run.name


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"_target_": "rlexp.algorithms.ppo.PPO"}, "ppo"),
        ({"_target_": "mine.MyAlgorithm"}, "mine"),
        ({"_target_": "PPO"}, "PPO"),
        ({}, "unknown"),
    ],
)
def test_a_plug_in_is_called_by_its_module(part: dict[str, str], expected: str) -> None:
    """The module's name stands for the class in it."""
    assert expected == short_name(part)


def test_a_missing_field_is_named() -> None:
    """A specification that lost a field is not read as another run."""
    plain = spec().plain()
    del plain["seed"]
    with pytest.raises(KeyError, match="seed"):
        RunSpec.from_plain(plain)


def test_an_unknown_phase_is_refused() -> None:
    """Only the three phases exist."""
    with pytest.raises(ValueError, match="training"):
        RunSpec.from_plain({**spec().plain(), "phase": "training"})


@given(mappings, st.sampled_from(Phase), st.integers(0, 2**70), st.integers(0, 2**14))
def test_another_seed_of_a_run_is_the_run_of_that_seed(
    hyperparameters: dict[str, Any], phase: Phase, root: int, seed: int
) -> None:
    """What a run knows of its identity is handed on, and its id is that of all its fields."""
    first = spec(learner=hyperparameters)
    other = first.again(phase, root, seed)
    fresh = replace(first, phase=phase, root=root, seed=seed)
    assert (other, other.id, other.name) == (fresh, fresh.id, fresh.name)
    assert other.id == digest(other._defining())
    assert other.fingerprint == first.fingerprint
