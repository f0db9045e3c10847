"""The help of the command line is fast and complete."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
from warm_processes import warm_process

from rlexp.cli import app

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
    with warm_process(("rlexp.cli",)).Popen(command, stdout=subprocess.PIPE, text=True) as process:
        output, _ = process.communicate(60.0)
    assert 0 == process.returncode
    assert f"{' '.join(words)} [" in output
