"""The policies that the copy of an experiment in a bundle lacks.

Policies are most of the bytes of an experiment, and no number of a report depends on them. A copy
without them says which ones it lacks, with the sums that the ledger has too. A file that is absent for
another reason stays a fault.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rlexp.errors import RecordError
from rlexp.store.files import json_bytes, read_json
from rlexp.store.layout import ExperimentPaths
from rlexp.store.schemas import LEFT_OUT

POLICY_FILES = ("model.zip", "normalisation.npz")
"""The files of a run that a copy may lack."""
_SUM = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class LeftOutFile:
    """A file that a copy lacks: its number of bytes and its sha256."""

    bytes: int
    sha256: str


def left_out_bytes(files: Mapping[str, LeftOutFile]) -> bytes:
    """The content of `left_out.json` for files by `RUN/FILE`."""
    listed = {
        name: {"bytes": file.bytes, "sha256": file.sha256} for name, file in sorted(files.items())
    }
    return json_bytes({"files": listed}, LEFT_OUT)


def read_left_out(paths: ExperimentPaths) -> dict[str, LeftOutFile]:
    """The files that this copy of an experiment lacks, by `RUN/FILE`; empty for an original.

    Raises:
        RecordError: The list cannot be read, or names a file that no copy may lack.
    """
    if not paths.left_out.exists():
        return {}
    try:
        files = read_json(paths.left_out)["files"]
        return {str(name): _file(str(name), values) for name, values in files.items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(f"{paths.left_out} is not a list of files: {error!r}"[:160]) from error


def _file(name: str, values: Mapping[str, object]) -> LeftOutFile:
    size, sha256 = values["bytes"], values["sha256"]
    if name.rpartition("/")[2] not in POLICY_FILES:
        raise ValueError(f"a copy may not lack {name!r:.80}")
    if type(size) is not int or size < 0 or not _SUM.fullmatch(str(sha256)):
        raise ValueError(f"{name!r:.80} has no size and sum")
    return LeftOutFile(size, str(sha256))
