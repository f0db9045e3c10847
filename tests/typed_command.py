"""The command line in this process: its exit code, and what it writes to both streams."""

import io
import json
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rlexp.cli import main


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Standard output as the JSON document that it must be."""
        assert self.out, self.err
        return json.loads(self.out)


def rlexp(folder: Path, *words: str) -> Ended:
    """Type a command in a folder."""
    out, err = io.StringIO(), io.StringIO()
    with (
        chdir(folder),
        patch.object(sys, "argv", ["rlexp", *words]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return Ended(code, out.getvalue(), err.getvalue())
