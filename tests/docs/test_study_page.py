"""The page about study files has files that can be run, and all of their keys."""

import re
import shlex
from pathlib import Path

import pytest
from command_line import give
from quick_parts import quick_parts

from rlexp.config.study_file import KEYS

quick = pytest.fixture(autouse=True)(quick_parts)
PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "study.md").read_text()
FILES = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^(rlexp .+)$", PAGE, re.MULTILINE)
KEY = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)


def test_every_key_is_explained() -> None:
    """The table of the page has a row for each key of a study file."""
    assert sorted(KEYS) == sorted(KEY.findall(PAGE))


def test_shown_files_are_planned(tmp_path: Path) -> None:
    """The study of the page plans 15 runs, and its sweep eight trials."""
    study, sweep = FILES
    (tmp_path / "study.yaml").write_text(study)
    (tmp_path / "rates.yaml").write_text(sweep)
    assert "15 runs × 5,000" in give(tmp_path, "run", "study.yaml", "--dry-run")
    assert "8 trials by random" in give(tmp_path, "sweep", "rates.yaml", "--dry-run")


def test_shown_commands_work(tmp_path: Path) -> None:
    """The commands of the page work one after the other; trainings are only planned."""
    for command in COMMANDS:
        text, _, file = command.partition(" > ")
        words = shlex.split(text)[1:]
        if words[0] == "sweep":
            (tmp_path / words[1]).write_text(FILES[1])
        plan = ["--dry-run"] if words[0] == "run" and "--dry-run" not in words else []
        printed = give(tmp_path, *words, *plan)
        if file:
            (tmp_path / file).write_text(printed)
    written = {"study.yaml", "duel.yaml", "rates.yaml", "runs"}
    assert written == {p.name for p in tmp_path.iterdir()}


def test_a_shown_mistake_is_real(tmp_path: Path) -> None:
    """The message on the page is what a file with this mistake is refused with."""
    (message,) = re.findall(r"^`(study\.yaml, line 3: .+)`\.$", PAGE, re.MULTILINE)
    (tmp_path / "study.yaml").write_text("name: a\nseeds:\n  tset: 3\n")
    with pytest.raises(Exception, match=re.escape(message)):
        give(tmp_path, "run", "study.yaml")
