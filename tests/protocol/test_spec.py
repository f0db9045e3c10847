"""The identity of a run: settings that change it, and settings that do not."""

import json
from dataclasses import asdict, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import AGENT, ENVIRONMENT, algorithm, part, spec

from rlexp.protocol.identity import canonical, digest, short_name
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import CONFIGURATION, RUN, Parent, RunSpec

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
    """Settings in another order of keys are the same run."""
    first = spec(learner=hyperparameters)
    second = spec(learner=reversed_keys(hyperparameters))
    assert (first.id, first.fingerprint) == (second.id, second.fingerprint)


def test_where_a_class_is_does_not_matter() -> None:
    """A class that was moved or renamed is the same plug-in."""
    moved = {**algorithm(gamma=0.9), "_target_": "elsewhere.Renamed"}
    assert spec(learner=moved).id == spec(learner=algorithm(gamma=0.9)).id


@pytest.mark.parametrize(("key", "value"), [("group", "agent"), ("name", "ppo2"), ("version", 2)])
def test_what_a_class_declares_matters(key: str, value: Any) -> None:
    """Another group, name or version is another plug-in."""
    declared = {**algorithm()["plug_in"], key: value}
    assert spec().id != spec(learner={**algorithm(), "plug_in": declared}).id


def test_a_setting_that_is_excluded_does_not_matter() -> None:
    """An excluded setting does not change the identity, and any other setting does."""
    plug_in = {**algorithm()["plug_in"], "excluded": ["folder"]}
    first, second, third = (
        spec(learner={**algorithm(), "plug_in": plug_in, "folder": folder, "gamma": gamma})
        for folder, gamma in (("a", 0.9), ("b", 0.9), ("a", 0.8))
    )
    assert first.id == second.id
    assert first.id != third.id


def test_the_order_of_components_matters_and_their_keys_do_not() -> None:
    """The order of components changes the identity, and their keys do not."""
    delay, noise = (part("component", name, f"x.{name}.Y", p=1) for name in ("delay", "noise"))
    component_lists = [
        {"a": delay, "b": noise},
        {"b": noise, "a": delay},
        {"c": delay, "d": noise},
    ]
    ids = [
        replace(spec(), environment={**ENVIRONMENT, "components": components}).id
        for components in component_lists
    ]
    assert ids[0] != ids[1]
    assert ids[0] == ids[2]


@given(mappings)
def test_a_null_counts_as_absent(hyperparameters: dict[str, Any]) -> None:
    """A null counts as absent, so that an option that is added later changes no identity."""
    first = spec(learner=hyperparameters)
    second = spec(learner={"later option": None, **hyperparameters})
    assert (first.id, first.fingerprint) == (second.id, second.fingerprint)


def test_a_null_inside_a_setting_is_a_value() -> None:
    """A null argument inside a setting changes the identity, because it may have a meaning."""
    runs = [spec(learner={"arguments": arguments}) for arguments in ({}, {"map_name": None})]
    assert runs[0].id != runs[1].id


@given(mappings, st.none() | st.builds(Parent, st.text(), st.integers(), st.text()))
def test_identity_survives_the_disk(
    hyperparameters: dict[str, Any], parent: Parent | None
) -> None:
    """A specification read back from JSON is the same run."""
    run = replace(spec(learner=hyperparameters), parent=parent)
    read_back = RunSpec.from_plain(json.loads(json.dumps(run.plain())))
    assert (run, run.id) == (read_back, read_back.id)


def test_an_item_of_a_list_that_is_null_counts() -> None:
    """A null in a list is an item, and changes the identity."""
    assert canonical([1, None]) != canonical([1])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("agent", {**AGENT, "network": [64]}),
        ("algorithm", algorithm("ppo", gamma=0.9)),
        ("environment", {**ENVIRONMENT, "id": "Acrobot-v1"}),
        ("budget", {"steps": 101}),
        ("compute", {"threads": 2, "device": "cpu"}),
        ("phase", Phase.TUNING),
        ("root", 1),
        ("seed", 1),
        ("parent", Parent("1a", 50, "2b")),
        ("code", "3c"),
        ("callback", part("callback", "checks", "x.Checks")),
        ("replay", part("replay", "prioritised", "x.Prioritised")),
        ("dataset", part("dataset", "recorded", "x.Recorded")),
    ],
)
def test_every_field_is_part_of_the_identity(field: str, value: Any) -> None:
    """Any field changes the run, and any field outside of `RUN` changes the configuration."""
    changed = replace(spec(), **{field: value})
    assert spec().id != changed.id
    same_configuration = field in RUN
    assert same_configuration == (spec().fingerprint == changed.fingerprint)


