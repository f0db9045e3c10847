"""Runs commands in the process of a test; returns their output and exit code."""

import json
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from rlexp.cli import main
from rlexp.cli.every_command import app


@dataclass(frozen=True, slots=True)
class Printed:
    """The output of a command and its exit code."""

    code: int
    out: str
    err: str

    @property
    def content(self) -> Any:
        """The only JSON document on standard output."""
        assert self.out, self.err
        return json.loads(self.out, parse_constant=_refuse)

    def document(self, schema: str) -> dict[str, Any]:
        """The fields of the document on standard output, which must have this schema."""
        value: dict[str, Any] = self.content
        assert "schema" == next(iter(value))
        assert {"name": schema, "version": 1} == value.pop("schema")
        return value


def _refuse(constant: str) -> None:
    raise ValueError(f"JSON has no number {constant}")


def rlexp(folder: Path, *words: str) -> Printed:
    """Run a command in a folder whose runs are under `runs/`.

    Raises:
        RlexpError: The error that the command line prints on one line.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RLEXP_RUNS", raising=False)
        return _printed(folder, words, lambda: app(words, standalone_mode=False))


def typed(folder: Path, *words: str) -> Printed:
    """Run a command in a folder as a user types it; an error is printed and not raised."""
    return _printed(folder, words, main)


def give(folder: Path, *words: str, code: int = 0) -> str:
    """Run a command that must end with this code; returns its standard output."""
    printed = rlexp(folder, *words)
    assert code == printed.code, printed.out + printed.err
    return printed.out


def give_json(folder: Path, schema: str, *words: str, code: int = 0) -> dict[str, Any]:
    """The fields of the only document that a command prints with `--json`."""
    printed = rlexp(folder, *words, "--json")
    assert code == printed.code, printed.out + printed.err
    return printed.document(schema)


def _printed(folder: Path, words: tuple[str, ...], command: Callable[[], Any]) -> Printed:
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["rlexp", *words])
        try:
            code = command()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return Printed(code or 0, out.getvalue(), err.getvalue())
