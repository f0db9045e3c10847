"""Transitions that members of a population share, on disk."""

import io
import json
import zipfile
from pathlib import Path

import pytest

from rlexp.errors import RecordError
from rlexp.records.checkpoint import MODEL, STATE, Checkpoint, Transitions
from rlexp.store.checkpoints.checkpoint_files import clear_replay, publish_checkpoint
from rlexp.store.checkpoints.inheritance import KeptCopy, find_copy
from rlexp.store.checkpoints.shared_experience import (
    FOREIGN_END,
    copy_experience,
    find_experience,
    keep_experience,
    read_experience,
)
from rlexp.store.layout import ExperimentPaths


def model(foreign_end: int) -> bytes:
    """A saved learner whose rows before this one came from others."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("data", json.dumps({FOREIGN_END: foreign_end} if foreign_end else {}))
    return content.getvalue()


def copy_of(experiment: ExperimentPaths, letter: str, foreign_end: int = 0) -> KeptCopy:
    """A run with two files of 50 rows each, and the copy that it keeps."""
    run, run_id = experiment.run(f"dqn-tuning-0-{letter * 10}"), letter * 64
    for begin in (0, 50):
        rows = Transitions(begin, begin + 50, f"{letter}{begin}".encode())
        files = {MODEL: model(foreign_end), STATE: b"state"}
        checkpoint = Checkpoint(step=begin + 50, files=files, digest="d" * 64, transitions=rows)
        publish_checkpoint(run, checkpoint, {"run": run_id, "attempt": 1})
    copy = find_copy(run, run_id)
    assert copy is not None
    return copy


@pytest.fixture
def experiment(tmp_path: Path) -> ExperimentPaths:
    """An experiment of a workspace."""
    return ExperimentPaths(tmp_path / "runs" / "population")


def rows(experiment: ExperimentPaths, digest: str) -> list[tuple[int, int, bytes]]:
    """The rows of each file, and its content."""
    return [(t.begin, t.end, t.content) for t in read_experience(experiment, digest)]


def test_the_own_transitions_of_each_run_are_shared(experiment: ExperimentPaths) -> None:
    """Rows that a run received itself are left out; all others keep their order."""
    copies = [copy_of(experiment, "a"), copy_of(experiment, "b", foreign_end=60)]
    digest = keep_experience(experiment, copies)
    expected = [(0, 50, b"a0"), (0, 50, b"a50"), (10, 50, b"b50")]
    assert expected == rows(experiment, digest)
    # They stay when the runs' own buffers are removed, and another order is another digest.
    for copy in copies:
        clear_replay(copy.run)
    assert expected == rows(experiment, digest)
    assert keep_experience(experiment, copies) == digest


def test_another_experiment_of_the_workspace_finds_them(experiment: ExperimentPaths) -> None:
    """A run that trains with the schedule under another name reads the transitions of the sweep."""
    digest = keep_experience(experiment, [copy_of(experiment, "a")])
    other = ExperimentPaths(experiment.folder.parent / "again")
    assert 2 == len(rows(other, digest))
    for wrong in ("0" * 64, "../runs", None):
        with pytest.raises(RecordError, match=r"no experiment of this workspace|no digest"):
            find_experience(other, wrong)  # type: ignore[arg-type]


def test_a_copy_holds_the_same_transitions(experiment: ExperimentPaths, tmp_path: Path) -> None:
    """An experiment of another workspace, such as that of a repeated run, gets them once."""
    digest = keep_experience(experiment, [copy_of(experiment, "a")])
    other = ExperimentPaths(tmp_path / "elsewhere" / "runs" / "again")
    for _ in range(2):
        copy_experience(experiment, other, digest)
    assert rows(experiment, digest) == rows(other, digest)


def test_what_a_killed_command_left_is_completed(experiment: ExperimentPaths) -> None:
    """A half-written folder counts for nothing, and disappears with the next attempt."""
    copies = [copy_of(experiment, "a")]
    digest = keep_experience(experiment, copies)
    folder = experiment.experience / digest
    stale = experiment.experience / f".01234567.{digest}"
    folder.rename(stale)
    assert digest == keep_experience(experiment, copies)
    assert [folder] == list(experiment.experience.iterdir())


def test_changed_transitions_are_refused(experiment: ExperimentPaths) -> None:
    """A changed file, a changed list of runs, and a run without its buffer are one line each."""
    copies = [copy_of(experiment, "a")]
    digest = keep_experience(experiment, copies)
    folder = experiment.experience / digest
    empty = experiment.run("dqn-tuning-0-cccccccccc")
    bare = Checkpoint(step=5, files={MODEL: model(0), STATE: b""}, digest="d" * 64)
    publish_checkpoint(empty, bare, {"run": "c" * 64, "attempt": 1})
    found = find_copy(empty, "c" * 64)
    assert found is not None
    with pytest.raises(RecordError, match="keeps no replay buffer"):
        keep_experience(experiment, [found])
    document = json.loads((folder / "sources.json").read_text())
    document["sources"][0]["begin"] = 7
    (folder / "sources.json").write_text(json.dumps(document))
    with pytest.raises(RecordError, match="does not hold the transitions that its name says"):
        rows(experiment, digest)
    document["sources"][0]["begin"] = 0
    (folder / "sources.json").write_text(json.dumps(document))
    (folder / "0-0-50.npz").unlink()
    (folder / "0-0-50.npz").write_bytes(b"xx")
    with pytest.raises(RecordError, match="is damaged"):
        rows(experiment, digest)
