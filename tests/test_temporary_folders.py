"""Temporary folders whose owner was killed are removed, and those in use never are."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

from rlexp.temporary_folders import LOCK, scratch

OWNER = """
import sys, time
from pathlib import Path
from rlexp.temporary_folders import scratch
with scratch("rlexp-x-", Path(sys.argv[1])) as (folder, _):
    (folder / "file").touch()
    print(folder.name, flush=True)
    time.sleep(600)
"""


def owner(parent: Path) -> tuple[subprocess.Popen[str], str]:
    """A process that holds a folder, and the name of the folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(parent)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def names(folder: Path) -> set[str]:
    """The names in a folder."""
    return {path.name for path in folder.iterdir()}


def test_abandoned_temporary_folders_are_removed(tmp_path: Path) -> None:
    """A temporary folder that no process holds is removed; a held folder and a link stay."""
    (tmp_path / "rlexp-x-dead").mkdir()
    (tmp_path / "rlexp-x-dead" / LOCK).touch()
    (tmp_path / "rlexp-x-link").symlink_to(tmp_path)
    with scratch("rlexp-x-", tmp_path) as (first, _), scratch("rlexp-x-", tmp_path) as (second, _):
        assert {first.name, second.name, "rlexp-x-link"} == names(tmp_path)
        assert stat.S_IMODE(os.stat(first).st_mode) == 0o700  # noqa: PTH116
    assert {"rlexp-x-link"} == names(tmp_path)


def test_the_folder_of_a_killed_process_is_removed(tmp_path: Path) -> None:
    """After SIGKILL the next process removes the folder, and leaves that of a living process."""
    killed, abandoned = owner(tmp_path)
    living, held = owner(tmp_path)
    try:
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
        assert {abandoned, held} == names(tmp_path)
        with scratch("rlexp-x-", tmp_path) as (folder, _):
            assert {held, folder.name} == names(tmp_path)
            assert {LOCK, "file"} == names(tmp_path / held)
    finally:
        living.kill()
        living.communicate()


def test_a_folder_that_is_being_made_stays(tmp_path: Path) -> None:
    """A folder without its lock file may belong to a process that makes it now."""
    (tmp_path / "rlexp-x-new").mkdir()
    (tmp_path / "rlexp-x-new" / f"{LOCK}.new").touch()
    with scratch("rlexp-x-", tmp_path):
        assert (tmp_path / "rlexp-x-new").exists()
