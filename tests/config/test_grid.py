"""Grids: comma choices of groups and of values, multiplied."""

from pathlib import Path
from typing import Any

import hydra
import pytest
from composing import grid, refusal
from quick_parts import quick_parts

from rlexp.config.compose import compose

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study without files."""
    return tmp_path


def test_choices_of_a_group_make_a_grid(folder: Path) -> None:
    """Each choice brings its own settings."""
    found = compose(["algorithm=ppo,sac"], folder)
    assert [(("algorithm", "ppo"),), (("algorithm", "sac"),)] == [c.choices for c in found]
    assert [False, True] == ["tau" in c.plain["algorithm"] for c in found]


def test_choices_of_a_value_make_a_grid(folder: Path) -> None:
    """Each with the value and nothing else changed."""
    found = compose(["algorithm.learning_rate=1e-3,1e-4"], folder)
    assert [0.001, 0.0001] == [c.plain["algorithm"].pop("learning_rate") for c in found]
    assert found[0].plain == found[1].plain


def test_choices_of_groups_and_values_are_multiplied(folder: Path) -> None:
    """The first word varies slowest."""
    words = ("algorithm=ppo,a2c", "environment=cartpole,acrobot", "algorithm.gamma=0.9,0.8")
    found = grid(folder, *words)
    assert (8, 8) == (len(found), len(set(found)))
    keys = ("algorithm", "environment", "algorithm.gamma")
    assert {keys} == {tuple(key for key, _ in choices) for choices in found}
    assert ["ppo"] * 4 + ["a2c"] * 4 == [choices[0][1] for choices in found]


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
    """In the order in which it was written."""
    assert values == [value for ((_, value),) in grid(folder, word)]


def test_a_choice_reaches_what_refers_to_it(folder: Path) -> None:
    """Interpolations are resolved in every configuration by itself."""
    found = compose(["environment.name=${algorithm.gamma}", "algorithm.gamma=0.9,0.8"], folder)
    assert [0.9, 0.8] == [c.plain["environment"]["name"] for c in found]


def test_one_configuration_has_no_choices(folder: Path) -> None:
    """A value that was set is none."""
    assert [()] == grid(folder, "algorithm=a2c", "algorithm.gamma=0.9")


def test_a_large_grid_of_values_is_composed_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hydra takes a tenth of a second; a thousand values must not take a thousand of them."""
    hydra_compose, composed = hydra.compose, []

    def counted(*words: Any, **settings: Any) -> Any:
        composed.append(words)
        return hydra_compose(*words, **settings)

    monkeypatch.setattr(hydra, "compose", counted)
    assert 40 == len(compose(["algorithm.n_steps=range(1,41)"], folder))
    assert 1 == len(composed)


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
def test_what_belongs_to_the_experiment_takes_one_value(folder: Path, word: str) -> None:
    """A configuration cannot have its own seeds, or processes."""
    assert "belongs to the whole experiment and takes one value" in refusal(folder, word)
