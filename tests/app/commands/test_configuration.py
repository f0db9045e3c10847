"""`rlexp config` shows, lists and validates configurations and starts no run."""

from pathlib import Path

import pytest
import yaml
from command_line import typed as rlexp
from finished_runs import study
from quick_parts import quick_yaml
from rich.console import Console as RichConsole

from rlexp.app.commands.setup.configuration import (
    list_groups,
    list_options,
    show_configuration,
    validate_configuration,
)
from rlexp.cli.setup.configuration import show_groups
from rlexp.config.config_files import groups, listed_groups, packaged_root
from rlexp.console import Console
from rlexp.errors import ConfigError

quick = pytest.fixture(autouse=True)(quick_yaml)


def write(folder: Path, name: str, content: str) -> None:
    """Write a file of the workspace's configuration."""
    path = folder / "conf" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def test_shown_yaml_is_the_configuration(tmp_path: Path) -> None:
    """The shown YAML can be read back and holds the overrides."""
    printed = rlexp(tmp_path, "config", "show", "budget.steps=123", "algorithm=dqn")

    content = yaml.safe_load(printed.out)
    assert printed.code == 0
    assert (123, "rlexp.algorithms.dqn.DQN") == (
        content["budget"]["steps"],
        content["algorithm"]["_target_"],
    )


def test_shown_json_is_the_same_configuration(tmp_path: Path) -> None:
    """The JSON document has the same values as the YAML."""
    from_yaml = yaml.safe_load(rlexp(tmp_path, "config", "show").out)
    (from_json,) = rlexp(tmp_path, "config", "show", "--json").content["configurations"]

    assert from_yaml == from_json["configuration"]


def test_every_configuration_of_a_grid_is_shown_with_its_choices(tmp_path: Path) -> None:
    """A grid of two gives two YAML documents, and two configurations in JSON."""
    arguments = ("config", "show", "algorithm=ppo,a2c")
    text = rlexp(tmp_path, *arguments).out

    targets = [d["algorithm"]["_target_"] for d in yaml.safe_load_all(text)]
    assert targets == ["rlexp.algorithms.ppo.PPO", "rlexp.algorithms.a2c.A2C"]
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "# algorithm=ppo",
        "# algorithm=a2c",
    ]
    configurations = rlexp(tmp_path, *arguments, "--json").content["configurations"]
    assert [{"algorithm": "ppo"}, {"algorithm": "a2c"}] == [c["choices"] for c in configurations]


def test_environment_variables_stay_unresolved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables keep their names, literal secrets are masked, and other values are printed."""
    monkeypatch.setenv("MY_TOKEN", "very-secret")
    arguments = [
        "environment.arguments.token=${oc.env:MY_TOKEN}",
        "environment.arguments.api_key=hunter22",
        "environment.arguments.nested={password: hunter22}",
        "environment.arguments.map=4x4",
    ]

    text = rlexp(tmp_path, "config", "show", *arguments).out

    assert yaml.safe_load(text)["environment"]["arguments"] == {
        "token": "${oc.env:MY_TOKEN}",
        "api_key": "********",
        "nested": {"password": "********"},
        "map": "4x4",
    }
    assert "secret" not in text.replace("api_key", "")


def test_unknown_key_is_refused(tmp_path: Path) -> None:
    """The error about an unknown key suggests the most similar key."""
    with pytest.raises(ConfigError, match=r"did you mean 'budget\.steps=1'"):
        show_configuration(["budget.stesp=1"], study(tmp_path))


def test_groups_are_listed_with_their_defaults(tmp_path: Path) -> None:
    """The list has every group with its default, its form on the command line and its options."""
    rows = {row.group: row for row in list_groups(study(tmp_path)).rows}
    assert list(rows) == listed_groups(tmp_path) == sorted([*groups(tmp_path), "sweeps"])
    assert ("ppo", "algorithm=…") == (rows["algorithm"].default, rows["algorithm"].write)
    assert (None, "+benchmark=…") == (rows["benchmark"].default, rows["benchmark"].write)
    assert "cartpole" in rows["environment"].options


@pytest.mark.parametrize(
    ("group", "default", "write"),
    [
        ("tuner", "tpe", "sweep NAME tuner=…"),
        ("pruner", "none", "sweep NAME pruner=…"),
        ("sweeps", None, "sweep NAME"),
    ],
)
def test_groups_of_sweeps_are_listed_with_their_command(
    tmp_path: Path, group: str, default: str | None, write: str
) -> None:
    """Groups that only sweeps have are listed with `sweep NAME`."""
    row = {row.group: row for row in list_groups(study(tmp_path)).rows}[group]
    assert (default, write) == (row.default, row.write)


def test_default_tuner_is_marked(tmp_path: Path) -> None:
    """The default tuner of a sweep is marked in the list of tuners."""
    rows = list_options("tuner", study(tmp_path)).rows
    assert [row.option for row in rows if row.default] == ["tpe"]


def test_definitions_of_sweeps_are_listed(tmp_path: Path) -> None:
    """Definitions of the workspace and of rlexp are listed; shared search spaces are not."""
    path = tmp_path / "sweeps" / "mine.yaml"
    path.parent.mkdir()
    path.write_text("# @package _global_\n# Mine.\n")

    rows = {row.option: row for row in list_options("sweeps", study(tmp_path)).rows}
    assert ("Mine.", "sweeps/") == (rows["mine"].description, rows["mine"].source)
    assert "rlexp" == rows["ppo_cartpole"].source
    assert "space" not in rows


@pytest.mark.parametrize("group", groups(Path("nowhere")))
def test_every_option_has_a_description(group: str, tmp_path: Path) -> None:
    """Each YAML file of rlexp has a description."""
    rows = list_options(group, study(tmp_path)).rows
    folder = packaged_root() / "conf" / group
    files = sorted(folder.rglob("*.yaml") if group == "algorithm" else folder.glob("*.yaml"))
    names = [path.relative_to(folder).with_suffix("").as_posix() for path in files]
    assert sorted(names) == [row.option for row in rows]
    assert [row for row in rows if len(row.description) < 10] == []


def test_options_are_printed_with_descriptions(tmp_path: Path) -> None:
    """In a pipe, each option is one line: its name and the first sentence of its description."""
    lines = rlexp(tmp_path, "config", "list", "agent").out.splitlines()
    names, sentences = zip(*(line.split("  ") for line in lines), strict=True)
    assert names == ("cnn", "gbrl", "linear", "lstm", "mlp", "multi_input")
    assert all(". " not in sentence for sentence in sentences)


def test_groups_in_a_pipe_are_short_lines(tmp_path: Path) -> None:
    """In a pipe, each group is one short line with the number of its options."""
    groups = list_groups(study(tmp_path)).rows
    lines = rlexp(tmp_path, "config", "list").out.splitlines()
    assert [row.group for row in groups] == [line.split()[0] for line in lines]
    assert all(len(line) <= 80 for line in lines)
    count = len(next(row.options for row in groups if row.group == "environment"))
    assert f"environment  environment=…, default cartpole, {count} options" in lines


def test_groups_on_a_narrow_terminal_have_whole_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At sixty columns no name of an option is cut, and every option is there."""
    listing = list_groups(study(tmp_path))
    console = Console()
    monkeypatch.setattr(
        console, "out", RichConsole(force_terminal=True, width=60, highlight=False)
    )
    show_groups(listing, console)
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 60
    words = printed.split()
    for row in listing.rows:
        assert f"({row.write.split()[0]}" in printed
        assert set(row.options) <= set(words)


