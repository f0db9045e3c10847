"""The search path of yaml files, and the limits that files must keep."""

import time
from pathlib import Path

import pytest
from quick_parts import quick_yaml
from samples import write_tree

from rlexp.config.config_files import (
    MAX_DEPTH,
    MAX_NODES,
    MAX_YAML_BYTES,
    check_yaml,
    check_yaml_files,
    packaged_root,
    search_path,
)
from rlexp.config.option_lookup import read_option
from rlexp.config.third_party_yaml import environment_options
from rlexp.errors import ConfigError

quick = pytest.fixture(autouse=True)(quick_yaml)


def alias_bomb(levels: int) -> str:
    """YAML in which each line refers nine times to the line before it."""
    lines = ["l0: &l0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"l{k}: &l{k} [{', '.join([f'*l{k - 1}'] * 9)}]" for k in range(1, levels)]
    return "\n".join(lines)


HOSTILE = {
    "aliases": alias_bomb(9),
    "many aliases": alias_bomb(200),
    "brackets": "a: " + "[" * 200_000,
    "closed brackets": "a: " + "[" * 5_000 + "]" * 5_000,
    "braces": "{a: " * 5_000,
    "indentation": "".join(" " * k + "a:\n" for k in range(500)),
    "size": "a: " + "x" * (2 << 20),
    "comments": "#" * (2 << 20),
    "values": "a:\n" + "- x\n" * 200_000,
    "keys": "".join(f"k{k}: 1\n" for k in range(60_000)),
    "loop": "a: &a [*a]",
    "loop at the top": "&a [*a]",
    "loop in a mapping": "&a {b: *a}",
    "unknown alias": "a: *b",
    "not yaml": "a: [",
    "two documents": "a: 1\n---\na: 2\n",
    "tabs": "a:\n\tb: 1\n",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_yaml_is_refused_quickly(kind: str, tmp_path: Path) -> None:
    """Hostile YAML is refused within 1.5 seconds, by one line that names the file."""
    path = write_tree(tmp_path, {"x.yaml": HOSTILE[kind]}) / "x.yaml"
    begin = time.process_time()
    with pytest.raises(ConfigError, match=r"x\.yaml") as error_info:
        check_yaml(path)
    assert time.process_time() - begin < 1.5
    assert "\n" not in str(error_info.value)
    assert len(str(error_info.value)) < 500


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a: \0", "a: ü".encode("latin-1")])
def test_file_in_another_encoding_is_refused(content: bytes, tmp_path: Path) -> None:
    """A file with invalid bytes is refused by an error that names it."""
    (tmp_path / "x.yaml").write_bytes(content)
    with pytest.raises(ConfigError, match=r"x\.yaml is not yaml"):
        check_yaml(tmp_path / "x.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing but a comment",
        "a: 1",
        "base: &base {x: 1}\nother:\n  <<: *base\n  y: 2",
        "a: " + "[" * (MAX_DEPTH - 2) + "]" * (MAX_DEPTH - 2),
        "a:\n" + "- x\n" * (MAX_NODES - 3),
        "#" * (MAX_YAML_BYTES - 1),
        "a: ${oc.env:HOME}",
    ],
)
def test_ordinary_yaml_is_accepted(text: str, tmp_path: Path) -> None:
    """Ordinary files up to the limits are accepted, also with aliases."""
    check_yaml(write_tree(tmp_path, {"x.yaml": text}) / "x.yaml")


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("a: " + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1), True),
        ("a: " + "[" * MAX_DEPTH + "]" * MAX_DEPTH, False),
        ("a:\n" + "- x\n" * (MAX_NODES - 3), True),
        ("a:\n" + "- x\n" * (MAX_NODES - 2), False),
    ],
)
def test_limits_are_exact(text: str, fits: bool, tmp_path: Path) -> None:
    """A file at a limit passes, and one value or level more is refused."""
    path = write_tree(tmp_path, {"x.yaml": text}) / "x.yaml"
    if fits:
        check_yaml(path)
    else:
        with pytest.raises(ConfigError, match="10,000 values or 50 levels"):
            check_yaml(path)


@pytest.mark.parametrize(
    "path", ["conf/x.yaml", "conf/agent/x.yaml", "conf/a/b/x.yaml", "sweeps/x.yaml"]
)
def test_every_yaml_of_a_study_is_checked(path: str, tmp_path: Path) -> None:
    """All folders from which Hydra may compose are checked."""
    study = write_tree(tmp_path, {path: alias_bomb(9)})
    with pytest.raises(ConfigError, match=r"x\.yaml"):
        check_yaml_files(search_path(study))


def test_other_files_of_a_study_are_not_checked(tmp_path: Path) -> None:
    """Files outside conf/ and sweeps/ may have any size."""
    study = write_tree(
        tmp_path, {"data/x.yaml": alias_bomb(9), "x.yaml": alias_bomb(9), "conf/x.txt": "["}
    )
    check_yaml_files(search_path(study))


def test_packaged_files_stay_within_the_limits() -> None:
    """Packaged files stay within the limits, which composition checks in studies only."""
    paths = sorted((packaged_root() / "conf").rglob("*.yaml"))
    assert len(paths) > 40
    for path in paths:
        check_yaml(path)


def test_study_is_searched_before_the_package(tmp_path: Path) -> None:
    """The search path begins with the conf/ of the study."""
    study = write_tree(tmp_path, {"conf/x.yaml": "a: 1"})
    packaged = packaged_root()
    expected = [study.resolve() / "conf", packaged / "conf", study.resolve(), packaged]
    assert expected == search_path(study)


def test_an_empty_folder_is_a_study(tmp_path: Path) -> None:
    """An empty study uses the packaged files."""
    assert [packaged_root() / "conf", tmp_path.resolve(), packaged_root()] == search_path(tmp_path)


def test_no_folder_is_searched_twice() -> None:
    """A study in the checkout of rlexp has no folder twice in its search path."""
    paths = search_path(packaged_root())
    assert len(paths) == len(set(paths))


@pytest.mark.parametrize("value", ["!mine 3", "2020-13-45", "!!int abc", "="])
def test_a_value_that_cannot_be_read_is_one_line(tmp_path: Path, value: str) -> None:
    """A tag of another program and an impossible date are refused with the name of the file."""
    write_tree(tmp_path, {"conf/environment/mine.yaml": f"id: Mine-v0\nlimit: {value}\n"})
    for read in (
        lambda: environment_options(tmp_path),
        lambda: read_option("environment", "mine", tmp_path),
    ):
        with pytest.raises(ConfigError, match=r"mine.yaml is not yaml: ") as caught:
            read()
        assert "\n" not in str(caught.value)
