"""Which schema each kind of file under `runs/` has, and which ones this version of rlexp reads."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rlexp.errors import RecordError

VERSION = "schema"
"""Key of a file, or of a line, that holds the version of its schema."""
WRITER = "rlexp"
"""Key that holds the version of rlexp that wrote it."""


@dataclass(frozen=True, slots=True)
class FileSchema:
    """The schema of one kind of file.

    Attributes:
        version: What is written, and the newest that can be read.
        oldest: The oldest that can be read.
    """

    version: int
    oldest: int = 1

    def head(self) -> dict[str, Any]:
        """What a file begins with."""
        return {VERSION: self.version, WRITER: writer()}

    def check(self, plain: Any, place: object) -> int:
        """The schema of a file, or of a line of it.

        Args:
            plain: What it holds, a mapping if it is one of ours.
            place: What it is called in an error.

        Raises:
            RecordError: It cannot be read; names the version of rlexp that can.
        """
        number = plain.get(VERSION) if isinstance(plain, Mapping) else None
        if type(number) is int and self.oldest <= number <= self.version:
            return number
        if type(number) is int and number > self.version:
            raise RecordError(
                f"{place} was written by rlexp {plain.get(WRITER, 'of a later version')} in schema "
                f"{number}, and this is rlexp {writer()}, which reads schema {self.version} at most: "
                "pip install --upgrade rlexp"
            )
        raise RecordError(
            f"{place} is not of schema version {self.readable}, which this version of rlexp reads"
        )

    @property
    def readable(self) -> str:
        """The versions that can be read, in words."""
        numbers = range(self.oldest, self.version + 1)
        return " or ".join(map(str, numbers))


@cache
def writer() -> str:
    """The version of rlexp that is running."""
    return version("rlexp")


SPEC = FileSchema(2)
EXPERIMENT = FileSchema(2)
TRIALS = FileSchema(2)
SELECTION = FileSchema(1)
ADAPTIVE = FileSchema(1)
LEDGER = FileSchema(1)
MANIFEST = FileSchema(1)
JOURNAL = FileSchema(1)
PROVENANCE = FileSchema(1)
ATTEMPT = FileSchema(1)
VERDICT = FileSchema(1)
STOP = FileSchema(1)
TRACKER = FileSchema(1)
ORDER = FileSchema(1)
JOB = FileSchema(1)
REPORT = FileSchema(1)
CATALOGUE = FileSchema(2, oldest=2)

BY_NAME: Mapping[str, FileSchema] = {
    "spec.json": SPEC,
    "experiment.json": EXPERIMENT,
    "selection.json": SELECTION,
    "adaptive.json": ADAPTIVE,
    "provenance.json": PROVENANCE,
    "attempt.json": ATTEMPT,
    "verdict.json": VERDICT,
    "stop": STOP,
    "identity.json": TRACKER,
    "place.json": TRACKER,
    ".job": JOB,
}
"""The schema of a JSON document by the name of its file."""
BY_FOLDER: Mapping[str, FileSchema] = {"orders": ORDER, "jobs": JOB, "reports": REPORT}
"""The schema of a JSON document whose name tells what it is about, by the name of its folder."""
OTHER = FileSchema(1)


def schema_of(path: Path) -> FileSchema:
    """The schema of a JSON document."""
    return BY_NAME.get(path.name) or BY_FOLDER.get(path.parent.name, OTHER)
