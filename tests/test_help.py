"""The command line's help: fast, and complete."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
from warm_processes import warm_process

from rlexp.cli import app

HEAVY = ("gymnasium", "hydra", "numpy", "omegaconf", "stable_baselines3", "torch", "yaml")
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
    """A command and, if it is a group, everything below it, by full name."""
    yield name, command
    for word, below in getattr(command, "commands", {}).items():
        yield from commands(below, f"{name} {word}")


COMMANDS = dict(commands(typer.main.get_command(app)))


def imported(*words: str) -> str:
    """The exit code of a command, and which heavy modules it imported."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *words], capture_output=True, text=True, check=True
    )
    return done.stderr.strip()


def test_help_imports_nothing_heavy() -> None:
    """Help appears without waiting for a framework to be imported."""
    assert "0 []" == imported("--help")


@pytest.mark.parametrize("words", [["run", "--help"], ["ls", "--help"], ["--version"]], ids=str)
def test_words_cost_what_typer_needs(words: list[str]) -> None:
    """Typer reads words with pydantic; nothing else heavy is imported for a command's help."""
    assert "0 ['pydantic']" == imported(*words)


@pytest.mark.parametrize("name", COMMANDS)
def test_command_has_help(name: str) -> None:
    """Every command says in one sentence what it does."""
    assert (COMMANDS[name].help or "").strip().endswith(".")


@pytest.mark.parametrize("name", COMMANDS)
def test_option_has_help(name: str) -> None:
    """Every option and argument says what it takes."""
    silent = [p.name for p in COMMANDS[name].params if not getattr(p, "help", None)]
    assert [] == silent


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_shown(name: str) -> None:
    """`-h` works for every command, and shows its own usage."""
    words = name.split()[1:]
    command = [sys.executable, "-m", "rlexp", *words, "-h"]
    with warm_process(("rlexp.cli",)).Popen(command, stdout=subprocess.PIPE, text=True) as process:
        shown, _ = process.communicate(60.0)
    assert 0 == process.returncode
    assert f"{' '.join(words)} [" in shown
