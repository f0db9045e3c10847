"""The help of the command line is fast and complete."""

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner
from warm_processes import warm_process

from rlexp.cli.application import PANELS
from rlexp.cli.every_command import app

HEAVY = (
    *("gymnasium", "hydra", "numpy", "omegaconf", "stable_baselines3", "torch", "yaml"),
    *("rlexp.engine", "rlexp.store"),
)
PROBE = f"""
import sys
from rlexp.cli import main
try:
    main()
except SystemExit as end:
    code = end.code
print(code, sorted(sys.modules.keys() & {{*{HEAVY!r}, "pydantic"}}), file=sys.stderr)
"""


def commands(command: Any, name: str = "rlexp") -> Iterator[tuple[str, Any]]:
    """A command and, for a group, all commands in it, by full name."""
    yield name, command
    for word, subcommand in getattr(command, "commands", {}).items():
        yield from commands(subcommand, f"{name} {word}")


COMMANDS = dict(commands(typer.main.get_command(app)))


def imported(*words: str) -> str:
    """The exit code of a command and the heavy modules that it imported."""
    process = subprocess.run(
        [sys.executable, "-c", PROBE, *words], capture_output=True, text=True, check=True
    )
    return process.stderr.strip()


def test_help_imports_nothing_heavy() -> None:
    """Help is printed without importing a framework, the engine or the store."""
    assert "0 []" == imported("--help")


@pytest.mark.parametrize("words", [["run", "--help"], ["ls", "--help"], ["--version"]], ids=str)
def test_help_of_a_command_imports_only_what_typer_needs(words: list[str]) -> None:
    """Typer parses arguments with pydantic; nothing else heavy is imported."""
    assert "0 ['pydantic']" == imported(*words)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    """Every command has a one-sentence description."""
    assert (COMMANDS[name].help or "").strip().endswith(".")


def test_every_command_is_in_one_panel() -> None:
    """The help names each command in exactly one panel."""
    named = [name for names in PANELS.values() for name in names]
    assert sorted(typer.main.get_command(app).commands) == sorted(named)  # type: ignore[attr-defined]


def test_the_help_cuts_no_description(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 80 columns, each command has its whole first sentence on one line."""
    monkeypatch.setenv("COLUMNS", "80")
    text = CliRunner().invoke(app, ["--help"]).stdout
    panels = text[text.index("Train:") :]
    assert [] == [line for line in panels.splitlines() if len(line) > 80]
    for name in (name for names in PANELS.values() for name in names):
        sentence = " ".join((COMMANDS[f"rlexp {name}"].help or "").split("\n\n")[0].split())
        assert re.search(rf"^  {name} +{re.escape(sentence)}$", panels, re.MULTILINE)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_help(name: str) -> None:
    """Every option and argument has a description."""
    undescribed = [p.name for p in COMMANDS[name].params if not getattr(p, "help", None)]
    assert [] == undescribed


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_shown(name: str) -> None:
    """`-h` works for every command and prints its usage."""
    words = name.split()[1:]
    command = [sys.executable, "-m", "rlexp", *words, "-h"]
    with warm_process(("rlexp.cli.every_command",)).Popen(
        command, stdout=subprocess.PIPE, text=True
    ) as process:
        output, _ = process.communicate(60.0)
    assert 0 == process.returncode
    assert f"{' '.join(words)} [" in output


@pytest.mark.parametrize("name", COMMANDS)
def test_help_names_values_in_plain_words(name: str) -> None:
    """No help has a type of Python (`<float>`) or a comparison (`x>=1`) in place of words."""
    text = CliRunner().invoke(app, [*name.split()[1:], "--help"]).stdout
    assert [] == re.findall(r"<(?:str|int|float|bool|list|path|file)\b[^>]*>|\bx<?>?=|<=x", text)
