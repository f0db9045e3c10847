"""Sweep definition files with mistakes: wrong first lines, invalid yaml, unusable names."""

from pathlib import Path

import pytest
from quick_parts import quick_parts
from samples import write_tree
from sweeping import DEFINITION, refusal

from rlexp.config.compose import compose
from rlexp.config.sweep import compose_sweep
from rlexp.config.validate import build
from rlexp.errors import ConfigError

quick = pytest.fixture(autouse=True)(quick_parts)

HEAD = "# @package _global_\n"
BEGIN = (
    "In 'sweeps/bad': this file cannot override the group algorithm: begin the file with the line "
    "'# @package _global_' and write '- override /algorithm: OPTION', with the slash"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study with one good definition."""
    return write_tree(tmp_path, {"sweeps/mine.yaml": DEFINITION})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("defaults:\n  - override /algorithm: ppo\n", BEGIN),
        (f"{HEAD}defaults:\n  - override algorithm: ppo\n", BEGIN),
        (
            f"{HEAD}defaults:\n  - override /algoritm: ppo\n",
            "In 'sweeps/bad': there is no group 'algoritm'; did you mean 'algorithm'?",
        ),
        (
            f"{HEAD}sweep: {{trials: 3\n",
            "bad.yaml is not yaml: line 3: expected a comma or } in a mapping",
        ),
        (
            f"{HEAD}defaults: [space: broken]\n",
            "broken.yaml is not yaml: line 2: expected a comma or }",
        ),
    ],
)
def test_mistake_in_a_definition_is_reported_in_one_line(
    folder: Path, text: str, message: str
) -> None:
    """The error for a mistake in a definition names the file that the user must edit."""
    write_tree(folder, {"sweeps/bad.yaml": text, "sweeps/space/broken.yaml": "a: {b: 1\n"})
    assert message in refusal(folder, "bad")


def test_binary_definition_is_refused(folder: Path) -> None:
    """A binary file is refused as a definition, by an error that names it."""
    (folder / "sweeps" / "bytes.yaml").write_bytes(b"\xff\xfe")
    assert "bytes.yaml is not yaml" in refusal(folder, "bytes")


def test_unfinished_definition_stops_no_other_command(folder: Path) -> None:
    """An unfinished definition does not stop other sweeps and runs."""
    expected = compose_sweep("mine", [], folder)
    write_tree(folder, {"sweeps/sketch.yaml": "a: {b: 1\n", "sweeps/space/sketch.yaml": "a: ["})
    assert expected.space == compose_sweep("mine", [], folder).space
    assert 1 == len(compose(["algorithm=ppo"], folder))


@pytest.mark.parametrize("name", ["mit leer", "\N{LATIN SMALL LETTER U WITH DIAERESIS}ml"])
def test_unusable_file_name_is_refused(folder: Path, name: str) -> None:
    """The error for a file name that cannot be used asks the user to rename the file."""
    write_tree(folder, {f"sweeps/{name}.yaml": DEFINITION})
    assert f"sweeps/{name}.yaml: rename the file" in refusal(folder, name)


@pytest.mark.parametrize("word", ["sweep.space=null", "sweep.space={}", "sweep.space="])
def test_whole_space_cannot_be_removed(folder: Path, word: str) -> None:
    """An override that would remove the whole space is refused."""
    message = f"{word}: parameters must be removed one by one: write sweep.space.KEY=null"
    assert message == refusal(folder, "mine", word)


@pytest.mark.parametrize(
    "word", ["sweep.space.algorithm.gama=null", "~sweep.space.algorithm.gama"]
)
def test_unknown_parameter_cannot_be_removed(folder: Path, word: str) -> None:
    """A misspelt key is refused, because the parameter would stay in the space."""
    message = "sweep.space.algorithm.gama=null removes a parameter that the space does not have"
    assert f"{message}; did you mean 'algorithm.gamma'?" in refusal(folder, "mine", word)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("range(0, 10_000_000)", "write interval(0, 1e+07)"),
        ("range(0, 1, 0.00001)", "write interval(0, 1)"),
    ],
)
def test_range_with_too_many_values_is_refused(folder: Path, word: str, message: str) -> None:
    """A range of more than a thousand values is refused, because each value is built."""
    assert f"more than 1,000 values: {message}" in refusal(
        folder, "mine", f"algorithm.gamma={word}"
    )


def test_tuner_without_settings_refuses_settings() -> None:
    """A setting of another tuner is an unknown key."""
    settings = {"_target_": "rlexp.tuners.random.RandomSearch", "startup": 3}
    with pytest.raises(ConfigError, match=r"unknown key 'tuner.startup' \(there are: none\)"):
        build(settings, "tuner")
