"""Published checkpoints are read back unchanged, and checkpoints without use are removed."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from checkpoint_samples import (
    ABOUT,
    checkpoint,
    content,
    files_of,
    needed,
    publish_up_to,
    read_whole,
    usable,
)

from rlexp.errors import RecordError
from rlexp.store.checkpoints.checkpoint_files import (
    checkpoint_steps,
    clear_replay,
    discard_after,
    is_resumable,
    publish_checkpoint,
    read_checkpoint,
)
from rlexp.store.checkpoints.manifest import Chunk, Manifest, Sum
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


def test_what_is_published_is_read_back(paths: RunPaths) -> None:
    """Files and experience are read back byte for byte, and nothing else is on disk."""
    written = publish_checkpoint(paths, checkpoint(100), ABOUT)
    assert ([100], needed(100)) == (usable(paths), read_whole(paths, 100))
    assert written == sum(len(data) for data in files_of(paths).values())
    assert 5 == len(files_of(paths))


def test_a_run_without_experience_has_no_replay_folder(paths: RunPaths) -> None:
    """A checkpoint without transitions creates no replay folder."""
    publish_checkpoint(paths, checkpoint(100, learns_from=False), ABOUT)
    assert ([], False) == (read_whole(paths, 100), paths.replay.exists())


def test_a_run_without_checkpoints_has_none(paths: RunPaths) -> None:
    """A run without checkpoints has none; reading a missing checkpoint is an error."""
    assert [] == checkpoint_steps(paths)
    paths.checkpoints.mkdir()
    assert [] == checkpoint_steps(paths)
    with pytest.raises(RecordError, match="100 is missing"):
        read_whole(paths, 100)


def test_the_two_checkpoints_with_the_most_steps_stay(paths: RunPaths) -> None:
    """Checkpoints are ordered by step and not by name: 1000 comes after 900."""
    publish_up_to(paths, 1000)
    assert [1000, 900] == usable(paths)
    assert {"1000", "900"} == {path.name for path in paths.checkpoints.iterdir()}


def test_a_checkpoint_of_the_same_step_is_replaced(paths: RunPaths) -> None:
    """Publishing a step again replaces its files and repeats no transitions."""
    publish_up_to(paths, 200)
    replacement = replace(checkpoint(200), files={"model.zip": b"new"})
    publish_checkpoint(paths, replacement, {**ABOUT, "attempt": 2})
    saved = read_checkpoint(paths, 200, run_id=str(ABOUT["run"]))
    assert ({"model.zip": b"new"}, 2) == (saved.files, saved.about["attempt"])
    assert needed(200) == list(saved.transitions())
    assert {"100", "200"} == {path.name for path in paths.checkpoints.iterdir()}


def test_checkpoints_after_the_continued_step_are_removed(paths: RunPaths) -> None:
    """Checkpoints newer than the continued one are removed together with their chunks."""
    publish_up_to(paths, 300)
    discard_after(paths, 200)
    assert ([200], {"0-100.npz", "100-200.npz"}) == (usable(paths), chunks_of(paths))
    publish_checkpoint(paths, checkpoint(300), ABOUT)
    discard_after(paths, 300)
    assert [300, 200] == usable(paths)


def test_an_attempt_that_begins_anew_removes_all_checkpoints(paths: RunPaths) -> None:
    """An attempt that begins anew removes all checkpoints and chunks of earlier attempts."""
    discard_after(paths, None)
    publish_up_to(paths, 300)
    discard_after(paths, None)
    assert ([], {}) == (checkpoint_steps(paths), files_of(paths))


def test_a_completed_run_keeps_policies_and_no_experience(paths: RunPaths) -> None:
    """Completion removes the experience: policies can be read, and no run can continue."""
    publish_up_to(paths, 300)
    clear_replay(paths)
    assert ([300, 200], False) == (checkpoint_steps(paths), paths.replay.exists())
    saved = read_checkpoint(paths, 300, run_id=str(ABOUT["run"]))
    assert checkpoint(300).files == saved.files
    with pytest.raises(RecordError, match="the experience was removed when the run was completed"):
        list(saved.transitions())
    assert not is_resumable(paths, 300)
    clear_replay(paths)
    assert [300, 200] == checkpoint_steps(paths)


def test_completion_changes_no_checkpoint_that_needs_no_experience(paths: RunPaths) -> None:
    """Completion leaves an on-policy checkpoint resumable."""
    publish_checkpoint(paths, checkpoint(100, learns_from=False), ABOUT)
    before = files_of(paths)
    clear_replay(paths)
    assert (before, True) == (files_of(paths), is_resumable(paths, 100))


def test_a_checkpoint_of_another_run_is_refused(paths: RunPaths) -> None:
    """A checkpoint copied from another run's folder is refused."""
    publish_up_to(paths, 100)
    copied = RunPaths(paths.folder.with_name("other"))
    shutil.copytree(paths.folder, copied.folder)
    with pytest.raises(RecordError, match="of another run, '0123456789abcdef'"):
        read_checkpoint(copied, 100, run_id="another")


