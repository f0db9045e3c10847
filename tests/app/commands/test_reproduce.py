"""`rlexp reproduce` repeats recorded runs with their recorded code."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from reproducible_studies import GitStudy, committed, git, train, trained
from warm_processes import warm_up

from rlexp.app.commands.exchange.reproduce import (
    ReproductionRequest,
    SurroundingsDiffer,
    reproduce,
)
from rlexp.app.observer import SilentObserver
from rlexp.app.results import document
from rlexp.app.workspace import Workspace
from rlexp.cli.exchange.reproduce import reproduction_lines
from rlexp.cli.exit_codes import exit_code
from rlexp.errors import ConfigError, RecordError
from rlexp.executors import local
from rlexp.store.files import publish_json, read_json
from rlexp.store.layout import Layout

PRESENT = "import sys\nsys.exit('the present code was imported')\n"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> GitStudy:
    """A workspace with a run whose code is no longer in the working tree."""
    git_study = trained(committed(tmp_path_factory.mktemp("a study"), "reproduced_task"))
    (git_study.folder / f"{git_study.module}.py").write_text(PRESENT)
    (git_study.folder / f"{git_study.module}_constants.py").write_text("SCALE = 3.0\n")
    return git_study


@pytest.fixture
def warm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork runs from a process that has imported most modules, except the code of the workspace."""
    warm_up(monkeypatch, local)


@pytest.fixture
def copied(tmp_path: Path, original: GitStudy) -> GitStudy:
    """A copy of the workspace with the run, which a test may damage."""
    shutil.copytree(original.folder, tmp_path / "copy")
    return GitStudy(tmp_path / "copy", original.module)


def change_provenance(git_study: GitStudy, **changes: Any) -> None:
    """Change the recorded provenance of the attempt."""
    path = git_study.run().attempt(1).provenance
    publish_json(path, {**read_json(path), **changes})


def state(folder: Path) -> list[str]:
    """The git state of a checkout, and all its files except the records."""
    git_output = [
        git(folder, *arguments.split())
        for arguments in ("status -s", "worktree list", "stash list")
    ]
    git_output += [
        git(folder, *arguments.split()) for arguments in ("branch -a", "diff", "for-each-ref")
    ]
    files = [p for p in sorted(folder.iterdir()) if p.is_file()]
    return git_output + [p.read_text() for p in files]


def exit_code_and_document(
    git_study: GitStudy, request: ReproductionRequest
) -> tuple[int, dict[str, Any]]:
    """The exit code and the JSON document."""
    result = reproduce("tiny", request, git_study.study, SilentObserver())
    return exit_code(complete=result.reproduced, interrupted=result.interrupted), document(result)


def test_identical_after_the_code_has_changed(original: GitStudy) -> None:
    """The recorded code is rebuilt, the run is identical, and the working tree stays unchanged."""
    before = state(original.folder)
    result = reproduce(original.name, ReproductionRequest(), original.study, SilentObserver())
    assert f"{original.name}: identical" in "".join(reproduction_lines(result))
    assert "with 2 uncommitted changes, in a separate git worktree" in result.warnings[0]
    assert result.reproduced
    assert before == state(original.folder)


@pytest.mark.usefixtures("warm")
def test_other_packages_are_named(copied: GitStudy) -> None:
    """Changed packages that decide numbers are named with a command that installs the old ones."""
    packages = read_json(copied.run().attempt(1).provenance)["packages"]
    change_provenance(copied, packages={**packages, "numpy": "2.0.1", "rich": "13.0.0"})
    hook = copied.folder / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {copied.folder}/hooked\n")
    hook.chmod(0o755)
    code, result = exit_code_and_document(copied, ReproductionRequest())
    assert 0 == code
    assert ["identical"] == [run["verdict"] for run in result["runs"]]
    (surroundings,) = result["surroundings"]
    assert [("numpy", "2.0.1")] == [(c["name"], c["then"]) for c in surroundings["decisive"]]
    assert "pip install numpy==2.0.1" == surroundings["install"]
    assert ["rich"] == [c["name"] for c in surroundings["others"]]
    assert not (copied.folder / "hooked").exists()


def test_strict_refuses_other_packages(copied: GitStudy, tmp_path: Path) -> None:
    """With --strict, no run starts if a deciding package differs."""
    packages = read_json(copied.run().attempt(1).provenance)["packages"]
    change_provenance(copied, packages={**packages, "gymnasium": "1.0.0"})
    request = ReproductionRequest(strict=True, output=str(tmp_path / "kept"))
    with pytest.raises(
        SurroundingsDiffer,
        match=r"gymnasium 1.0.0 originally, .* now; to install the original packages: pip install",
    ) as caught:
        reproduce("tiny", request, copied.study, SilentObserver())
    assert 3 == caught.value.exit_code
    assert [] == [run.attempts() for run in Layout(tmp_path / "kept").experiment("tiny").runs()]
    assert 1 == len(git(copied.folder, "worktree", "list").splitlines())


@pytest.mark.usefixtures("warm")
def test_a_run_that_reads_the_clock_differs(tmp_path: Path) -> None:
    """The output has the first difference and a command that finds its cause."""
    git_study = trained(committed(tmp_path / "study", "clocked_task"), " + time.time() % 1.0")
    code, result = exit_code_and_document(git_study, ReproductionRequest())
    assert 1 == code
    (run,) = result["runs"]
    assert "different" == run["verdict"]
    assert (32, "evaluated", "returns[0]") == tuple(
        run["divergence"][key] for key in ("step", "event", "field")
    )
    assert run["divergence"]["first"] != run["divergence"]["second"]
    assert (
        f"rlexp doctor --determinism {git_study.name} --allow-import clocked_task" in run["cause"]
    )


