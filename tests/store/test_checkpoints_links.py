"""Links, pipes and huge files in place of a checkpoint are neither followed nor read."""

import os
from pathlib import Path

import pytest
from checkpoint_samples import ABOUT, checkpoint, only_second, publish_up_to, refusal, usable

from rlexp.errors import RecordError
from rlexp.store.checkpoints.checkpoint_files import (
    checkpoint_steps,
    discard_after,
    publish_checkpoint,
)
from rlexp.store.layout import RunPaths


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    """A run with two checkpoints."""
    paths = RunPaths(tmp_path / "run")
    publish_up_to(paths, 200)
    return paths


def test_a_huge_sparse_file_is_refused_without_being_read(paths: RunPaths) -> None:
    """A sparse file of a terabyte is refused, because reading it would take all memory."""
    for path in only_second(paths):
        os.truncate(path, 2**40)
        assert f"{path} is damaged: it has more than" in refusal(paths, 200)
        path.unlink()
        discard_after(paths, 100)
        publish_checkpoint(paths, checkpoint(200), ABOUT)


def secret_file(paths: RunPaths) -> Path:
    """A file of another user, outside the run."""
    path = paths.folder.parent / "elsewhere" / ".01234567.secret"
    path.parent.mkdir()
    path.write_text("mine")
    return path


def test_a_link_to_a_file_is_not_followed(paths: RunPaths) -> None:
    """A link to a file is refused even if the file has the right content."""
    for path in only_second(paths):
        target = path.rename(paths.folder.parent / path.name)
        path.symlink_to(target)
        assert f"{path} must be a file, not a link" == refusal(paths, 200)
        path.unlink()
        target.rename(path)
    assert [200, 100] == usable(paths)


def test_a_link_to_a_checkpoint_is_not_followed(paths: RunPaths) -> None:
    """A link to a checkpoint is refused, and its target stays when the link is removed."""
    secret = secret_file(paths)
    copied = (paths.checkpoints / "200").rename(paths.folder.parent / "copied")
    for target in (copied, secret.parent, paths.folder / "nowhere"):
        (paths.checkpoints / "200").symlink_to(target)
        assert "must be a folder, not a link" in refusal(paths, 200)
        discard_after(paths, 100)
        assert [100] == checkpoint_steps(paths)
    assert (4, "mine") == (len(list(copied.iterdir())), secret.read_text())


@pytest.mark.parametrize("folder", ["checkpoints", "replay"])
def test_a_link_to_a_folder_is_not_followed(paths: RunPaths, folder: str) -> None:
    """No file behind a link to a folder is read, written or removed."""
    secret = secret_file(paths)
    (paths.folder / folder).rename(paths.folder.parent / folder)
    (paths.folder / folder).symlink_to(secret.parent)
    assert f"{folder} must be a folder, not a link" in refusal(paths, 200)
    with pytest.raises(RecordError, match="must be a folder"):
        publish_checkpoint(paths, checkpoint(300), ABOUT)
    with pytest.raises(RecordError, match="must be a folder"):
        discard_after(paths, None)
    assert [secret] == list(secret.parent.iterdir())


@pytest.mark.timeout(20)
def test_a_pipe_is_refused_at_once(paths: RunPaths) -> None:
    """A pipe is refused, because reading it could wait for ever."""
    for path in only_second(paths):
        content = path.read_bytes()
        path.unlink()
        os.mkfifo(path)
        assert f"{path} must be a regular file" == refusal(paths, 200)
        path.unlink()
        path.write_bytes(content)
