"""`rlexp reproduce` runs again what was recorded, from the code that it was recorded with."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from reproducible_studies import GitStudy, committed, git, train, trained
from warm_processes import warm_up

from rlexp.app.commands.reproduce import SurroundingsDiffer, Wanted, reproduce
from rlexp.app.workspace import Workspace
from rlexp.console import Console
from rlexp.errors import ConfigError, RecordError
from rlexp.executors import local
from rlexp.store.files import publish_json, read_json
from rlexp.store.layout import Layout

PRESENT = "import sys\nsys.exit('the present code was imported')\n"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> GitStudy:
    """A study with a run whose code is gone from the working tree."""
    place = trained(committed(tmp_path_factory.mktemp("a study"), "reproduced_task"))
    (place.folder / f"{place.module}.py").write_text(PRESENT)
    (place.folder / f"{place.module}_constants.py").write_text("SCALE = 3.0\n")
    return place


@pytest.fixture
def warm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in processes that import nothing anew but the code of the study."""
    warm_up(monkeypatch, local)


@pytest.fixture
def copied(tmp_path: Path, original: GitStudy) -> GitStudy:
    """A copy of that study, which a test may spoil."""
    shutil.copytree(original.folder, tmp_path / "copy")
    return GitStudy(tmp_path / "copy", original.module)


def recorded(place: GitStudy, **changes: Any) -> None:
    """Change what was recorded of the attempt."""
    path = place.run().attempt(1).provenance
    publish_json(path, {**read_json(path), **changes})


def state(folder: Path) -> list[str]:
    """All that git knows of a checkout, and every file in it but the records."""
    told = [git(folder, *words.split()) for words in ("status -s", "worktree list", "stash list")]
    told += [git(folder, *words.split()) for words in ("branch -a", "diff", "for-each-ref")]
    files = [p for p in sorted(folder.iterdir()) if p.is_file()]
    return told + [p.read_text() for p in files]


def answered(
    place: GitStudy, wanted: Wanted, capsys: pytest.CaptureFixture[str]
) -> tuple[int, dict[str, Any]]:
    """The exit code, and the answer as JSON."""
    console = Console(as_json=True, quiet=True)
    code = reproduce("tiny", wanted, place.study, console)
    return code, json.loads(capsys.readouterr().out)


def test_identical_after_the_code_has_changed(
    original: GitStudy, capfd: pytest.CaptureFixture[str]
) -> None:
    """A run is rebuilt from commit, changes and untracked files; the working tree stays as it is."""
    before = state(original.folder)
    code = reproduce(original.name, Wanted(), original.study, Console(quiet=True))
    told = capfd.readouterr().out
    assert f"{original.name}: identical" in told
    assert "with 2 uncommitted changes, in a worktree of its own" in told
    assert 0 == code
    assert before == state(original.folder)


@pytest.mark.usefixtures("warm")
def test_other_packages_are_named(copied: GitStudy, capsys: pytest.CaptureFixture[str]) -> None:
    """A version that decides numbers is named with the command that installs the old one."""
    packages = read_json(copied.run().attempt(1).provenance)["packages"]
    recorded(copied, packages={**packages, "numpy": "2.0.1", "rich": "13.0.0"})
    hook = copied.folder / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {copied.folder}/hooked\n")
    hook.chmod(0o755)
    code, told = answered(copied, Wanted(), capsys)
    assert 0 == code
    assert ["identical"] == [run["verdict"] for run in told["runs"]]
    (around,) = told["surroundings"]
    assert [("numpy", "2.0.1")] == [(c["name"], c["then"]) for c in around["decisive"]]
    assert "pip install numpy==2.0.1" == around["install"]
    assert ["rich"] == [c["name"] for c in around["others"]]
    assert not (copied.folder / "hooked").exists()


def test_strict_refuses_other_packages(copied: GitStudy, tmp_path: Path) -> None:
    """With --strict nothing runs where a deciding version differs."""
    packages = read_json(copied.run().attempt(1).provenance)["packages"]
    recorded(copied, packages={**packages, "gymnasium": "1.0.0"})
    wanted = Wanted(strict=True, output=str(tmp_path / "kept"))
    with pytest.raises(
        SurroundingsDiffer, match=r"gymnasium 1.0.0 then, .* now; pip install"
    ) as e:
        reproduce("tiny", wanted, copied.study, Console(quiet=True))
    assert 3 == e.value.exit_code
    assert [] == [run.attempts() for run in Layout(tmp_path / "kept").experiment("tiny").runs()]
    assert 1 == len(git(copied.folder, "worktree", "list").splitlines())


