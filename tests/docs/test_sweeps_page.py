"""The page about sweeps has only definitions that can be started."""

import re
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from rlexp.config.parameter_entries import read_domain
from rlexp.config.sweep import compose_sweep
from rlexp.config.sweep_checks import check_sweep

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "sweeps.md").read_text()
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PARSER = OverridesParser.create()


@pytest.mark.parametrize("block", BLOCKS)
def test_shown_definition_can_be_started(tmp_path: Path, block: str) -> None:
    """A sweep can be started from each definition on the page, complete or excerpt."""
    header = "" if block.startswith("# @package _global_\n") else "# @package _global_\n"
    path = tmp_path / "sweeps" / "shown.yaml"
    path.parent.mkdir()
    path.write_text(header + block)
    check_sweep(compose_sweep("shown", [], tmp_path))


def section(title: str) -> str:
    """The part of the page below a heading."""
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


CELLS = [
    line.split("|")[1] for line in section("The space").splitlines() if line.startswith("| `")
]
FORMS = [form for cell in CELLS for form in re.findall(r"`([^`]+)`", cell)]


@pytest.mark.parametrize("form", FORMS)
def test_shown_values_are_domains(form: str) -> None:
    """Each form in the table is read as a domain."""
    value = PARSER.parse_override(f"value={form}").value()
    read_domain("shown", value if isinstance(value, list) else form, None)


def test_table_of_values_is_found() -> None:
    """The page has nine forms and five definitions for the other tests of this file."""
    assert 9 == len(FORMS)
    assert 5 == len(BLOCKS)
