"""The Makefile and the CI script work in a folder with a space in its name."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COPIED = ("Makefile", "pyproject.toml", ".ci/constraints.txt", ".ci/run")

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the files that both commands read, without an environment."""
    folder = tmp_path / "a fresh clone"
    for name in COPIED:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return folder


@pytest.fixture
def complete_environment(checkout: Path) -> Path:
    """The file that marks the environment of the checkout as complete."""
    ready_file = checkout / ".venv" / "ready"
    ready_file.parent.mkdir()
    ready_file.write_text(f"{checkout.resolve()}\n")
    return ready_file


def make(checkout: Path, *overrides: str) -> subprocess.CompletedProcess[str]:
    """Run make like a user, also if make started the tests."""
    return subprocess.run(
        ["make", *overrides],
        cwd=checkout,
        env={k: v for k, v in os.environ.items() if not k.startswith("MAKE")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_demo_installs_first(checkout: Path) -> None:
    """Without an environment, make creates one with exact versions before the demo."""
    commands = make(checkout, "--dry-run", "demo").stdout
    assert re.search(r"-m venv(.|\n)*constraints\.txt(.|\n)*\brun \+benchmark=cartpole", commands)


def test_repeat_installs_nothing(checkout: Path, complete_environment: Path) -> None:
    """With an up-to-date environment, make runs only the demo."""
    commands = make(checkout, "--dry-run", "demo").stdout
    assert ".venv/bin/rlexp run +benchmark=cartpole experiment=demo" in commands
    assert "install" not in commands


@pytest.mark.parametrize("name", ["pyproject.toml", ".ci/constraints.txt"])
def test_changed_requirements_are_installed(
    checkout: Path, complete_environment: Path, name: str
) -> None:
    """An environment that is older than its requirements is updated."""
    os.utime(complete_environment, (1, 1))
    (checkout / name).touch()
    assert "pip install" in make(checkout, "--dry-run", "demo").stdout


def test_moved_environment_is_created_again(checkout: Path, complete_environment: Path) -> None:
    """An environment from another folder is replaced, because its scripts point there."""
    moved_checkout = checkout.rename(checkout.with_name("another place"))
    assert "-m venv" in make(moved_checkout, "--dry-run", "test").stdout
    assert not (moved_checkout / ".venv" / "ready").exists()


def test_test_runs_every_check(checkout: Path, complete_environment: Path) -> None:
    """`make test` lints, checks types and contracts, builds the documentation, and runs the tests."""
    commands = make(checkout, "--dry-run", "test").stdout.split("\n")
    expected = [
        "make --no-print-directory --jobs=2 lint docs collected",
        "ruff check",
        "ruff format --check",
        "mypy",
        "lint-imports",
        "python .ci/documentation.py",
        "pytest --collect-only -q >/dev/null 2>&1 || true",
        "pytest -n 3 --dist loadfile --no-loadscope-reorder",
        "",
    ]
    assert expected == [line.removeprefix(".venv/bin/") for line in commands]


def test_old_python_is_refused(checkout: Path) -> None:
    """With an old Python, make prints the needed version and creates no environment."""
    old_python = checkout / "old python"
    old_python.write_text("#!/bin/sh\nexit 1\n")
    old_python.chmod(0o755)
    process = make(checkout, "demo", f"PYTHON={old_python}")
    assert "needs Python 3.11 or newer" in process.stderr
    assert (2, False) == (process.returncode, (checkout / ".venv").exists())


@pytest.fixture
def ci(checkout: Path, tmp_path: Path) -> Callable[[str], int]:
    """Run the CI script on a README with a test command; returns its exit code.

    No program is missing for the script, and `apt-get` is none that installs: a test must not change the machine.
    """
    programs = tmp_path / "programs"
    programs.mkdir()
    listed = (ROOT / ".ci" / "run").read_text().partition("<<'PROGRAMS'\n")[2]
    needed = [line.split()[0] for line in listed.partition("\nPROGRAMS\n")[0].splitlines()]
    assert {"strace", "pg_ctl"} <= set(needed)
    for name in (*needed, "apt-get"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    variables = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}

    def run(command: str) -> int:
        (checkout / "README.md").write_text(f"# Title\n\n```bash test\n{command}\n```\n\ntext\n")
        script = checkout / ".ci" / "run"
        return subprocess.run([script], cwd=tmp_path, env=variables, check=False).returncode

    return run


@pytest.mark.parametrize(("command", "code"), [("true", 0), ("exit 3", 3), ("false\ntrue", 1)])
def test_ci_fails_when_a_test_fails(ci: Callable[[str], int], command: str, code: int) -> None:
    """The exit code of CI is that of the command in the README."""
    assert code == ci(command)


def test_ci_works_in_the_checkout(ci: Callable[[str], int]) -> None:
    """CI runs the command in the checkout, also when it is started from another folder."""
    assert 0 == ci("test -f pyproject.toml")


def test_ci_needs_a_command(ci: Callable[[str], int]) -> None:
    """CI fails if the README has no usable test command."""
    assert 1 == ci("```\n```bash other")
