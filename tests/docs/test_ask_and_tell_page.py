"""The program on the page about asking and telling runs as pasted, and its commands after it."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from command_line import rlexp

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "ask-and-tell.md").read_text()


def blocks(kind: str) -> list[str]:
    """The blocks of a kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_program_and_the_commands_of_the_page_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program ends with a winner, its errors are one line, and every command shows the study."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks("python"):
        exec(compile(block, "docs/guides/ask-and-tell.md", "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"trial \d+ won", printed[0])
    assert printed[1].startswith("study mine has not asked for trial 7 with the seed 12345: ")
    (commands,) = blocks("bash own")
    for line in commands.splitlines():
        assert "mine" in rlexp(tmp_path, *shlex.split(line)[1:]).out


def test_the_example_is_about_twenty_lines() -> None:
    """The program fits on a screen."""
    program = blocks("python")[0].splitlines()
    assert sum(bool(line.strip()) for line in program) <= 22