@pytest.mark.usefixtures("warm")
def test_reading_the_clock_is_different(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that is not decided by its seeds differs; where, and what finds out why, is said."""
    place = trained(committed(tmp_path / "study", "clocked_task"), " + time.time() % 1.0")
    code, told = answered(place, Wanted(), capsys)
    assert 1 == code
    (run,) = told["runs"]
    assert "different" == run["verdict"]
    assert (32, "evaluated", "returns[0]") == tuple(
        run["divergence"][key] for key in ("step", "event", "field")
    )
    assert run["divergence"]["first"] != run["divergence"]["second"]
    assert f"rlexp doctor --determinism {place.name} --allow-import clocked_task" in run["cause"]


@pytest.mark.usefixtures("warm")
def test_ignored_files_are_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What depends on a file that git ignores fails, and this is said to be the likely cause."""
    place = committed(tmp_path / "study", "ignoring_task")
    (place.folder / "secret.txt").write_text("1")
    trained(place, " + len(Path(__file__).with_name('secret.txt').read_text())")
    code, told = answered(place, Wanted(), capsys)
    assert 1 == code
    (run,) = told["runs"]
    assert "failed" == run["verdict"]
    assert "FileNotFoundError" in run["reason"]
    assert "files that git ignores" in run["cause"]


@pytest.mark.usefixtures("warm")
def test_no_commit_runs_the_present_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Outside of git the present folder has to do, which is said; records can be kept."""
    place = GitStudy(tmp_path / "study", "nowhere_task")
    place.folder.mkdir()
    train(place, "seeds.test=2", "budget.steps=32", "budget.evaluation_every=null")
    wanted = Wanted(runs=1, output=str(tmp_path / "kept"))
    code, told = answered(place, wanted, capsys)
    assert 0 == code
    assert "no commit was recorded: the present code of this folder runs" in told["warnings"]
    assert ["identical"] == [run["verdict"] for run in told["runs"]]
    (kept,) = Layout(tmp_path / "kept").experiment("tiny").runs()
    assert f"tiny/{kept.folder.name}" == told["runs"][0]["run"]
    with pytest.raises(ConfigError, match=r"is there and not empty"):
        reproduce("tiny", wanted, place.study, Console())


def test_code_of_runs_is_not_imported_unasked(original: GitStudy) -> None:
    """What only the files of a run name is imported only if the user says so."""
    study = Workspace(original.folder, original.study.layout)
    with pytest.raises(RecordError, match=r"rlexp reproduce tiny --allow-import reproduced_task"):
        reproduce("tiny", Wanted(), study, Console())


def test_missing_patch(copied: GitStudy) -> None:
    """Where the changes are lost nothing runs, and the files are named."""
    copied.run().attempt(1).patch.unlink()
    with pytest.raises(
        RecordError, match=r"diff.patch is missing: .*reproduced_task_constants.py"
    ):
        reproduce("tiny", Wanted(), copied.study, Console())


def test_damaged_patch(copied: GitStudy, capsys: pytest.CaptureFixture[str]) -> None:
    """A patch that does not apply is refused with git's reason, and leaves no worktree."""
    patch = copied.run().attempt(1).patch
    patch.write_text(patch.read_text().replace("-SCALE = 1.0", "-SCALE = 9.0"))
    with pytest.raises(RecordError, match=r"diff.patch does not apply to commit .*: error: "):
        reproduce("tiny", Wanted(), copied.study, Console())
    assert 1 == len(git(copied.folder, "worktree", "list").splitlines())


def test_commit_that_is_gone(copied: GitStudy) -> None:
    """A commit that the repository does not hold is said in one line, with where it came from."""
    code = {"commit": "d" * 40, "remote": "ssh://example.org/study", "dirty": [], "untracked": []}
    recorded(copied, code=code)
    with pytest.raises(RecordError, match=r"d{40}, which came from ssh://.* does not hold: git"):
        reproduce("tiny", Wanted(), copied.study, Console())


def test_commit_that_is_none(copied: GitStudy) -> None:
    """What is no commit never reaches git."""
    recorded(copied, code={"commit": "--upload-pack=touch x", "dirty": [], "untracked": []})
    with pytest.raises(RecordError, match=r"provenance.json is damaged: .* is no commit"):
        reproduce("tiny", Wanted(), copied.study, Console())


def test_no_repository(copied: GitStudy) -> None:
    """Outside of the repository, the one that is needed is named."""
    shutil.rmtree(copied.folder / ".git")
    with pytest.raises(RecordError, match=r"the run's code is commit .* is in no git checkout"):
        reproduce("tiny", Wanted(), copied.study, Console())


def test_run_that_is_not_completed(copied: GitStudy) -> None:
    """Only a completed run can be reproduced."""
    journal = copied.run().attempt(1).journal
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(RecordError, match=r"is lost: only a completed run can be reproduced"):
        reproduce(copied.name, Wanted(), copied.study, Console())
    with pytest.raises(RecordError, match=r"tiny has no completed run"):
        reproduce("tiny", Wanted(), copied.study, Console())


def test_phase_without_runs(copied: GitStudy) -> None:
    """A phase that has no completed run is refused with those that have."""
    with pytest.raises(
        RecordError, match=r"no completed run of phase 'tset'; did you mean 'test'"
    ):
        reproduce("tiny", Wanted(phase="tset"), copied.study, Console())
