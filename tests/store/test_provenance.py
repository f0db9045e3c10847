"""Where numbers come from, asked of real git checkouts."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rlexp.store import provenance
from rlexp.store.provenance import (
    Code,
    collect,
    machine,
    packages,
    read_code,
    usable_cores,
)
from rlexp.store.secrets import MASK

Git = Callable[..., str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study's folder with an odd name."""
    folder = tmp_path / 'it\'s ours, a "study"'
    folder.mkdir()
    return folder


@pytest.fixture
def git(folder: Path) -> Git:
    """Git in a fresh checkout with one commit of one file."""

    def run(*arguments: str) -> str:
        who = ("-c", "user.name=n", "-c", "user.email=n@example.org")
        done = subprocess.run(
            ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    run("init", "-q", "-b", "trunk")
    (folder / "code.py").write_text("x = 1\n")
    run("add", ".")
    run("commit", "-q", "-m", "one")
    return run


def test_a_folder_without_git_has_no_commit(folder: Path) -> None:
    """It is said, and nothing fails."""
    code = read_code(folder)
    assert (Code(None, None, None, (), (), ""), "no git commit") == (code, str(code))


def test_a_checkout_without_a_commit_has_none(folder: Path) -> None:
    """There is nothing to come back to."""
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    assert None is read_code(folder).commit


def test_a_clean_checkout_is_its_commit(folder: Path, git: Git) -> None:
    """Commit and branch say it all."""
    commit = git("rev-parse", "HEAD")
    code = read_code(folder)
    assert Code(commit, "trunk", None, (), (), "") == code
    assert f"git {commit[:7]}" == str(code)


def test_a_folder_inside_a_checkout_belongs_to_it(folder: Path, git: Git) -> None:
    """A study need not be at the top."""
    (folder / "inside").mkdir()
    assert git("rev-parse", "HEAD") == read_code(folder / "inside").commit


def test_changes_are_named_and_kept(folder: Path, git: Git) -> None:
    """The patch, applied to the commit, gives the code that ran."""
    (folder / "code.py").write_text("x = 2\n")
    (folder / "ünew file.py").write_text("y\n")
    code = read_code(folder)
    assert (("code.py",), ("ünew file.py",)) == (code.dirty, code.untracked)
    assert str(code).endswith("(dirty: 2 files, diff saved)")
    git("checkout", "-q", "code.py")
    (folder / "diff.patch").write_text(code.patch)
    (folder / "ünew file.py").unlink()
    git("apply", "diff.patch")
    assert "x = 2\n" == (folder / "code.py").read_text()
    assert "y\n" == (folder / "ünew file.py").read_text()


@pytest.mark.parametrize("text", ["", "no end", "two\nlines\n", "\n", "a\x0cb\u2028c\n"])
def test_an_untracked_file_is_in_the_patch(text: str, folder: Path, git: Git) -> None:
    """A file that git does not know yet is kept, byte for byte."""
    (folder / "mine.py").write_text(text)
    code = read_code(folder)
    (folder / "mine.py").unlink()
    (folder / "diff.patch").write_text(code.patch)
    git("apply", "diff.patch")
    assert text == (folder / "mine.py").read_text()


def test_what_is_no_text_is_said_to_be_missing(folder: Path, git: Git) -> None:
    """A picture is not put into the patch, and the plan says so."""
    (folder / "picture.png").write_bytes(b"\x89PNG\xff")
    code = read_code(folder)
    assert (False, "") == (code.saved, code.patch)
    assert str(code).endswith("(dirty: 1 file, diff saved in part)")


def test_staged_changes_are_changes(folder: Path, git: Git) -> None:
    """What was added and not committed is in the patch, a removal and a new name too."""
    (folder / "staged.py").write_text("z = 3\n")
    git("add", "staged.py")
    git("mv", "code.py", "renamed.py")
    code = read_code(folder)
    assert {"code.py", "renamed.py", "staged.py"} == set(code.dirty)
    assert "+z = 3" in code.patch


def test_one_changed_file_is_one_file(folder: Path, git: Git) -> None:
    """The plan speaks English."""
    (folder / "code.py").write_text("x = 2\n")
    assert str(read_code(folder)).endswith("(dirty: 1 file, diff saved)")


def test_secrets_in_code_do_not_reach_the_patch(
    folder: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither those that look so nor those that the environment knows."""
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef")
    text = 'login("0123456789abcdef")\napi_key = "something"\nurl = "https://me:pw@host/"\n'
    (folder / "code.py").write_text(text)
    patch = read_code(folder).patch
    results = [word for word in ("0123456789abcdef", "something", "me:pw") if word in patch]
    assert ([], 3) == (results, patch.count(MASK))


def test_the_remote_is_named_without_its_login(folder: Path, git: Git) -> None:
    """A token in the address stays out of the record."""
    git("remote", "add", "origin", "https://token@host/repository.git")
    assert f"https://{MASK}@host/repository.git" == read_code(folder).remote


def test_a_large_patch_is_cut(folder: Path, git: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data file that was changed does not fill the disk once a run."""
    assert 5_000_000 == provenance.LARGEST_PATCH
    monkeypatch.setattr(provenance, "LARGEST_PATCH", 50_000)
    (folder / "code.py").write_text("x = 1\n" * 10_000)
    assert 50_000 == len(read_code(folder).patch)


def test_reading_executes_nothing_of_the_checkout(folder: Path, git: Git) -> None:
    """A program that the checkout names as its monitor or diff does not run."""
    program = folder.parent / "program"
    ran = folder.parent / "ran"
    program.write_text(f"#!/bin/sh\ntouch '{ran}'\n")
    program.chmod(0o755)
    git("config", "core.fsmonitor", str(program))
    git("config", "diff.external", str(program))
    (folder / "code.py").write_text("x = 2\n")
    assert ("code.py",) == read_code(folder).dirty
    assert not ran.exists()


def test_provenance_is_complete_and_masked(folder: Path) -> None:
    """Command, code, packages, machine and allow-listed variables, as plain data."""
    environment = {
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "0",
        "PYTHONPATH": "/x:hunter2-hunter2",
        "HOME": "/home/someone",
        "DB_PASSWORD": "hunter2-hunter2",
    }
    command = ["rlexp", "run", "tracker.api_key=abc", "x=hunter2-hunter2"]
    results = collect(read_code(folder), command, folder, environment)
    assert ["rlexp", "run", f"tracker.api_key={MASK}", f"x={MASK}"] == results["command"]
    expected = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "0", "PYTHONPATH": f"/x:{MASK}"}
    assert (expected, str(folder)) == (results["variables"], results["folder"])
    assert {"commit", "branch", "remote", "dirty", "untracked", "saved"} == set(results["code"])
    assert results == json.loads(json.dumps(results))


def test_packages_are_those_that_are_installed() -> None:
    """By name in small letters, in order."""
    results = packages()
    assert {"numpy", "rlexp", "torch"} <= set(results)
    assert sorted(results) == list(results)


def test_the_machine_is_described() -> None:
    """Cores are those that this process may use."""
    results = machine()
    assert (usable_cores(), True) == (results["cores"], results["memory"] > 10**8)
    assert all(results[key] for key in ("host", "system", "processor"))