def test_every_field_belongs_to_the_configuration_or_the_run() -> None:
    """`CONFIGURATION` and `RUN` together name every field of a run."""
    assert {*CONFIGURATION, *RUN} == {field.name for field in fields(RunSpec)}


@pytest.mark.parametrize(
    "changes", [{"checkpoint_every": 7}, {"checkpoint_minutes": 7.0}, {"timeout": 3.0}]
)
def test_how_a_run_is_executed_is_no_part_of_it(changes: dict[str, Any]) -> None:
    """Another time limit, or another interval of checkpoints, does not change the identity."""
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
def test_every_other_setting_of_the_budget_changes_the_identity(changes: dict[str, Any]) -> None:
    """A setting of the budget that decides numbers changes the identity."""
    assert spec().id != spec(**changes).id


def test_the_identity_is_for_ever() -> None:
    """Folders of earlier versions are found again: this id never changes."""
    expected = "a466ac9e6c5f1c9371901dea8b679df8a82176f1767b2924e63fb3124f376cc8"
    assert expected == spec().id


def test_nan_has_no_identity() -> None:
    """A number that JSON lacks is refused instead of being hashed as a word."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        digest({"gamma": float("nan")})


def test_the_folder_is_named_for_reading() -> None:
    """The name has the algorithm, phase, seed and the first ten digits of the id."""
    run = spec(3, Phase.TUNING)
    assert f"ppo-tuning-3-{run.id[:10]}" == run.name


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        ({"plug_in": {"name": "ppo"}}, "ppo"),
        ({"plug_in": {"name": "mine/ppo"}}, "ppo"),
        ({"plug_in": {"name": "my_package.annealed:MyAlgorithm"}}, "annealed"),
        ({"plug_in": {"name": "../é"}}, "_"),
        ({"name": "PPO of another tool", "imported": {}}, "PPO_of_another_tool"),
        ({"plug_in": {"name": "external"}, "command": "x", "name": "cleanrl"}, "cleanrl"),
        ({}, "unknown"),
    ],
)
def test_a_plug_in_has_a_short_name(configuration: dict[str, Any], expected: str) -> None:
    """The short name is that of the plug-in or of its module, fit for the name of a folder."""
    assert expected == short_name(configuration)


def test_a_missing_field_is_named() -> None:
    """A specification that lacks a field is refused with the name of the field."""
    record = spec().plain()
    del record["seed"]
    with pytest.raises(KeyError, match="seed"):
        RunSpec.from_plain(record)


@pytest.mark.parametrize("name", ["root", "seed"])
@pytest.mark.parametrize("value", [True, 1.0, "1", None])
def test_a_seed_that_is_no_whole_number_is_refused(name: str, value: object) -> None:
    """JSON's true, a fraction or a text in place of a seed is an error that names it."""
    with pytest.raises(ValueError, match=f"{name}=.* is no whole number"):
        RunSpec.from_plain({**spec().plain(), name: value})


def test_an_unknown_phase_is_refused() -> None:
    """A phase that does not exist is refused."""
    with pytest.raises(ValueError, match="training"):
        RunSpec.from_plain({**spec().plain(), "phase": "training"})


@given(mappings, st.sampled_from(Phase), st.integers(0, 2**70), st.integers(0, 2**14))
def test_another_seed_of_a_run_is_the_run_of_that_seed(
    hyperparameters: dict[str, Any], phase: Phase, root: int, seed: int
) -> None:
    """`again` gives the run of another seed, with the id of all its fields."""
    first = spec(learner=hyperparameters)
    other_run = first.again(phase, root, seed)
    expected = replace(first, phase=phase, root=root, seed=seed)
    assert (other_run, other_run.id, other_run.name) == (expected, expected.id, expected.name)
    assert other_run.fingerprint == first.fingerprint


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("root", [0, 7, 2**70])
@pytest.mark.parametrize("parent", [None, Parent("other", 50, "a" * 64)])
def test_an_identity_is_the_sum_of_canonical_json(
    phase: Phase, root: int, parent: Parent | None
) -> None:
    """The identity that is written without an encoder is that of the canonical JSON."""
    run = replace(spec(), phase=phase, root=root, seed=12, parent=parent)
    hashed = {"configuration": run.fingerprint, "phase": phase, "root": root, "seed": 12}
    parents = {} if parent is None else {"parent": asdict(parent)}
    assert run.id == digest(hashed | parents)
