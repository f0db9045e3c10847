"""Commands as the command line takes them, in this process: what they print, and how they end."""

import json
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from rlexp.cli import app


def invoke(folder: Path, words: Sequence[str], code: int = 0) -> Result:
    """Give a command in a folder, which must end with this code.

    Raises:
        RlexpError: The command was refused.
    """
    with chdir(folder):
        result = CliRunner().invoke(app, list(words), env={"RLEXP_RUNS": None})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert code == result.exit_code, result.output
    return result


def give(folder: Path, *words: str, code: int = 0) -> str:
    """What a command prints to standard output."""
    return invoke(folder, words, code).stdout


def give_json(folder: Path, schema: str, *words: str, code: int = 0) -> dict[str, Any]:
    """The fields of the document that a command prints with `--json`, and nothing else."""
    document: dict[str, Any] = json.loads(give(folder, *words, "--json", code=code))
    assert "schema" == next(iter(document))
    assert {"name": schema, "version": 1} == document.pop("schema")
    return document
