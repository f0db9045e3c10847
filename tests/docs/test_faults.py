"""The pages about faults and security name only existing tests, and every fault has a row."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FAULTS = (ROOT / "docs" / "concepts" / "faults.md").read_text()
SECURITY = (ROOT / "docs" / "concepts" / "security.md").read_text()
ROWS = re.findall(r"^\| (\d+)(?:–(\d+))? \|(.+)\|$", FAULTS, re.MULTILINE)
NAMED = sorted(set(re.findall(r"`(test_\w+\.py)::(test_\w+)`", FAULTS + SECURITY)))


def functions(path: Path) -> set[str]:
    """The test functions of a module."""
    tree = ast.parse(path.read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("file", sorted({file for file, _ in NAMED}))
def test_named_tests_exist(file: str) -> None:
    """Each test that the pages name exists."""
    (path,) = (ROOT / "tests").rglob(file)
    assert set() == {test for other, test in NAMED if other == file} - functions(path)


def test_every_fault_has_a_row_and_a_test() -> None:
    """The faults 1 to 49 each have a row with a test."""
    covered = {}
    for first, last, cells in ROWS:
        for number in range(int(first), int(last or first) + 1):
            covered[number] = "::test_" in cells
    assert dict.fromkeys(range(1, 50), True) == covered
