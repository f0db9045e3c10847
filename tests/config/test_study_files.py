"""A study's own files: they win over the packaged ones, and can do no harm."""

import time
from pathlib import Path

import pytest
from composing import GROUPS, MINE, at, one, refusal
from quick_parts import quick_parts
from samples import write_tree

from rlexp.config.sources import group_options, groups

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study without files."""
    return tmp_path


def test_a_study_adds_an_environment_with_one_file(folder: Path) -> None:
    """It needs to hold no more than what it adds."""
    write_tree(folder, {"conf/environment/mine.yaml": MINE})
    plain = one(folder, "environment=mine")
    assert ("mine", 1) == (at(plain, "environment.name"), at(plain, "environment.vector.count"))
    assert "cartpole" in group_options("environment", folder)
    assert "mine" in group_options("environment", folder)


def test_a_study_replaces_a_packaged_file(folder: Path) -> None:
    """Of the same name, its own wins."""
    write_tree(folder, {"conf/environment/cartpole.yaml": MINE})
    assert "mine" == at(one(folder), "environment.name")


def test_a_study_replaces_the_defaults(folder: Path) -> None:
    """Its config.yaml is the whole of it."""
    text = "defaults: [{algorithm: a2c}, _self_]\nexperiment: ours\n"
    write_tree(folder, {"conf/config.yaml": text})
    plain = one(folder)
    assert ({"algorithm", "experiment"}, "ours") == (set(plain), plain["experiment"])


def test_a_study_adds_a_group(folder: Path) -> None:
    """A benchmark of its own sets what it likes."""
    text = "# @package _global_\ndefaults: [override /algorithm: a2c]\nbudget: {steps: 7}\n"
    write_tree(folder, {"conf/question/first.yaml": text})
    plain = one(folder, "+question=first")
    assert (7, "a2c") == (at(plain, "budget.steps"), at(plain, "algorithm._target_").split(".")[2])
    assert "question" in groups(folder)


def test_groups_are_the_folders_of_conf(folder: Path) -> None:
    """Of ours and the study's; other folders of the study are none."""
    write_tree(folder, {"data/x.yaml": "a: 1", "conf/agent/mine.yaml": "a: 1"})
    assert GROUPS == groups(folder)


ODD = ["a b", "it's", '"quoted"', "a,b", "a'; echo foo", "ü", "$HOME", "${x}", "{a}", "[a]"]


@pytest.mark.parametrize("name", [*ODD, "a\\b", "a\\", "a\\'b", "a=b", "~a", "%20", "#", "conf"])
def test_a_study_may_have_an_odd_name(folder: Path, name: str) -> None:
    """Its files are found in whatever folder it is."""
    study = write_tree(folder / name, {"conf/environment/mine.yaml": MINE})
    assert "mine" == at(one(study, "environment=mine"), "environment.name")


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
def test_a_bad_file_of_a_study_is_told_in_one_line(folder: Path, text: str, message: str) -> None:
    """Whatever reads it first."""
    write_tree(folder, {"conf/environment/mine.yaml": text})
    assert message in refusal(folder, "environment=mine")


def test_a_bomb_in_a_study_is_refused_whether_it_is_used_or_not(folder: Path) -> None:
    """Before Hydra sees any file."""
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
def test_variables_stay_unresolved(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, expected: str
) -> None:
    """Composed twice or once, from a file or a word: the value is filled in where it is used."""
    monkeypatch.setenv("SAMPLE_TOKEN", "hunter2-hunter2")
    arguments = f"arguments: {{mine: '{text}', other: '${{oc.env:SAMPLE_TOKEN}}'}}\n"
    write_tree(folder, {"conf/environment/mine.yaml": MINE + arguments})
    for _ in range(2):
        plain = one(folder, "environment=mine", f"environment.name='{text}'")
        found = at(plain, "environment.arguments.mine"), at(plain, "environment.name")
        assert (expected, expected) == found
        assert "hunter2" not in repr(plain)
