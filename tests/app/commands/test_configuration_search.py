"""`rlexp config search`: settings and options by a part of a name or of a meaning."""

from pathlib import Path

import pytest
from command_line import give, give_json
from samples import write_tree

from rlexp.app.commands.setup.configuration import search_configuration
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError
from rlexp.store.layout import Layout


def written(folder: Path, word: str) -> list[str]:
    """What a search says to type, the best match first."""
    listing = search_configuration(word, Workspace(folder, Layout(folder / "runs")))
    return [row.write for row in listing.rows]


@pytest.mark.parametrize(
    ("word", "first"),
    [
        ("lr", "algorithm.learning_rate=…"),
        ("learning_rate", "algorithm.learning_rate=…"),
        ("--gamma", "algorithm.gamma=…"),
        ("steps", "budget.steps=…"),
        ("total-timesteps", "budget.steps=…"),
        ("seed", "seeds.test=…"),
        ("n_envs", "environment.vector.count=…"),
        ("GPU", "compute.device=…"),
        ("trials", "sweep NAME sweep.trials=…"),
        ("interval", "report --set interval=…"),
        ("acrobot", "environment=acrobot"),
        ("mlflow", "tracker=[mlflow]"),
        ("tpe", "sweep NAME tuner=tpe"),
        ("checkpoint_minutes", "budget.checkpoint_minutes=…"),
        ("wall-clock", "budget.timeout=…"),
    ],
)
def test_the_best_match_comes_first(tmp_path: Path, word: str, first: str) -> None:
    """A name, a name of another tool, an option or a meaning leads to what must be typed."""
    assert first == written(tmp_path, word)[0]


def test_a_setting_names_its_options_and_the_usual_default(tmp_path: Path) -> None:
    """A row has the options with the setting, and the default in the default option."""
    rows = give_json(tmp_path, "configuration-search", "config", "search", "lr")["rows"]
    assert {"ppo", "a2c", "sac"} <= set(rows[0]["options"])
    assert 0.0003 == rows[0]["default"]


def test_the_table_shows_what_to_type(tmp_path: Path) -> None:
    """For people, a search is a table with the words to type, the default and the meaning."""
    table = give(tmp_path, "config", "search", "budget.steps")
    assert "budget.steps=…" in table
    assert "environment steps of one run" in table


def test_options_of_the_workspace_are_searched(tmp_path: Path) -> None:
    """A file in the workspace's `conf/` is searched like a packaged one."""
    text = "# A very special corridor.\ndefaults: [gymnasium, _self_]\nid: X-v0\nslipperiness: 3 # of it\n"
    write_tree(tmp_path, {"conf/environment/mine.yaml": text})
    assert ["environment=mine"] == written(tmp_path, "very special")
    assert ["environment.slipperiness=…"] == written(tmp_path, "slipperiness")


@pytest.mark.parametrize(
    ("word", "near"), [("learning_rat3", "learning_rate"), ("qqqq", ""), ("", "")]
)
def test_a_word_without_a_match_is_refused(tmp_path: Path, word: str, near: str) -> None:
    """A word that nothing contains is an error with the nearest name and the next command."""
    with pytest.raises(ConfigError, match="to see all groups: rlexp config list") as caught:
        written(tmp_path, word)
    assert (f"did you mean '{near}'?" in str(caught.value)) == bool(near)


@pytest.mark.parametrize("value", ["!mine 3", "2020-13-45", "!!int abc", "="])
def test_a_value_that_cannot_be_read_hides_no_setting(tmp_path: Path, value: str) -> None:
    """A wrong value in a file of the study is shown as its text, and the search goes on."""
    option = f"# Mine.\n_target_: rlexp.algorithms.ppo.PPO\nlearning_rate: {value}\n"
    write_tree(tmp_path, {"conf/algorithm/mine.yaml": option})
    assert "algorithm.learning_rate=…" == written(tmp_path, "learning_rate")[0]