def test_options_of_the_workspace_replace_packaged_ones(tmp_path: Path) -> None:
    """A YAML file of the workspace replaces the packaged one of the same name and is marked."""
    write(tmp_path, "environment/cartpole.yaml", "# Mine.\ndefaults: [gymnasium, _self_]\n")
    write(tmp_path, "environment/extra.yaml", "id: [not, described]\n")

    rows = {row.option: row for row in list_options("environment", study(tmp_path)).rows}
    assert ("Mine.", "conf/") == (rows["cartpole"].description, rows["cartpole"].source)
    assert ("", "conf/") == (rows["extra"].description, rows["extra"].source)
    assert rows["pendulum"].source == "rlexp"
    lines = rlexp(tmp_path, "config", "list", "environment").out.splitlines()
    assert {"cartpole  Mine. (from conf/)", "extra  (from conf/)"} <= set(lines)


def test_defaults_of_the_workspace_are_listed(tmp_path: Path) -> None:
    """The default algorithm of a workspace is listed as the default."""
    packaged = (packaged_root() / "conf" / "config.yaml").read_text()
    write(tmp_path, "config.yaml", packaged.replace("algorithm: ppo", "algorithm: dqn"))

    rows = {row.group: row.default for row in list_groups(study(tmp_path)).rows}
    assert rows["algorithm"] == "dqn"


@pytest.mark.parametrize("group", ["algo", "../conf", "", "/etc"])
def test_unknown_group_is_refused(group: str, tmp_path: Path) -> None:
    """The error about an unknown group lists the existing groups."""
    with pytest.raises(ConfigError, match=r"there is no group .*\(there are: agent, "):
        list_options(group, study(tmp_path))


def test_hostile_description_is_made_harmless(tmp_path: Path) -> None:
    """Escape codes in a description are removed, and markup is printed as text."""
    write(tmp_path, "environment/odd.yaml", "# \x1b[2J[link=file:///etc/passwd]x[/link]\n")

    text = rlexp(tmp_path, "config", "list", "environment").out

    assert "\x1b" not in text
    assert "[link=file:///etc/passwd]x[/link]" in text.replace("\n", "")


def test_a_valid_configuration_is_confirmed(tmp_path: Path) -> None:
    """One line names the label, the task and the number of runs."""
    arguments = ["algorithm=ppo,a2c", "seeds.test=2"]

    printed = rlexp(tmp_path, "config", "validate", *arguments)

    assert (0, "ok: ppo on CartPole-v1, a2c on CartPole-v1; 4 test runs\n") == (
        printed.code,
        printed.out,
    )


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("algorithm=sac", "the actions of CartPole-v1 are Discrete, but SAC needs Box"),
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
def test_an_invalid_configuration_is_refused(word: str, reason: str, tmp_path: Path) -> None:
    """`config validate` refuses what `rlexp run` would refuse, and writes nothing."""
    with pytest.raises(ConfigError, match=reason):
        validate_configuration([word], study(tmp_path))
    assert list(tmp_path.iterdir()) == []
