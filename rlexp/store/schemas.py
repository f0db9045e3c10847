"""Schema versions of the files under `runs/`: written by this version of rlexp, and readable."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rlexp.errors import RecordError

VERSION = "schema"
"""Key of a document, or of a line, that holds its schema version."""
WRITER = "rlexp"
"""Key that holds the version of rlexp that wrote the file."""


@dataclass(frozen=True, slots=True)
class FileSchema:
    """The schema of one kind of file.

    Attributes:
        version: The version that is written, and the newest that can be read.
        oldest: The oldest version that can be read.
    """

    version: int
    oldest: int = 1

    def head(self) -> dict[str, Any]:
        """The keys that every file begins with."""
        return {VERSION: self.version, WRITER: writer()}

    def check(self, document: Any, source: object) -> int:
        """The schema version of a document, or of a line.

        Args:
            document: The parsed JSON; any other value than a mapping is refused.
            source: Name of the file, for the error.

        Raises:
            RecordError: This version of rlexp cannot read the schema; names one that can.
        """
        number = document.get(VERSION) if isinstance(document, Mapping) else None
        # `type` and not `isinstance`: a JSON `true` is an `int` for Python.
        if type(number) is int and self.oldest <= number <= self.version:
            return number
        if type(number) is int and number > self.version:
            author = document.get(WRITER, "of a later version")
            raise RecordError(
                f"{source} was written by rlexp {author} in schema {number}, and this is rlexp "
                f"{writer()}, which reads schema {self.version} at most: "
                "pip install --upgrade rlexp"
            )
        raise RecordError(
            f"{source} is not of schema version {self.readable}, which this version of rlexp reads"
        )

    @property
    def readable(self) -> str:
        """The versions that can be read, as text."""
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
ABLATION = FileSchema(1)
ANNOTATIONS = FileSchema(1)
NAMES = FileSchema(1)
LEDGER = FileSchema(1)
LOOKS = FileSchema(1)
CANDIDATES = FileSchema(1)
SCORING = FileSchema(1)
PROTOCOLS = FileSchema(1)
MANIFEST = FileSchema(1)
JOURNAL = FileSchema(1)
PROVENANCE = FileSchema(1)
EXPERIENCE = FileSchema(1)
GATE = FileSchema(1)
ATTEMPT = FileSchema(1)
VERDICT = FileSchema(1)
STOP = FileSchema(1)
TRACKER = FileSchema(1)
ORDER = FileSchema(1)
JOB = FileSchema(1)
REPORT = FileSchema(1)
CATALOGUE = FileSchema(2, oldest=2)
BUNDLE = FileSchema(1)
LEFT_OUT = FileSchema(1)

BY_NAME: Mapping[str, FileSchema] = {
    "spec.json": SPEC,
    "experiment.json": EXPERIMENT,
    "selection.json": SELECTION,
    "adaptive.json": ADAPTIVE,
    "ablation.json": ABLATION,
    "annotations.json": ANNOTATIONS,
    "names.json": NAMES,
    "gate.json": GATE,
    "scoring.json": SCORING,
    "provenance.json": PROVENANCE,
    "sources.json": EXPERIENCE,
    "bundle.json": BUNDLE,
    "left_out.json": LEFT_OUT,
    "attempt.json": ATTEMPT,
    "verdict.json": VERDICT,
    "stop": STOP,
    "identity.json": TRACKER,
    "place.json": TRACKER,
    ".job": JOB,
}
"""The schema of a document by the name of its file."""
BY_FOLDER: Mapping[str, FileSchema] = {"orders": ORDER, "jobs": JOB, "reports": REPORT}
"""The schema of a document with a variable name, by the name of its folder."""
OTHER = FileSchema(1)


def schema_of(path: Path) -> FileSchema:
    """The schema of the document at a path."""
    return BY_NAME.get(path.name) or BY_FOLDER.get(path.parent.name, OTHER)
