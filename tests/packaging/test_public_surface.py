"""The public surface is recorded in one file, from which nothing disappears unnoticed."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from rlexp.store import schemas

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".ci" / "public_surface.py"
RECORDED = ROOT / ".ci" / "public_surface.txt"
PRESENT = {"command rlexp run", "exit code 0 COMPLETE"}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script as a module."""
    specification = importlib.util.spec_from_file_location("public_surface", SCRIPT)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A recorded surface that is that of the program."""
    path = tmp_path / "surface.txt"
    path.write_text("".join(f"{line}\n" for line in sorted(PRESENT)))
    return path


def test_the_recorded_surface_is_that_of_the_program() -> None:
    """No recorded name is gone, and every new name is recorded."""
    process = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
    assert (0, "") == (process.returncode, process.stderr)


@pytest.mark.parametrize(
    "line",
    [
        "command rlexp run option --json flag",
        "command rlexp config show",
        "exit code 75 SIGUSR1",
        "error code unknown_setting",
        "document run-outcome version 1 field interrupted: string or null",
        "python rlexp.compare",
        "python rlexp.run variadic positional *settings",
        "setting config.yaml budget.steps",
        "setting algorithm=ppo gamma",
        "setting environment=lunar_lander",
        "file schema SPEC 1",
    ],
)
def test_every_kind_of_name_is_recorded(line: str) -> None:
    """The recorded surface holds names of each kind."""
    assert line in RECORDED.read_text().splitlines()


def test_an_unchanged_surface_needs_nothing(script: ModuleType, recorded: Path) -> None:
    """Without a difference there is nothing to do, and nothing is written."""
    before = recorded.stat().st_mtime_ns
    assert script.compare(recorded, PRESENT, write=True, accept_removals=True) is None
    assert before == recorded.stat().st_mtime_ns


def test_a_new_name_has_to_be_recorded(script: ModuleType, recorded: Path) -> None:
    """A new name is shown with the command that records it, and that command records it."""
    present = {*PRESENT, "command rlexp fly"}
    text = script.compare(recorded, present, write=False, accept_removals=False)
    assert "+ command rlexp fly" in text
    assert text.endswith("public_surface.py --write")
    assert script.compare(recorded, present, write=True, accept_removals=False) is None
    assert present == set(recorded.read_text().splitlines())


def test_a_removed_name_is_refused(script: ModuleType, recorded: Path) -> None:
    """A name that is gone is shown and stays recorded, unless its removal is accepted."""
    present = {"command rlexp run"}
    text = script.compare(recorded, present, write=True, accept_removals=False)
    assert "- exit code 0 COMPLETE" in text
    assert "docs/reference/stability.md" in text
    assert PRESENT == set(recorded.read_text().splitlines())
    assert script.compare(recorded, present, write=True, accept_removals=True) is None
    assert present == set(recorded.read_text().splitlines())


@pytest.mark.parametrize("version", range(1, schemas.SPEC.version + 1))
def test_records_of_every_schema_are_kept(version: int) -> None:
    """Records of each schema of a run are in the repository, for the tests that read them."""
    assert (ROOT / f"tests/store/schema_{version}/runs.tar.xz").exists()
