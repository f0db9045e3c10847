"""Experience on disk is written once, kept while it is needed, and never replaced or lost."""

from dataclasses import replace
from pathlib import Path

import pytest
from checkpoint_samples import (
    ABOUT,
    CAPACITY,
    SPACING,
    checkpoint,
    needed,
    publish_up_to,
    read_whole,
    usable,
)

from rlexp.errors import RecordError
from rlexp.records.checkpoint import Transitions
from rlexp.store.checkpoints.checkpoint_files import (
    publish_checkpoint,
    read_checkpoint,
)
from rlexp.store.layout import RunPaths


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    """A run in a folder with an odd name."""
    folder = tmp_path / "a'; echo foo ü [b]"
    folder.mkdir()
    return RunPaths(folder)


def chunks_of(paths: RunPaths) -> set[str]:
    """The names in the replay folder."""
    return {path.name for path in paths.replay.iterdir()}


def test_kept_checkpoints_have_all_experience_at_every_step(paths: RunPaths) -> None:
    """After each checkpoint, both kept ones are complete and no unneeded chunk exists."""
    for step in range(SPACING, 4 * CAPACITY, SPACING):
        publish_checkpoint(paths, checkpoint(step), ABOUT)
        kept_steps = [kept_step for kept_step in (step, step - SPACING) if kept_step]
        assert kept_steps == usable(paths)
        assert chunks_of(paths) == {
            f"{t.begin}-{t.end}.npz" for kept_step in kept_steps for t in needed(kept_step)
        }


def test_experience_is_written_once(paths: RunPaths) -> None:
    """Each checkpoint adds its own transitions only."""
    publish_up_to(paths, 300)
    before = {name: (paths.replay / name).stat() for name in ("100-200.npz", "200-300.npz")}
    publish_checkpoint(paths, checkpoint(400), ABOUT)
    after = {name: (paths.replay / name).stat() for name in before}
    assert [(s.st_ino, s.st_mtime_ns) for s in before.values()] == [
        (s.st_ino, s.st_mtime_ns) for s in after.values()
    ]


def test_a_checkpoint_without_new_transitions(paths: RunPaths) -> None:
    """A checkpoint without new transitions uses those of the checkpoint before."""
    publish_up_to(paths, 200)
    late = replace(checkpoint(300), oldest=100, transitions=None)
    publish_checkpoint(paths, late, ABOUT)
    assert needed(200)[1:] == read_whole(paths, 300)


def test_the_same_experience_may_come_in_a_longer_stretch(paths: RunPaths) -> None:
    """Transitions that are published again in a longer stretch are not repeated."""
    publish_up_to(paths, 200)
    longer = Transitions(100, 300, b"both")
    publish_checkpoint(paths, replace(checkpoint(300), transitions=longer), ABOUT)
    assert [needed(200)[0], longer] == read_whole(paths, 300)
    assert needed(200) == read_whole(paths, 200)


def test_a_gap_in_the_experience_is_refused(paths: RunPaths) -> None:
    """A checkpoint whose experience has a gap is refused; earlier ones stay."""
    publish_up_to(paths, 100)
    with pytest.raises(
        RecordError, match=r"replay lacks what goes before: after transition 100 comes 200"
    ):
        publish_checkpoint(paths, checkpoint(300), ABOUT)
    assert [100] == usable(paths)
    assert {"0-100.npz"} == chunks_of(paths)


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"short")])
def test_experience_that_was_lost_is_written_anew(paths: RunPaths, damage: object) -> None:
    """After the loss of a chunk, only a checkpoint with all the experience is accepted."""
    assert callable(damage)
    publish_up_to(paths, 200)
    damage(paths.replay / "0-100.npz")
    with pytest.raises(RecordError, match=r"0-100\.npz is (missing|damaged)"):
        publish_checkpoint(paths, replace(checkpoint(250), transitions=None), ABOUT)
    everything = Transitions(0, 200, b"all")
    publish_checkpoint(paths, replace(checkpoint(250), oldest=0, transitions=everything), ABOUT)
    saved = read_checkpoint(paths, 250, run_id=str(ABOUT["run"]))
    assert [everything] == list(saved.transitions())


def test_a_damaged_chunk_is_written_over(paths: RunPaths) -> None:
    """Publishing the same stretch again replaces a damaged chunk."""
    publish_up_to(paths, 100)
    (paths.replay / "0-100.npz").write_bytes(b"x" * 3000)
    assert [] == usable(paths)
    publish_checkpoint(paths, checkpoint(100), ABOUT)
    assert [100] == usable(paths)


def test_a_chunk_that_is_needed_is_never_replaced_by_another(paths: RunPaths) -> None:
    """Other transitions with the same numbers as a needed chunk are refused."""
    publish_up_to(paths, 100)
    other_transitions = Transitions(0, 100, b"other")
    with pytest.raises(RecordError, match=r"0-100\.npz holds other transitions"):
        publish_checkpoint(paths, replace(checkpoint(150), transitions=other_transitions), ABOUT)
    assert [100] == usable(paths)
