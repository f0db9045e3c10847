"""The design page has every folder, and the paths and names on the page exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "design.md").read_text()
CODE = re.compile(r"`([^`]+)`")
LEAST_FILES = 2
"""Python files that a folder has at least if it needs a row."""
INNER = (
    "rlexp/app/commands/",
    "rlexp/cli/",
    "rlexp/executors/",
    "rlexp/exchange/",
    "rlexp/stats/",
    "rlexp/components/",
)
"""Folders whose row also covers the folders inside."""


def rows(heading: str) -> list[list[str]]:
    """The cells of each row of the first table below a heading."""
    table = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


HOUSE = rows("The house on one screen")
CHANGES = rows("To change something, go there")


def paths(text: str) -> list[str]:
    """The paths in the code spans of a text."""
    return [word for word in CODE.findall(text) if "/" in word and not word.startswith("rlexp ")]


def test_every_folder_has_a_row() -> None:
    """Each folder of at least two modules has a row, or its parent folder covers it."""
    shown = {CODE.findall(folder)[0] for folder, *_ in HOUSE}
    folders = {
        str(init.parent.relative_to(ROOT))
        for init in (ROOT / "rlexp").rglob("__init__.py")
        if len(list(init.parent.glob("*.py"))) >= LEAST_FILES
    }
    missing = {f for f in folders - shown if not f.startswith(INNER) and f != "rlexp"}
    assert set() == missing - {"rlexp/app"}


@pytest.mark.parametrize("row", HOUSE, ids=lambda row: row[0].strip("`"))
def test_a_folder_has_an_entry(row: list[str]) -> None:
    """The first module of a row exists and defines the name beside it."""
    path, name = CODE.findall(row[2])
    assert re.search(rf"^(def|class) {name}\b", (ROOT / path).read_text(), re.MULTILINE)


@pytest.mark.parametrize("row", CHANGES, ids=lambda row: row[0])
def test_a_change_is_made_within_three_files(row: list[str]) -> None:
    """Each change has at most three places, and they exist."""
    listed_paths = paths(row[1])
    assert len(listed_paths) <= 3
    assert [] == [path for path in listed_paths if not (ROOT / path).exists()]


def test_twenty_changes_are_described() -> None:
    """The page describes at least twenty changes."""
    assert len(CHANGES) >= 20
