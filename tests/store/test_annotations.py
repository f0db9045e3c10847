"""The file with tags and notes beside the records."""

import json
from pathlib import Path
from typing import Any

import pytest

from rlexp.errors import RecordError
from rlexp.records.annotation import Annotation, Note
from rlexp.store.annotations import change_annotation, read_annotations
from rlexp.store.layout import ExperimentPaths
from rlexp.store.schemas import ANNOTATIONS


@pytest.fixture
def paths(tmp_path: Path) -> ExperimentPaths:
    """The folder of an experiment."""
    (tmp_path / "sample").mkdir()
    return ExperimentPaths(tmp_path / "sample")


def test_tags_and_notes_are_read_back(paths: ExperimentPaths) -> None:
    """What was written is read; a run has its own annotation."""
    noted = Annotation(("paper",), (Note(5.0, "text"),))
    change_annotation(paths, "ppo-test-0", lambda _: noted)
    annotations = read_annotations(paths)
    assert (noted, Annotation()) == (annotations.of("ppo-test-0"), annotations.of(None))


@pytest.mark.parametrize(
    "annotation",
    [
        {"tags": "paper", "notes": []},
        {"tags": {"paper": 1}, "notes": []},
        {"tags": [], "notes": "x"},
        {"tags": [], "notes": [{"time": float("nan"), "text": "x"}]},
        {"tags": [], "notes": [{"time": 1e300, "text": "x"}]},
        {"tags": [], "notes": [{"time": 10**400, "text": "x"}]},
        {"tags": [], "notes": [{"time": "noon", "text": "x"}]},
    ],
)
def test_damaged_tags_and_notes_are_named(paths: ExperimentPaths, annotation: Any) -> None:
    """Values of a wrong type, and times without a date, are refused and never shown."""
    document = {**ANNOTATIONS.head(), "experiment": annotation, "runs": {}}
    paths.annotations.write_text(json.dumps(document))
    with pytest.raises(RecordError, match=r"annotations.json is damaged"):
        read_annotations(paths)
