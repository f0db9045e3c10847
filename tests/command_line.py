"""The command line in the process of a test: what it prints, and its exit code."""

import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from rlexp.cli import app


@dataclass(frozen=True, slots=True)
class Printed:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    def document(self, schema: str) -> dict[str, Any]:
        """The one JSON document on standard output, which has to be of this schema."""
        value: dict[str, Any] = json.loads(self.out, parse_constant=_refuse)
        assert value.pop("schema") == {"name": schema, "version": 1}
        return value


def _refuse(constant: str) -> None:
    raise ValueError(f"JSON has no number {constant}")


def rlexp(folder: Path, *words: str) -> Printed:
    """Give a command in a folder.

    Raises:
        RlexpError: What the command line prints on one line.
    """
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(folder)
        patch.delenv("RLEXP_RUNS", raising=False)
        code = app(words, standalone_mode=False)
    return Printed(code or 0, out.getvalue(), err.getvalue())
