"""A folder that cannot be written, and a disk that fills up."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from studies import StudyFolder, new_study, odd


@pytest.fixture
def study(tmp_path: Path) -> Iterator[StudyFolder]:
    """A study."""
    with new_study(tmp_path / "study") as study:
        yield study


def test_an_unwritable_runs_folder_is_refused_before_anything_starts(study: StudyFolder) -> None:
    """Where `runs` is a file, the command ends with one line and exit code 2."""
    (study.folder / "runs").write_text("not a folder")
    code, output = study.give("run", *odd("none", "budget.steps=64"))
    assert (code, len(output.splitlines())) == (2, 1), output
    assert output.startswith("rlexp: cannot write to ")


def _may_mount() -> bool:
    command = ["unshare", "-rm", "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/mnt"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(not _may_mount(), reason="needs unshare and tmpfs")
def test_a_full_disk_fails_the_run_and_a_repeat_completes_it(study: StudyFolder) -> None:
    """On a disk of 120 kB the run is no success; with space again, the same command completes."""
    words = odd("none", "experiment=x", "budget.steps=30_000", "algorithm.n_epochs=1")
    runs = study.folder / "runs"
    runs.mkdir()
    kept = study.folder / "kept"
    script = (
        'mount -t tmpfs -o size=120k tmpfs "$1" && shift && '
        '"$@"; code=$?; cp -r runs/. kept/; exit $code'
    )
    kept.mkdir()
    command = ["unshare", "-rm", "sh", "-c", script, "sh", str(runs)]
    done = subprocess.run(
        [*command, sys.executable, "-m", "rlexp", "run", *words],
        cwd=study.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in {1, 2}, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "completed" not in done.stdout
    runs.rmdir()
    kept.rename(runs)
    code, output = study.give("run", *words)
    assert code == 0, output
