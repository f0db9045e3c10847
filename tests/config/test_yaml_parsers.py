"""Packaged files mean the same to PyYAML's compiled parser as to its parser in Python."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf

from rlexp.config.config_files import is_packaged, packaged_entry, packaged_root
from rlexp.config.word_search import file_settings
from rlexp.config.yaml_parsers import packaged_configuration, parsed

ROOTS = (packaged_root() / "conf", packaged_root() / "sweeps", packaged_entry())
FILES = [path for root in ROOTS for path in sorted(root.rglob("*.yaml"))]
WITHOUT = pytest.mark.skipif(not yaml.__with_libyaml__, reason="PyYAML without libyaml")


def test_all_packaged_files_are_found() -> None:
    """Every packaged file counts as packaged, and a file of a study does not."""
    assert len(FILES) > 100
    assert all(map(is_packaged, FILES))
    assert not is_packaged(Path("study/conf/algorithm/ppo.yaml").absolute())


@WITHOUT
def test_values_are_equal() -> None:
    """Each value of each packaged file is the same, of the same type, in the same order."""
    for path in FILES:
        text = path.read_text()
        slow = yaml.load(text, Loader=yaml.SafeLoader)
        assert repr(slow) == repr(yaml.load(text, Loader=yaml.CSafeLoader)), path
        if isinstance(slow, dict):
            expected = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
            found = OmegaConf.to_container(packaged_configuration(text), resolve=False)
            assert repr(expected) == repr(found), path


@WITHOUT
def test_comments_beside_settings_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both parsers find the same settings, with the comments beside them."""

    def settings() -> list[Any]:
        return [entry for path in FILES for entry in file_settings(path, "", ())]

    compiled = settings()
    monkeypatch.setattr(yaml, "__with_libyaml__", False)
    assert len(compiled) > 500
    assert settings() == compiled


def test_numbers_are_those_of_hydra() -> None:
    """1e5 is a number, and a date is a text, as in the files of a study."""
    text = "steps: 1e5\nday: 2026-01-31\nrate: .5\n"
    assert OmegaConf.create(text) == packaged_configuration(text)
    assert 1e5 == packaged_configuration(text)["steps"]


@pytest.mark.parametrize("text", ["a: 1\na: 2\n", "a: [1", "a: b: c\n", "- 1\n", "", "a: !!x 1\n"])
def test_what_is_no_mapping_is_left_to_the_other_parser(text: str) -> None:
    """A repeated key, a mistake or a list is read again in Python, which says what is wrong."""
    assert packaged_configuration(text) is None


def test_a_mistake_is_described_by_the_parser_in_python() -> None:
    """The error of a packaged file is the one that a file of a study gets."""
    with pytest.raises(yaml.YAMLError) as expected:
        yaml.safe_load("a: b: c\n")
    with pytest.raises(yaml.YAMLError) as found:
        parsed(lambda loader: yaml.load("a: b: c\n", Loader=loader), packaged=True)
    assert str(expected.value) == str(found.value)


def test_without_the_compiled_parser_the_other_one_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where PyYAML has no compiled parser, packaged files are read in Python."""
    monkeypatch.setattr(yaml, "__with_libyaml__", False)
    assert yaml.SafeLoader is parsed(lambda loader: loader, packaged=True)
    assert packaged_configuration("a: 1\n") is None
