"""Grids: choices of options and of values, and their products."""

from pathlib import Path
from typing import Any

import hydra
import pytest
from composing import grid_choices, refusal
from quick_parts import quick_parts

from rlexp.config.compose import compose

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study without files."""
    return tmp_path


def test_choices_of_a_group_make_a_grid(folder: Path) -> None:
    """Each option of a group makes a configuration with the settings of that option."""
    configurations = compose(["algorithm=ppo,sac"], folder)
    assert [(("algorithm", "ppo"),), (("algorithm", "sac"),)] == [
        c.choices for c in configurations
    ]
    assert [False, True] == ["tau" in c.plain["algorithm"] for c in configurations]


@pytest.mark.parametrize("value", ["0.5", "0.5,0.7"])
def test_a_key_of_one_compared_option_names_the_other(folder: Path, value: str) -> None:
    """The error says which option lacks the key, and how both are compared; a typo keeps its hint."""
    words = ("algorithm=dqn", "replay=uniform,prioritised", f"replay.alpha={value}")
    refused = refusal(folder, *words)
    assert "replay=prioritised has it, and replay=uniform does not" in refused
    assert "rlexp init --study" in refused
    assert "did you mean" in refusal(folder, "algorithm=ppo,a2c", f"algorithm.gama={value}")


def test_choices_of_a_value_make_a_grid(folder: Path) -> None:
    """The configurations of a grid of values differ in that value only."""
    configurations = compose(["algorithm.learning_rate=1e-3,1e-4"], folder)
    assert [0.001, 0.0001] == [c.plain["algorithm"].pop("learning_rate") for c in configurations]
    assert configurations[0].plain == configurations[1].plain


def test_choices_of_groups_and_values_are_multiplied(folder: Path) -> None:
    """A grid is the product of its choices; the first choice varies slowest."""
    overrides = ("algorithm=ppo,a2c", "environment=cartpole,acrobot", "algorithm.gamma=0.9,0.8")
    choices_of_all = grid_choices(folder, *overrides)
    assert (8, 8) == (len(choices_of_all), len(set(choices_of_all)))
    keys = ("algorithm", "environment", "algorithm.gamma")
    assert {keys} == {tuple(key for key, _ in choices) for choices in choices_of_all}
    assert ["ppo"] * 4 + ["a2c"] * 4 == [choices[0][1] for choices in choices_of_all]


@pytest.mark.parametrize(
    ("word", "values"),
    [
        ("algorithm.gamma=choice(0.9,0.8)", ["0.9", "0.8"]),
        ("algorithm.n_steps=range(1,4)", ["1", "2", "3"]),
        ("agent.network=[8],[16,16]", ["[8]", "[16,16]"]),
        ("environment.name=a,'b c'", ["a", "'b c'"]),
        ("++algorithm.gamma=0.9,0.8", ["0.9", "0.8"]),
        ("+algorithm.later=1,2", ["1", "2"]),
        ("environment.arguments.gravity=9.8,3.7", ["9.8", "3.7"]),
        ("+environment.arguments.gravity=9.8,3.7", ["9.8", "3.7"]),
        ("agent.policy_kwargs.x=1,2", ["1", "2"]),
        ("+benchmark=cartpole,cartpole", ["cartpole", "cartpole"]),
    ],
)
def test_every_kind_of_choice_is_expanded(folder: Path, word: str, values: list[str]) -> None:
    """Every form of a choice lists its values in the order of writing."""
    assert values == [value for ((_, value),) in grid_choices(folder, word)]


def test_references_follow_each_choice(folder: Path) -> None:
    """References are resolved in each configuration separately."""
    configurations = compose(
        ["environment.name=${algorithm.gamma}", "algorithm.gamma=0.9,0.8"], folder
    )
    assert [0.9, 0.8] == [c.plain["environment"]["name"] for c in configurations]


def test_single_values_are_not_choices(folder: Path) -> None:
    """An override with a single value is not a choice of the grid."""
    assert [()] == grid_choices(folder, "algorithm=a2c", "algorithm.gamma=0.9")


def test_a_large_grid_of_values_is_composed_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hydra composes once for all values of a grid, because it takes 0.1 s each time."""
    hydra_compose, calls = hydra.compose, []

    def counted_compose(*overrides: Any, **settings: Any) -> Any:
        calls.append(overrides)
        return hydra_compose(*overrides, **settings)

    monkeypatch.setattr(hydra, "compose", counted_compose)
    assert 40 == len(compose(["algorithm.n_steps=range(1,41)"], folder))
    assert 1 == len(calls)


@pytest.mark.parametrize(
    "word",
    [
        "experiment=a,b",
        "seeds.test=1,2",
        "seeds.root=1,2",
        "phase=test,tuning",
        "failures=worst,missing",
        "executor.workers=1,2",
        "budget.timeout=1,2",
        "budget.checkpoint_every=1,2",
    ],
)
def test_experiment_keys_take_one_value(folder: Path, word: str) -> None:
    """A grid over seeds, executor or other keys of the experiment is refused."""
    assert "belongs to the whole experiment and takes one value" in refusal(folder, word)


@pytest.mark.parametrize("values", ["1,2", "range(1,3)", "choice(1,2)"])
def test_several_seeds_are_advised_as_a_list(folder: Path, values: str) -> None:
    """The refusal of several seeds names the list, which composes."""
    assert "type 'seeds.test=[1,2]' for all of them" in refusal(folder, f"seeds.test={values}")
    assert [1, 2] == compose(["seeds.test=[1,2]"], folder)[0].plain["seeds"]["test"]
