"""`rlexp config` shows, lists and validates what words lead to, and starts nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from finished_runs import study
from quick_parts import quick_yaml

from rlexp.app.commands.configuration import (
    list_options,
    show_configuration,
    validate_configuration,
)
from rlexp.config.options import listed_groups
from rlexp.config.sources import groups, packaged_root
from rlexp.console import Console
from rlexp.errors import ConfigError

quick = pytest.fixture(autouse=True)(quick_yaml)


def write(folder: Path, name: str, content: str) -> None:
    """Write a file of the study's configuration."""
    path = folder / "conf" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


@pytest.fixture
def out(capsys: pytest.CaptureFixture[str]) -> Any:
    """A function that returns what was printed to standard output."""
    return lambda: capsys.readouterr().out


def test_shown_yaml_is_the_configuration(tmp_path: Path, out: Any) -> None:
    """What is shown can be read back, and holds what was asked for."""
    code = show_configuration(["budget.steps=123", "algorithm=dqn"], study(tmp_path), Console())

    read = yaml.safe_load(out())
    assert code == 0
    assert (123, "rlexp.algorithms.dqn.DQN") == (
        read["budget"]["steps"],
        read["algorithm"]["_target_"],
    )


def test_shown_json_is_the_same_configuration(tmp_path: Path, out: Any) -> None:
    """Machines get what people get."""
    show_configuration([], study(tmp_path), Console())
    people = yaml.safe_load(out())
    show_configuration([], study(tmp_path), Console(as_json=True))

    assert people == json.loads(out())


def test_every_configuration_of_a_grid_is_shown_with_its_choices(tmp_path: Path, out: Any) -> None:
    """A grid of two gives two documents."""
    show_configuration(["algorithm=ppo,a2c"], study(tmp_path), Console())

    text = out()
    targets = [d["algorithm"]["_target_"] for d in yaml.safe_load_all(text)]
    assert targets == ["rlexp.algorithms.ppo.PPO", "rlexp.algorithms.a2c.A2C"]
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "# algorithm=ppo",
        "# algorithm=a2c",
    ]