@pytest.mark.usefixtures("warm")
def test_a_missing_ignored_file_is_the_likely_cause(tmp_path: Path) -> None:
    """For a run that fails without a file that git ignores, the output names this cause."""
    git_study = committed(tmp_path / "study", "ignoring_task")
    (git_study.folder / "secret.txt").write_text("1")
    trained(git_study, " + len(Path(__file__).with_name('secret.txt').read_text())")
    code, result = exit_code_and_document(git_study, ReproductionRequest())
    assert 1 == code
    (run,) = result["runs"]
    assert "failed" == run["verdict"]
    assert "FileNotFoundError" in run["reason"]
    assert "files that git ignores" in run["cause"]


@pytest.mark.usefixtures("warm")
def test_no_commit_runs_the_present_code(tmp_path: Path) -> None:
    """Without a commit, the present code is used with a warning; records can be kept."""
    git_study = GitStudy(tmp_path / "study", "nowhere_task")
    git_study.folder.mkdir()
    train(git_study, "seeds.test=2", "budget.steps=32", "budget.evaluation_every=null")
    request = ReproductionRequest(runs=1, output=str(tmp_path / "kept"))
    code, result = exit_code_and_document(git_study, request)
    assert 0 == code
    assert (
        "no commit was recorded: the repetition uses the present code of this folder"
        in result["warnings"]
    )
    assert ["identical"] == [run["verdict"] for run in result["runs"]]
    (stored_run,) = Layout(tmp_path / "kept").experiment("tiny").runs()
    assert f"tiny/{stored_run.folder.name}" == result["runs"][0]["run"]
    with pytest.raises(ConfigError, match=r"already exists and is not an empty folder"):
        reproduce("tiny", request, git_study.study, SilentObserver())


def test_code_of_runs_must_be_allowed(original: GitStudy) -> None:
    """A module that only records name is refused without --allow-import."""
    study = Workspace(original.folder, original.study.layout)
    with pytest.raises(RecordError, match=r"rlexp reproduce tiny --allow-import reproduced_task"):
        reproduce("tiny", ReproductionRequest(), study, SilentObserver())


def test_a_missing_patch_is_refused(copied: GitStudy) -> None:
    """Without the patch, the run is refused and the changed files are named."""
    copied.run().attempt(1).patch.unlink()
    with pytest.raises(
        RecordError, match=r"diff.patch is missing: .*reproduced_task_constants.py"
    ):
        reproduce("tiny", ReproductionRequest(), copied.study, SilentObserver())


def test_a_damaged_patch_is_refused(copied: GitStudy) -> None:
    """A patch that does not apply is refused, and no worktree remains."""
    patch = copied.run().attempt(1).patch
    patch.write_text(patch.read_text().replace("-SCALE = 1.0", "-SCALE = 9.0"))
    with pytest.raises(RecordError, match=r"diff.patch does not apply to commit .*: error: "):
        reproduce("tiny", ReproductionRequest(), copied.study, SilentObserver())
    assert 1 == len(git(copied.folder, "worktree", "list").splitlines())


def test_an_unknown_commit_is_refused(copied: GitStudy) -> None:
    """The error about an unknown commit names the commit and the repository of the run."""
    code = {"commit": "d" * 40, "remote": "ssh://example.org/study", "dirty": [], "untracked": []}
    change_provenance(copied, code=code)
    with pytest.raises(
        RecordError, match=r"d{40}, which came from ssh://.* does not contain: try git"
    ):
        reproduce("tiny", ReproductionRequest(), copied.study, SilentObserver())


def test_an_invalid_commit_is_not_passed_to_git(copied: GitStudy) -> None:
    """A recorded text that is not a commit is refused."""
    change_provenance(
        copied, code={"commit": "--upload-pack=touch x", "dirty": [], "untracked": []}
    )
    with pytest.raises(RecordError, match=r"provenance.json is damaged: .* is not a commit"):
        reproduce("tiny", ReproductionRequest(), copied.study, SilentObserver())


def test_a_folder_outside_the_repository_is_refused(copied: GitStudy) -> None:
    """A folder outside a git checkout is refused."""
    shutil.rmtree(copied.folder / ".git")
    with pytest.raises(RecordError, match=r"the run's code is commit .* is not in a git checkout"):
        reproduce("tiny", ReproductionRequest(), copied.study, SilentObserver())


def test_a_run_that_is_not_completed_is_refused(copied: GitStudy) -> None:
    """Only a completed run can be reproduced."""
    journal = copied.run().attempt(1).journal
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(RecordError, match=r"is lost: only a completed run can be reproduced"):
        reproduce(copied.name, ReproductionRequest(), copied.study, SilentObserver())
    with pytest.raises(RecordError, match=r"tiny has no completed run"):
        reproduce("tiny", ReproductionRequest(), copied.study, SilentObserver())


def test_a_phase_without_completed_runs_is_refused(copied: GitStudy) -> None:
    """An unknown phase is refused with a suggestion."""
    with pytest.raises(
        RecordError, match=r"no completed run of phase 'tset'; did you mean 'test'"
    ):
        reproduce("tiny", ReproductionRequest(phase="tset"), copied.study, SilentObserver())
