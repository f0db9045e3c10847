"""What a probe notes down, in files that outlive its process."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from traceback import extract_tb

from rlexp.app.diagnostics.finding import Finding, fail
from rlexp.app.execution.compatibility import Spaces
from rlexp.errors import ConfigError

WIDTH = 200
"""Characters of what is being done now."""


class Broken(Exception):  # noqa: N818
    """The environment cannot be probed any further."""

    def __init__(self, check: str, detail: str, fix: str = "") -> None:
        super().__init__(detail)
        self.finding = fail(check, detail, fix)


class Notes:
    """What is found, and what is being done now."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._now = os.open(folder / "now", os.O_RDWR | os.O_CREAT)

    @contextmanager
    def during(self, check: str, what: str) -> Iterator[None]:
        """Do something that may fail, crash or hang.

        Raises:
            Broken: It raised an error; names it, and the line that raised it.
        """
        self.doing(what)
        try:
            yield
        except (Broken, ConfigError):
            raise
        except (Exception, SystemExit) as error:
            told = f"{type(error).__name__}: {error}{_place(error)}"
            raise Broken(check, f"{what} raises {told}") from error

    def doing(self, what: str) -> None:
        """Say what comes next; if it never ends, this is where."""
        os.pwrite(self._now, what.encode()[:WIDTH].ljust(WIDTH), 0)

    def found(self, finding: Finding) -> None:
        """Keep a finding."""
        with (self._folder / "findings.jsonl").open("a") as file:
            file.write(json.dumps(asdict(finding)) + "\n")

    def spaces(self, spaces: Spaces) -> None:
        """Keep what algorithms have to fit."""
        (self._folder / "spaces.json").write_text(json.dumps(asdict(spaces)))

    def done(self) -> None:
        """Say that the end was reached."""
        (self._folder / "done").touch()


def _place(error: BaseException) -> str:
    """The line of code that raised."""
    frames = extract_tb(error.__traceback__)
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
