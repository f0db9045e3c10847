"""Definitions as people leave them lying about: half written, misnamed, with a slip of the pen."""

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
    "In 'sweeps/bad': algorithm cannot be overridden: begin the file with the line "
    "'# @package _global_', and write '- override /algorithm: OPTION', with the slash"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study with one good definition."""
    return write_tree(tmp_path, {"sweeps/mine.yaml": DEFINITION})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("defaults:\n  - override /algorithm: ppo\n", BEGIN),
        (f"{HEAD}defaults:\n  - override algorithm: ppo\n", BEGIN),
        (
            f"{HEAD}defaults:\n  - override /algoritm: ppo\n",
            "In 'sweeps/bad': there is no group 'algoritm'; did you mean 'algorithm'?",
        ),
        (f"{HEAD}sweep: {{trials: 3\n", "bad.yaml is not yaml: while parsing a flow mapping"),
        (f"{HEAD}defaults: [space: broken]\n", "while parsing a flow mapping"),
    ],
)
def test_slip_in_a_definition_is_said_in_a_line(folder: Path, text: str, told: str) -> None:
    """What no word of the command can mend is said of the file."""
    write_tree(folder, {"sweeps/bad.yaml": text, "sweeps/space/broken.yaml": "a: {b: 1\n"})
    assert told in refusal(folder, "bad")


def test_definition_that_is_no_text_is_named(folder: Path) -> None:
    """A file of bytes is refused by its name."""
    (folder / "sweeps" / "bytes.yaml").write_bytes(b"\xff\xfe")
    assert "bytes.yaml is not yaml" in refusal(folder, "bytes")


def test_sketch_of_another_sweep_is_nobodys_trouble(folder: Path) -> None:
    """A half-written definition stops neither other sweeps nor runs."""
    expected = compose_sweep("mine", [], folder)
    write_tree(folder, {"sweeps/sketch.yaml": "a: {b: 1\n", "sweeps/space/sketch.yaml": "a: ["})
    assert expected.space == compose_sweep("mine", [], folder).space
    assert 1 == len(compose(["algorithm=ppo"], folder))


@pytest.mark.parametrize("name", ["mit leer", "\N{LATIN SMALL LETTER U WITH DIAERESIS}ml"])
def test_name_that_no_word_can_hold_is_refused(folder: Path, name: str) -> None:
    """It says what to rename, and to what."""
    write_tree(folder, {f"sweeps/{name}.yaml": DEFINITION})
    assert f"sweeps/{name}.yaml: rename it" in refusal(folder, name)


@pytest.mark.parametrize("word", ["sweep.space=null", "sweep.space={}", "sweep.space="])
def test_whole_space_is_not_taken_out(folder: Path, word: str) -> None:
    """A word that would change nothing is refused, not passed over."""
    told = f"{word}: take parameters out one by one: sweep.space.KEY=null"
    assert told == refusal(folder, "mine", word)


@pytest.mark.parametrize(
    "word", ["sweep.space.algorithm.gama=null", "~sweep.space.algorithm.gama"]
)
def test_parameter_that_is_not_there_is_not_taken_out(folder: Path, word: str) -> None:
    """A slip in the key would leave the parameter in the space."""
    told = "sweep.space.algorithm.gama=null takes out a parameter that the space does not have"
    assert f"{told}; did you mean 'algorithm.gamma'?" in refusal(folder, "mine", word)


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("range(0, 10_000_000)", "write interval(0, 1e+07)"),
        ("range(0, 1, 0.00001)", "write interval(0, 1)"),
    ],
)
def test_range_of_millions_is_an_interval(folder: Path, word: str, told: str) -> None:
    """Each value of a range is read and built, so there may be a thousand of them."""
    assert f"more than 1,000 values: {told}" in refusal(folder, "mine", f"algorithm.gamma={word}")


def test_tuner_without_settings_says_so() -> None:
    """Settings of one tuner are not those of another."""
    plain = {"_target_": "rlexp.tuners.random.RandomSearch", "startup": 3}
    with pytest.raises(ConfigError, match=r"unknown key 'tuner.startup' \(there are: none\)"):
        build(plain, "tuner")
