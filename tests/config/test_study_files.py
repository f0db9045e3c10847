"""The files of a study: they win over packaged files, and unsafe files are refused."""

import time
from pathlib import Path

import pytest
from composing import GROUPS, MY_ENVIRONMENT, compose_one, refusal, value_at
from quick_parts import quick_parts
from samples import write_tree

from rlexp.config.config_files import group_options, groups

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study without files."""
    return tmp_path


def test_a_study_adds_an_environment_with_one_file(folder: Path) -> None:
    """A new option needs only the settings that differ from its default."""
    write_tree(folder, {"conf/environment/mine.yaml": MY_ENVIRONMENT})
    settings = compose_one(folder, "environment=mine")
    assert ("mine", 1) == (
        value_at(settings, "environment.name"),
        value_at(settings, "environment.vector.count"),
    )
    assert "cartpole" in group_options("environment", folder)
    assert "mine" in group_options("environment", folder)


def test_a_study_replaces_a_packaged_file(folder: Path) -> None:
    """A file of the study wins over the packaged file of the same name."""
    write_tree(folder, {"conf/environment/cartpole.yaml": MY_ENVIRONMENT})
    assert "mine" == value_at(compose_one(folder), "environment.name")


def test_a_study_replaces_the_defaults(folder: Path) -> None:
    """The config.yaml of a study replaces the packaged config.yaml completely."""
    text = "defaults: [{algorithm: a2c}, _self_]\nexperiment: ours\n"
    write_tree(folder, {"conf/config.yaml": text})
    settings = compose_one(folder)
    assert ({"algorithm", "experiment"}, "ours") == (set(settings), settings["experiment"])


def test_a_study_adds_a_group(folder: Path) -> None:
    """A study can add a group whose options set any key."""
    text = "# @package _global_\ndefaults: [override /algorithm: a2c]\nbudget: {steps: 7}\n"
    write_tree(folder, {"conf/question/first.yaml": text})
    settings = compose_one(folder, "+question=first")
    assert (7, "a2c") == (
        value_at(settings, "budget.steps"),
        value_at(settings, "algorithm._target_").split(".")[2],
    )
    assert "question" in groups(folder)


def test_groups_are_the_folders_of_conf(folder: Path) -> None:
    """The groups are the folders of both conf/; other folders of the study are ignored."""
    write_tree(folder, {"data/x.yaml": "a: 1", "conf/agent/mine.yaml": "a: 1"})
    assert GROUPS == groups(folder)


SPECIAL_NAMES = [
    "a b",
    "it's",
    '"quoted"',
    "a,b",
    "a'; echo foo",
    "ü",
    "$HOME",
    "${x}",
    "{a}",
    "[a]",
]


@pytest.mark.parametrize(
    "name", [*SPECIAL_NAMES, "a\\b", "a\\", "a\\'b", "a=b", "~a", "%20", "#", "conf"]
)
def test_study_folder_may_have_special_characters(folder: Path, name: str) -> None:
    """The files of a study are found in a folder of any name."""
    study = write_tree(folder / name, {"conf/environment/mine.yaml": MY_ENVIRONMENT})
    assert "mine" == value_at(compose_one(study, "environment=mine"), "environment.name")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2\n", "has the key 'a' twice"),
        ("a: !!python/object/apply:os.system [x]", "could not determine a constructor"),
        ("a: [", "is not yaml"),
        ("defaults: [nothere, _self_]", "there is no environment=nothere"),
        ("defaults: 3", "defaults must be a list"),
        ("null: 3\n1: 2\n", "Incompatible key type"),
        ("a: ${b", "${b"),
    ],
)
def test_invalid_file_is_reported_in_one_line(folder: Path, text: str, message: str) -> None:
    """An invalid file gives a one-line error, whichever parser fails."""
    write_tree(folder, {"conf/environment/mine.yaml": text})
    assert message in refusal(folder, "environment=mine")


def test_alias_bomb_is_refused_even_if_unused(folder: Path) -> None:
    """A file with nested aliases is refused within a second, even if no option uses it."""
    text = "a: &a [x,x,x,x,x,x,x,x]\n" + "".join(
        f"{n}: &{n} [{','.join([f'*{p}'] * 8)}]\n"
        for p, n in zip("abcdefg", "bcdefgh", strict=True)
    )
    write_tree(folder, {"conf/environment/mine.yaml": text})
    begin = time.process_time()
    assert "expands to more than" in refusal(folder)
    assert time.process_time() - begin < 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${oc.env:SAMPLE_TOKEN}", "${oc.env:SAMPLE_TOKEN}"),
        ("x ${oc.env:SAMPLE_TOKEN} y", "x ${oc.env:SAMPLE_TOKEN} y"),
        ("${oc.env:NOT_SET}", "${oc.env:NOT_SET}"),
        ("${oc.env:NOT_SET,5}", "${oc.env:NOT_SET,5}"),
        ("${oc.env:NOT_SET,null}", "${oc.env:NOT_SET,null}"),
        ("${environment.arguments.other}", "${oc.env:SAMPLE_TOKEN}"),
    ],
)
def test_environment_variables_stay_unresolved(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, expected: str
) -> None:
    """Values of environment variables are not part of a composed configuration."""
    monkeypatch.setenv("SAMPLE_TOKEN", "hunter2-hunter2")
    arguments = f"arguments: {{mine: '{text}', other: '${{oc.env:SAMPLE_TOKEN}}'}}\n"
    write_tree(folder, {"conf/environment/mine.yaml": MY_ENVIRONMENT + arguments})
    for _ in range(2):
        settings = compose_one(folder, "environment=mine", f"environment.name='{text}'")
        values = (
            value_at(settings, "environment.arguments.mine"),
            value_at(settings, "environment.name"),
        )
        assert (expected, expected) == values
        assert "hunter2" not in repr(settings)