def test_variables_stay_names(tmp_path: Path, out: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The value of a variable is never printed, a typed secret is masked, other text stays."""
    monkeypatch.setenv("MY_TOKEN", "very-secret")
    words = [
        "environment.arguments.token=${oc.env:MY_TOKEN}",
        "environment.arguments.api_key=hunter22",
        "environment.arguments.nested={password: hunter22}",
        "environment.arguments.map=4x4",
    ]

    show_configuration(words, study(tmp_path), Console())

    text = out()
    assert yaml.safe_load(text)["environment"]["arguments"] == {
        "token": "${oc.env:MY_TOKEN}",
        "api_key": "********",
        "nested": {"password": "********"},
        "map": "4x4",
    }
    assert "secret" not in text.replace("api_key", "")


def test_unknown_key_is_refused(tmp_path: Path) -> None:
    """The refusal suggests the key that was meant."""
    with pytest.raises(ConfigError, match="did you mean 'steps'"):
        show_configuration(["budget.stesp=1"], study(tmp_path), Console())


def test_groups_are_listed_with_their_defaults(tmp_path: Path, out: Any) -> None:
    """Every group, what it starts with, how it is written, and what there is to choose from."""
    list_options(None, study(tmp_path), Console(as_json=True))

    rows = {row["group"]: row for row in json.loads(out())}
    assert list(rows) == listed_groups(tmp_path) == sorted([*groups(tmp_path), "sweeps"])
    assert ("ppo", "algorithm=…") == (rows["algorithm"]["default"], rows["algorithm"]["write"])
    assert (None, "+benchmark=…") == (rows["benchmark"]["default"], rows["benchmark"]["write"])
    assert "cartpole" in rows["environment"]["options"]


@pytest.mark.parametrize(
    ("group", "default", "write"),
    [
        ("tuner", "tpe", "sweep NAME tuner=…"),
        ("pruner", "none", "sweep NAME pruner=…"),
        ("sweeps", None, "sweep NAME"),
    ],
)
def test_groups_of_sweeps_are_listed_with_their_command(
    tmp_path: Path, out: Any, group: str, default: str | None, write: str
) -> None:
    """No run has a tuner, so that the list says where it is written."""
    list_options(None, study(tmp_path), Console(as_json=True))

    row = {row["group"]: row for row in json.loads(out())}[group]
    assert (default, write) == (row["default"], row["write"])


def test_default_tuner_is_marked(tmp_path: Path, out: Any) -> None:
    """The option that a sweep starts with."""
    list_options("tuner", study(tmp_path), Console(as_json=True))

    assert [row["tuner"] for row in json.loads(out()) if row["default"]] == ["tpe"]


def test_definitions_of_sweeps_are_listed(tmp_path: Path, out: Any) -> None:
    """The study's own beside ours; shared spaces are none."""
    path = tmp_path / "sweeps" / "mine.yaml"
    path.parent.mkdir()
    path.write_text("# @package _global_\n# Mine.\n")

    list_options("sweeps", study(tmp_path), Console(as_json=True))

    rows = {row["sweeps"]: row for row in json.loads(out())}
    assert ("Mine.", "sweeps/") == (rows["mine"]["description"], rows["mine"]["from"])
    assert "rlexp" == rows["ppo_cartpole"]["from"]
    assert "space" not in rows


@pytest.mark.parametrize("group", groups(Path("nowhere")))
def test_every_option_says_what_it_is(group: str, tmp_path: Path, out: Any) -> None:
    """Each of our yamls begins with a comment."""
    list_options(group, study(tmp_path), Console(as_json=True))

    rows = json.loads(out())
    files = sorted((packaged_root() / "conf" / group).glob("*.yaml"))
    assert [path.stem for path in files] == [row[group] for row in rows]
    assert [row for row in rows if len(row["description"]) < 10] == []


def test_options_are_printed_for_people(tmp_path: Path, out: Any) -> None:
    """A line an option, with its description."""
    list_options("agent", study(tmp_path), Console())

    lines = out().splitlines()
    first = [line.split()[0] for line in lines]
    assert first == ["agent", "cnn", "linear", "lstm", "mlp", "multi_input"]
    assert "description" in lines[0]


def test_the_studys_own_options_come_first(tmp_path: Path, out: Any) -> None:
    """A yaml of the study hides ours of the same name, and is marked as its own."""
    write(tmp_path, "environment/cartpole.yaml", "# Mine.\ndefaults: [gymnasium, _self_]\n")
    write(tmp_path, "environment/extra.yaml", "id: [not, described]\n")

    list_options("environment", study(tmp_path), Console(as_json=True))

    rows = {row["environment"]: row for row in json.loads(out())}
    assert ("Mine.", "conf/") == (rows["cartpole"]["description"], rows["cartpole"]["from"])
    assert ("", "conf/") == (rows["extra"]["description"], rows["extra"]["from"])
    assert rows["pendulum"]["from"] == "rlexp"


def test_the_studys_own_defaults_are_told(tmp_path: Path, out: Any) -> None:
    """A study may start from another algorithm."""
    ours = (packaged_root() / "conf" / "config.yaml").read_text()
    write(tmp_path, "config.yaml", ours.replace("algorithm: ppo", "algorithm: dqn"))

    list_options(None, study(tmp_path), Console(as_json=True))

    rows = {row["group"]: row["default"] for row in json.loads(out())}
    assert rows["algorithm"] == "dqn"


@pytest.mark.parametrize("group", ["algo", "../conf", "", "/etc"])
def test_unknown_group_is_refused(group: str, tmp_path: Path) -> None:
    """The refusal names the groups there are."""
    with pytest.raises(ConfigError, match=r"there is no group .*\(there are: agent, algorithm"):
        list_options(group, study(tmp_path), Console())


def test_hostile_description_is_made_harmless(tmp_path: Path, out: Any) -> None:
    """Neither escape codes nor markup reach the terminal."""
    write(tmp_path, "environment/odd.yaml", "# \x1b[2J[link=file:///etc/passwd]x[/link]\n")

    list_options("environment", study(tmp_path), Console())

    text = out()
    assert "\x1b" not in text
    assert "[link=file:///etc/passwd]x[/link]" in text.replace("\n", "")


def test_valid_words_are_ok(tmp_path: Path, out: Any) -> None:
    """One line says what would be run."""
    words = ["algorithm=ppo,a2c", "seeds.test=2"]

    code = validate_configuration(words, study(tmp_path), Console())

    assert code == 0
    assert out() == "ok: ppo on CartPole-v1, a2c on CartPole-v1; 4 test runs\n"


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("algorithm=sac", "SAC cannot act on CartPole-v1"),
        ("algorithm.learning_rate=-1", "algorithm.learning_rate=-1"),
        ("environment=gymnasium", "environment.id has no value"),
        ("environment.id=Nothing-v7", "not registered in Gymnasium"),
        (
            "environment.id='faulty_environments:faulty/BadConstructor-v0'",
            "cannot be made: ValueError: no such level",
        ),
        ("environment.id='faulty_environments:faulty/NoSpaces-v0'", "cannot be made: Attrib"),
        ("experiment=../x", "cannot be a folder name"),
    ],
)
def test_invalid_words_are_refused(word: str, reason: str, tmp_path: Path) -> None:
    """What `rlexp run` would refuse, this refuses, and writes nothing."""
    with pytest.raises(ConfigError, match=reason):
        validate_configuration([word], study(tmp_path), Console())
    assert list(tmp_path.iterdir()) == []
