"""Recipes that learn from recorded episodes, and what is refused before they train."""

from pathlib import Path

import pytest

from rlexp import api
from rlexp.errors import ConfigError

RECIPES = ("d3rlpy_cql", "d3rlpy_iql", "d3rlpy_td3_bc", "d3rlpy_rebrac")
UNIT = "environment.unit=gradient_steps"


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No virtual environment is installed, and there is no dataset."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))


@pytest.mark.parametrize("recipe", RECIPES)
def test_an_offline_recipe_without_a_dataset_is_refused(recipe: str, tmp_path: Path) -> None:
    """The message says how to choose a dataset, before a virtual environment is asked for."""
    with pytest.raises(
        ConfigError, match=r"choose one with dataset=minari dataset\.id="
    ) as caught:
        api.run(f"algorithm=recipe/{recipe}", "environment=pendulum", UNIT)
    assert "\n" not in str(caught.value)
    assert not [*tmp_path.glob("runs/*")]


@pytest.mark.parametrize("recipe", RECIPES)
def test_an_offline_recipe_counts_gradient_steps(recipe: str) -> None:
    """A budget in environment steps is refused with the words that declare the right unit."""
    with pytest.raises(ConfigError, match=f"counts gradient steps, .*: add {UNIT}"):
        api.run(f"algorithm=recipe/{recipe}", "environment=pendulum")


def test_a_missing_dataset_is_named() -> None:
    """A dataset that is not on the disk is refused by its name."""
    with pytest.raises(ConfigError, match=r"dataset\.id=pendulum/none-v0 is no dataset"):
        api.run(
            *("algorithm=recipe/d3rlpy_iql", "environment=pendulum", UNIT),
            *("dataset=minari", "dataset.id=pendulum/none-v0"),
        )
