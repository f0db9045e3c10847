"""A folder that cannot be written, and a disk that fills up."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from in_full import IN_FULL, long
from studies import StudyFolder, new_study, odd
from tracing import injecting, traced


@pytest.fixture
def study(tmp_path: Path) -> Iterator[StudyFolder]:
    """A study with real runs."""
    with new_study(tmp_path / "study", warm=True) as study:
        yield study


def test_an_unwritable_runs_folder_is_refused_before_anything_starts(tmp_path: Path) -> None:
    """Where `runs` is a file, the command ends with one line and exit code 2."""
    with new_study(tmp_path, quick=True, warm=True) as study:
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


@long
@pytest.mark.skipif(not _may_mount(), reason="needs unshare and tmpfs")
def test_a_full_disk_fails_the_run_and_a_repeat_completes_it(study: StudyFolder) -> None:
    """A run fails on a disk of 120 kB, and the same command completes it with more space."""
    arguments = odd("none", "experiment=x", "budget.steps=8000", "algorithm.n_epochs=1")
    runs = study.folder / "runs"
    runs.mkdir()
    saved_runs = study.folder / "kept"
    script = (
        'mount -t tmpfs -o size=120k tmpfs "$1" && shift && '
        '"$@"; code=$?; cp -r runs/. kept/; exit $code'
    )
    saved_runs.mkdir()
    command = ["unshare", "-rm", "sh", "-c", script, "sh", str(runs)]
    result = subprocess.run(
        [*command, sys.executable, "-m", "rlexp", "run", *arguments],
        cwd=study.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode in {1, 2}, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    assert "completed" not in result.stdout
    runs.rmdir()
    saved_runs.rename(runs)
    code, output = study.give("run", *arguments)
    assert code == 0, output


FILLING = """
mount -t tmpfs -o size=6m tmpfs "$1" && shift
"$@" & command=$!
until ls runs/x/*/attempts/1/events.jsonl 2>/dev/null; do sleep 0.05; done
head -c 10000000 /dev/zero > runs/ballast
wait $command; echo "first $?"
rm runs/ballast
"$@"; echo "second $?"
"""


@pytest.mark.skipif(not _may_mount(), reason="needs unshare and tmpfs")
@long
def test_a_disk_that_fills_up_in_the_middle_stops_the_command_and_a_repeat_goes_on(
    study: StudyFolder,
) -> None:
    """A disk that fills up ends the command with advice, and a repeat completes all runs."""
    (study.folder / "runs").mkdir()
    arguments = odd("none", "experiment=x", "budget.steps=4000", "seeds.test=3")
    arguments += ["algorithm.n_epochs=1", "executor.workers=2"]
    command = ["unshare", "-rm", "sh", "-c", FILLING, "sh", "runs", sys.executable, "-m", "rlexp"]
    result = subprocess.run(
        [*command, "run", *arguments],
        cwd=study.folder,
        env=study.variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=200,
        check=False,
    )
    first, _, second = result.stdout.partition("first ")
    # A disk this full may have no room for a verdict.
    assert "(disk)" in first or " lost\n" in first, result.stdout
    assert "free space, or make the disk writable, then give the same command again" in first
    assert "--retry" not in first
    assert ("Traceback" in first, first.count("completed")) == (False, 0), result.stdout
    assert second.startswith("1\n")
    assert second.endswith("second 0\n"), result.stdout
    assert "every planned run has a score (3 of 3)" in second


QUICK = ("run", "experiment=x", "budget.steps=3000", "budget.evaluation_every=1000")
FAULTS = [("error=ENOSPC", 19), ("signal=KILL", 12)]
if IN_FULL:
    errors = ("error=ENOSPC", "error=EDQUOT")
    FAULTS = [(error, n) for error in errors for n in range(1, 45, 3)]
    FAULTS += [("signal=KILL", n) for n in range(1, 50, 2)]


@traced
@pytest.mark.parametrize(("fault", "when"), FAULTS)
def test_a_command_whose_nth_fsync_fails_can_be_repeated(
    tmp_path: Path, fault: str, when: int
) -> None:
    """After a failed or killed fsync a repeat completes all runs and repeats no completed run."""
    with new_study(tmp_path / "study", quick=True, warm=True) as study:
        before = injecting("fsync", fault, f"{when}+", tmp_path / "trace")
        code, output = study.give(*QUICK, "seeds.test=6", before=before)
        assert (code != 0, "Traceback" in output) == (True, False), output
        is_defined = (study.folder / "runs" / "x" / "experiment.json").exists()
        runs_before = study.runs("x") if is_defined else []
        completed = [r["run"] for r in runs_before if r["state"] == "completed"]
        code, output = study.give(*QUICK, "seeds.test=6")
        assert code == 0, output
        assert [("completed", True)] * 6 == [
            (r["state"], r["attempts"] == 1 or r["run"] not in completed) for r in study.runs("x")
        ]
