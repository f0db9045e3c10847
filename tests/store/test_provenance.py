"""The provenance of a run: its code, packages and machine, read from real git checkouts."""

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
    """A folder of a study with an odd name."""
    folder = tmp_path / 'it\'s ours, a "study"'
    folder.mkdir()
    return folder


@pytest.fixture
def git(folder: Path) -> Git:
    """A function that runs git in a new checkout with one commit of one file."""

    def run(*arguments: str) -> str:
        author = ("-c", "user.name=n", "-c", "user.email=n@example.org")
        process = subprocess.run(
            ["git", *author, *arguments], cwd=folder, check=True, capture_output=True, text=True
        )
        return process.stdout.strip()

    run("init", "-q", "-b", "trunk")
    (folder / "code.py").write_text("x = 1\n")
    run("add", ".")
    run("commit", "-q", "-m", "one")
    return run


def test_a_folder_without_git_has_no_commit(folder: Path) -> None:
    """A folder without git has no commit, and reading it raises no error."""
    code = read_code(folder)
    assert (Code(None, None, None, (), (), ""), "no git commit") == (code, str(code))


def test_a_checkout_without_a_commit_has_none(folder: Path) -> None:
    """A checkout without commits has no commit."""
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    assert None is read_code(folder).commit


def test_a_clean_checkout_is_its_commit(folder: Path, git: Git) -> None:
    """A clean checkout is described by its commit and branch, without a patch."""
    commit = git("rev-parse", "HEAD")
    code = read_code(folder)
    assert Code(commit, "trunk", None, (), (), "") == code
    assert f"git {commit[:7]}" == str(code)


def test_a_folder_inside_a_checkout_belongs_to_it(folder: Path, git: Git) -> None:
    """A folder inside a checkout has the commit of the checkout."""
    (folder / "inside").mkdir()
    assert git("rev-parse", "HEAD") == read_code(folder / "inside").commit


def test_changes_are_named_and_kept(folder: Path, git: Git) -> None:
    """The patch, applied to the commit, restores the changed and the new files."""
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
    """An untracked text file is in the patch, byte for byte."""
    (folder / "mine.py").write_text(text)
    code = read_code(folder)
    (folder / "mine.py").unlink()
    (folder / "diff.patch").write_text(code.patch)
    git("apply", "diff.patch")
    assert text == (folder / "mine.py").read_text()


def test_a_binary_file_is_not_in_the_patch(folder: Path, git: Git) -> None:
    """A binary file is not in the patch, and the description says so."""
    (folder / "picture.png").write_bytes(b"\x89PNG\xff")
    code = read_code(folder)
    assert (False, "") == (code.saved, code.patch)
    assert str(code).endswith("(dirty: 1 file, diff saved in part)")


def test_staged_changes_are_changes(folder: Path, git: Git) -> None:
    """Staged files are in the patch, including removed and renamed ones."""
    (folder / "staged.py").write_text("z = 3\n")
    git("add", "staged.py")
    git("mv", "code.py", "renamed.py")
    code = read_code(folder)
    assert {"code.py", "renamed.py", "staged.py"} == set(code.dirty)
    assert "+z = 3" in code.patch


def test_one_changed_file_is_counted_in_the_singular(folder: Path, git: Git) -> None:
    """The description says `1 file` for one changed file."""
    (folder / "code.py").write_text("x = 2\n")
    assert str(read_code(folder)).endswith("(dirty: 1 file, diff saved)")


def test_secrets_in_code_do_not_reach_the_patch(
    folder: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The patch masks values that look like secrets and values of secret variables."""
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef")
    text = 'login("0123456789abcdef")\napi_key = "something"\nurl = "https://me:pw@host/"\n'
    (folder / "code.py").write_text(text)
    patch = read_code(folder).patch
    leaked = [word for word in ("0123456789abcdef", "something", "me:pw") if word in patch]
    assert ([], 3) == (leaked, patch.count(MASK))


def test_the_remote_is_named_without_its_login(folder: Path, git: Git) -> None:
    """A token in the address of the remote is masked."""
    git("remote", "add", "origin", "https://token@host/repository.git")
    assert f"https://{MASK}@host/repository.git" == read_code(folder).remote


def test_a_large_patch_is_cut(folder: Path, git: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    """A patch is cut at a fixed length, so that a large file does not fill the disk."""
    assert 5_000_000 == provenance.LARGEST_PATCH
    monkeypatch.setattr(provenance, "LARGEST_PATCH", 50_000)
    (folder / "code.py").write_text("x = 1\n" * 10_000)
    assert 50_000 == len(read_code(folder).patch)


def test_reading_executes_nothing_of_the_checkout(folder: Path, git: Git) -> None:
    """Programs that the git configuration of the checkout names are not executed."""
    program = folder.parent / "program"
    trace = folder.parent / "ran"
    program.write_text(f"#!/bin/sh\ntouch '{trace}'\n")
    program.chmod(0o755)
    git("config", "core.fsmonitor", str(program))
    git("config", "diff.external", str(program))
    (folder / "code.py").write_text("x = 2\n")
    assert ("code.py",) == read_code(folder).dirty
    assert not trace.exists()


def test_provenance_is_complete_and_masked(folder: Path) -> None:
    """The provenance has command, code, folder and allowed variables, with masked secrets."""
    environment = {
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "0",
        "PYTHONPATH": "/x:hunter2-hunter2",
        "HOME": "/home/someone",
        "DB_PASSWORD": "hunter2-hunter2",
    }
    command = ["rlexp", "run", "tracker.api_key=abc", "x=hunter2-hunter2"]
    record = collect(read_code(folder), command, folder, environment)
    assert ["rlexp", "run", f"tracker.api_key={MASK}", f"x={MASK}"] == record["command"]
    expected = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "0", "PYTHONPATH": f"/x:{MASK}"}
    assert (expected, str(folder)) == (record["variables"], record["folder"])
    assert {"commit", "branch", "remote", "dirty", "untracked", "saved"} == set(record["code"])
    assert record == json.loads(json.dumps(record))


def test_packages_are_those_that_are_installed() -> None:
    """The installed packages are listed by name in alphabetical order."""
    versions = packages()
    assert {"numpy", "rlexp", "torch"} <= set(versions)
    assert sorted(versions) == list(versions)


def test_the_machine_is_described() -> None:
    """The machine has a host, a system, a processor, memory and the usable cores."""
    description = machine()
    assert (usable_cores(), True) == (description["cores"], description["memory"] > 10**8)
    assert all(description[key] for key in ("host", "system", "processor"))
