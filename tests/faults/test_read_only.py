"""Folders that cannot be written, from the start or from the middle of a run."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from in_full import long
from studies import StudyFolder, new_study, wait_until
from tracing import injecting, traced

WORDS = ("run", "experiment=x", "budget.steps=3000", "budget.evaluation_every=1000")
ROOT = os.getuid() == 0
AS_ORDINARY_USER = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if ROOT else ()
"""A prefix that makes root obey permissions like any other user."""

needs_setpriv = pytest.mark.skipif(
    ROOT and shutil.which("setpriv") is None, reason="root heeds no permissions without setpriv"
)


@pytest.fixture
def study(tmp_path: Path) -> Iterator[StudyFolder]:
    """A study whose runs train nothing."""
    with new_study(tmp_path / "study", quick=True, warm=True) as study:
        yield study


@needs_setpriv
@pytest.mark.parametrize("folder", ["runs", "runs/x"])
def test_a_folder_without_permission_is_refused_before_anything_starts(
    study: StudyFolder, folder: str
) -> None:
    """A folder without permission is refused in one line with code 2, and nothing is written."""
    read_only_folder = study.folder / folder
    read_only_folder.mkdir(parents=True)
    read_only_folder.chmod(0o555)
    code, output = study.give(*WORDS, before=AS_ORDINARY_USER)
    read_only_folder.chmod(0o755)
    assert (2, 1) == (code, len(output.splitlines())), output
    assert output.startswith("rlexp: cannot write to ")
    assert "Permission denied" in output
    assert [] == list(read_only_folder.iterdir())


@needs_setpriv
def test_lost_permission_stops_the_command_and_a_repeat_completes(study: StudyFolder) -> None:
    """When a folder loses its permission, no further run begins, and a repeat completes all."""
    arguments = (*WORDS, "seeds.test=4", "executor.workers=1")
    command = study.start(
        *arguments, before=AS_ORDINARY_USER, variables={"RLEXP_QUICK": '{"seconds": 1}'}
    )
    wait_until(lambda: study.workers("x"))
    read_only_folder = study.folder / "runs" / "x"
    read_only_folder.chmod(0o555)
    output, _ = command.communicate(timeout=60)
    read_only_folder.chmod(0o755)
    assert command.returncode in {1, 2}, output
    assert ("Permission denied" in output, "Traceback" in output) == (True, False), output
    assert "make the disk writable, then give the same command again" in output
    assert ["completed"] == [e["ending"] for e in study.events("x", "ended")]
    code, output = study.give(*arguments)
    assert code == 0, output
    assert [("completed", 1)] * 4 == [(r["state"], r["attempts"]) for r in study.runs("x")]


TRAINED = (
    "run",
    "experiment=x",
    "seeds.test=1",
    "budget.steps=512",
    "budget.evaluation_every=256",
    "budget.final_episodes=3",
    "algorithm.n_steps=128",
    "algorithm.n_epochs=1",
)


@traced
@long
def test_a_file_system_that_turns_read_only_is_raised_and_never_swallowed(tmp_path: Path) -> None:
    """A training whose journal becomes read-only fails, and completes with --retry."""
    with new_study(tmp_path / "quick", quick=True, warm=True) as quick:
        assert quick.give(*TRAINED)[0] == 0
        (run,) = quick.runs("x")
    with new_study(tmp_path / "study", warm=True) as study:
        attempts = study.folder / "runs" / "x" / run["run"] / "attempts"
        journals = [attempts / str(n) / "events.jsonl" for n in (1, 2, 3)]
        before = injecting("write", "error=EROFS", "4+", tmp_path / "trace", journals)
        code, output = study.give(*TRAINED, before=before)
        assert (1, True) == (code, "INJECTED" in (tmp_path / "trace").read_text()), output
        (failed_run,) = study.runs("x")
        assert ("failed", None) == (failed_run["state"], failed_run["score"])
        assert "Read-only file system" in (attempts / "1" / "log.txt").read_text()
        code, output = study.give(*TRAINED, "--retry")
        assert (0, "completed") == (code, study.runs("x")[0]["state"]), output
