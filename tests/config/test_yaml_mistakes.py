"""Mistakes in yaml name the file, the line and what was expected."""

from pathlib import Path

import pytest
import yaml
from composing import refusal
from quick_parts import quick_yaml

from rlexp.config.yaml_mistakes import describe_yaml_error

quick = pytest.fixture(autouse=True)(quick_yaml)
MISTAKES = {
    "a: b: c\n": "line 1: expected one KEY: VALUE",
    "a: 1\n b: 2\n": "line 2: expected one KEY: VALUE",
    "a:\n\t- b\n": "line 2: expected spaces, and found a tab",
    "a: [1, 2\nb: 3\n": "line 2: expected a comma or ] in a list",
    "a: {b: 1\n": "line 2: expected a comma or } in a mapping",
    "words: [agent.network=[64,64]]\n": "line 1: expected a comma or ]",
    "- a\nb: 1\n": "line 2: expected a line that begins in the same column",
    "x: 1\na: 'x\n": "line 3: expected the closing quotation mark of a text (found",
    "a: @x\n": "line 1: expected quotes around a value",
    "x: 1\na: *y\n": "line 2: found undefined alias",
}
"""Texts that are not yaml, and what is said about each."""


@pytest.mark.parametrize(("text", "message"), MISTAKES.items())
def test_a_mistake_names_its_line_and_what_was_expected(text: str, message: str) -> None:
    """The message is one line, with the line of the mistake and what was expected there."""
    with pytest.raises(yaml.YAMLError) as caught:
        yaml.compose(text, Loader=yaml.SafeLoader)
    described = describe_yaml_error(caught.value)
    assert described.startswith(message)
    assert "\n" not in described


def test_the_beginning_of_a_text_is_named() -> None:
    """What is not closed is named by the line where it begins, if that is another line."""
    with pytest.raises(yaml.YAMLError) as caught:
        yaml.compose("x: 1\na: 'x\n", Loader=yaml.SafeLoader)
    assert describe_yaml_error(caught.value).endswith("; it begins in line 2")


def test_a_character_without_a_line_is_described() -> None:
    """A character that yaml forbids is named, although PyYAML knows no line of it."""
    with pytest.raises(yaml.YAMLError) as caught:
        yaml.compose("a: \x01\n", Loader=yaml.SafeLoader)
    assert "unacceptable character" in describe_yaml_error(caught.value)


def test_the_file_is_named(tmp_path: Path) -> None:
    """A file in `conf/` that is not yaml is named with the line of the mistake."""
    path = tmp_path / "conf" / "algorithm" / "mine.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("a: 1\nb: [1\n")
    assert f"{path} is not yaml: line 3: expected a comma or ]" in refusal(tmp_path)
