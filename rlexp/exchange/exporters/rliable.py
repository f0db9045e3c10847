"""Export for rliable: an array of scores (runs × tasks) for each label."""

import json
import re
from collections.abc import Mapping, Sequence
from io import BytesIO
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from rlexp.errors import ConfigError
from rlexp.exchange.exporters.exported_runs import CommonSeedRuns

Scores = Mapping[str, NDArray[np.float64]]
"""Arrays of scores by label, each of shape (runs, tasks)."""
_MEMBER = re.compile(r"[\w.+=,@ ()-]{1,100}")


def score_dictionary(rectangle: CommonSeedRuns) -> Scores:
    """The scores of every label, of shape (runs, tasks), in units of the return."""
    return {
        label: np.asarray(
            [
                [rectangle.runs[label, task, seed].score for task in rectangle.tasks]
                for seed in rectangle.seeds[label]
            ],
            dtype=np.float64,
        )
        for label in rectangle.labels
    }


def as_json(scores: Scores) -> bytes:
    """A JSON object of lists by label."""
    lists = {label: array.tolist() for label, array in scores.items()}
    return (json.dumps(lists, indent=1, allow_nan=False) + "\n").encode()


def as_npz(scores: Scores) -> bytes:
    """An npz archive of arrays named by label, which `numpy.load` reads without pickle.

    Raises:
        ConfigError: A label cannot be the name of a file in an archive.
    """
    content = BytesIO()
    with ZipFile(content, "w", ZIP_STORED) as archive:
        for label, array in scores.items():
            _check_member(label)
            # `ZipInfo` without a date keeps the bytes of the archive reproducible.
            with archive.open(ZipInfo(f"{label}.npy"), "w") as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    return content.getvalue()


def _check_member(label: str) -> None:
    parts = label.split("/")
    if not all(_MEMBER.fullmatch(part) and part.strip(". ") for part in parts):
        raise ConfigError(
            f"label {label!r} cannot name an array in an .npz archive: use --output NAME.json"
        )


def loading_line(name: str) -> str:
    """A line of Python that loads the exported file."""
    if name.endswith(".npz"):
        return f"scores = dict(numpy.load({name!r}))"
    read = f"json.loads(pathlib.Path({name!r}).read_text())"
    return f"scores = {{k: numpy.array(v) for k, v in {read}.items()}}"


def loading_imports(name: str) -> Sequence[str]:
    """The modules that this line needs."""
    return ("numpy",) if name.endswith(".npz") else ("json", "numpy", "pathlib")