def test_a_checkpoint_of_another_step_is_refused(paths: RunPaths) -> None:
    """A checkpoint folder that was renamed to another step is refused."""
    publish_up_to(paths, 100)
    (paths.checkpoints / "100").rename(paths.checkpoints / "900")
    with pytest.raises(RecordError, match="is that of step 100"):
        read_whole(paths, 900)


def test_a_checkpoint_that_was_set_aside_is_restored(paths: RunPaths) -> None:
    """The old checkpoint of a writer that died between two renames is restored."""
    publish_up_to(paths, 100)
    (paths.checkpoints / "100").rename(paths.checkpoints / ".100.old")
    discard_after(paths, 100)
    assert [100] == usable(paths)
    publish_checkpoint(paths, checkpoint(100), ABOUT)
    assert {"100"} == {path.name for path in paths.checkpoints.iterdir()}


def test_leftovers_are_removed_and_files_of_the_user_stay(paths: RunPaths) -> None:
    """Temporary files of dead writers and old chunks are removed; the user's files stay."""
    publish_up_to(paths, 100)
    stale = (".01234567.200", ".89abcdef.0-100.npz", "7-9.npz", ".100.old")
    for folder in (paths.checkpoints, paths.replay):
        for name in ("notes.txt", ".hidden", "backup"):
            (folder / name).write_text("mine")
    for name in (stale[0], stale[3], "300"):
        (paths.checkpoints / name).mkdir()
        (paths.checkpoints / name / "model.zip").write_text("half")
    for name in stale[1:3]:
        (paths.replay / name).write_text("half")
    publish_checkpoint(paths, checkpoint(200), ABOUT)
    mine = {"notes.txt", ".hidden", "backup"}
    assert mine | {"100", "200"} == {path.name for path in paths.checkpoints.iterdir()}
    assert mine | {"0-100.npz", "100-200.npz"} == chunks_of(paths)


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".x", "manifest.json", "ü", "x" * 101])
def test_a_file_that_could_not_be_read_back_is_not_published(paths: RunPaths, name: str) -> None:
    """A file name that readers refuse is refused before anything is written."""
    with pytest.raises(ValueError, match="is no file's name"):
        publish_checkpoint(paths, replace(checkpoint(100), files={name: b""}), ABOUT)
    assert {} == files_of(paths)


def test_nan_is_not_published(paths: RunPaths) -> None:
    """A NaN in a manifest is refused, because other tools could not read it."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        publish_checkpoint(paths, checkpoint(100), {**ABOUT, "loss": float("nan")})
    assert {} == files_of(paths)


def test_content_of_the_manifest(paths: RunPaths) -> None:
    """The manifest has the checksums, sizes and chunks that are computed by hand here."""
    publish_checkpoint(paths, checkpoint(100), ABOUT)
    expected = Manifest(
        step=100,
        about=ABOUT,
        files={name: Sum.of(data) for name, data in checkpoint(100).files.items()},
        oldest=0,
        transitions=(Chunk(0, 100, Sum.of(content("transitions", 0))),),
    )
    assert expected.encode() == (paths.checkpoints / "100" / "manifest.json").read_bytes()
