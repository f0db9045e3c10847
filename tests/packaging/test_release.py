"""A release is refused while version, changelog, citation and git disagree."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".ci" / "release.py"
FILES = {
    "pyproject.toml": '[project]\nname = "rlexp"\nversion = "0.3.0"\n',
    "CHANGELOG.md": "# Changelog\n\n## [0.3.0] - 2027-01-31\n\n## [0.2.0] - 2026-12-24\n",
    "CITATION.cff": "cff-version: 1.2.0\nversion: 0.3.0\ndate-released: 2027-01-31\n",
}

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *words: str) -> None:
    """Run git in a folder."""
    author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", *author, *words], cwd=folder, check=True, capture_output=True)


def release(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the script of a checkout."""
    command = [sys.executable, str(folder / ".ci" / "release.py"), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose tagged commit can be released."""
    folder = tmp_path / "a checkout"
    (folder / ".ci").mkdir(parents=True)
    shutil.copy2(SCRIPT, folder / ".ci")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    git(folder, "tag", "--annotate", "v0.3.0", "--message", "rlexp 0.3.0")
    return folder


def test_a_tagged_commit_can_be_released(checkout: Path) -> None:
    """Where everything agrees, the check prints nothing and succeeds."""
    process = release(checkout, "check")
    assert (0, "", "") == (process.returncode, process.stdout, process.stderr)


@pytest.mark.parametrize(
    ("file", "words", "line"),
    [
        (
            "pyproject.toml",
            ("0.3.0", "0.4.0"),
            "CHANGELOG.md begins with version 0.3.0 and pyproject.toml has 0.4.0",
        ),
        ("CHANGELOG.md", ("2027-01-31", "unreleased"), "write the date of the release there"),
        ("CHANGELOG.md", ("## [0.3.0] - 2027-01-31", ""), "begins with version 0.2.0"),
        ("CITATION.cff", ("version: 0.3.0", "version: 0.2.0"), "CITATION.cff has version 0.2.0"),
        ("CITATION.cff", ("date-released: 2027-01-31", ""), "date-released: 2027-01-31"),
    ],
)
def test_versions_that_disagree_are_refused(
    checkout: Path, file: str, words: tuple[str, str], line: str
) -> None:
    """A version or a date that differs is named on one line, with what to write."""
    (checkout / file).write_text(FILES[file].replace(*words))
    process = release(checkout, "check")
    assert (1, 1) == (process.returncode, process.stderr.count("\n"))
    assert line in process.stderr


def test_changed_files_are_refused(checkout: Path) -> None:
    """A file that is not committed is no part of a release."""
    (checkout / "new.py").touch()
    process = release(checkout, "check")
    assert (1, 1) == (process.returncode, process.stderr.count("\n"))
    assert "1 changed or new files" in process.stderr


def test_a_missing_tag_is_named_with_its_command(checkout: Path) -> None:
    """Without the tag, the check prints the command that sets it, and that command works."""
    git(checkout, "tag", "--delete", "v0.3.0")
    process = release(checkout, "check")
    assert 1 == process.returncode
    _, _, command = process.stderr.strip().rpartition("v0.3.0: ")
    author = "git config user.name a && git config user.email a@example.org"
    subprocess.run(f"{author} && {command}", shell=True, cwd=checkout, check=True)
    assert 0 == release(checkout, "check").returncode


def test_a_tag_on_another_commit_is_refused(checkout: Path) -> None:
    """A version that was tagged is not released again from another commit."""
    git(checkout, "commit", "-q", "--allow-empty", "-m", "second")
    process = release(checkout, "check")
    assert 1 == process.returncode
    assert "git checkout v0.3.0, or raise the version" in process.stderr


def test_a_folder_without_git_is_refused(checkout: Path) -> None:
    """An unpacked archive is no place for a release."""
    shutil.rmtree(checkout / ".git")
    process = release(checkout, "check")
    assert (1, 1) == (process.returncode, process.stderr.count("\n"))
    assert "is no git checkout" in process.stderr


@pytest.mark.parametrize(("failing", "code"), [("nothing", 0), ("compare", 1)])
def test_a_command_that_fails_is_named(checkout: Path, failing: str, code: int) -> None:
    """The first commands run in order in an empty folder, and the first failure ends them."""
    program = checkout / "rlexp"
    program.write_text(f'#!/bin/sh\necho "$1" >> words\ncat words\n[ "$1" != {failing} ]\n')
    program.chmod(0o755)
    process = release(checkout, "try", str(program))
    assert code == process.returncode
    assert ("rlexp compare first ended with exit code 1" in process.stderr) == bool(code)
    assert ("$ rlexp report first" in process.stdout) == (not code)
    assert not (checkout / "words").exists()
