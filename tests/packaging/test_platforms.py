"""Declared Python versions and operating systems are those on which rlexp runs."""

import platform
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from rlexp.app.diagnostics import installation
from rlexp.app.diagnostics.finding import FindingStatus
from rlexp.executors.memory import out_of_memory_kills
from rlexp.store.file_systems import network_file_system

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WINDOWS = (
    "import runpy, sys; sys.platform = 'win32'; runpy.run_module('rlexp', run_name='__main__')"
)


def test_windows_is_refused_on_one_line() -> None:
    """On Windows, every command ends with exit code 2 and the alternative, without a traceback."""
    command = [sys.executable, "-c", WINDOWS]
    process = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (2, "", 1) == (process.returncode, process.stdout, len(process.stderr.splitlines()))
    assert "use WSL" in process.stderr


def test_doctor_names_what_is_missing_on_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the files of the Linux kernel, the check of the platform lists what does not work."""
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    (finding,) = [f for f in installation.check_installation() if f.check == "platform"]
    assert finding.status is FindingStatus.WARN
    assert "stack traces of hung runs" in finding.detail
    assert "RLEXP_SHARED=1" in finding.fix


def test_without_proc_processes_and_folders_are_unknown(tmp_path: Path) -> None:
    """Without the files of the Linux kernel, no network folder and no memory kill is reported."""
    missing = tmp_path / "missing"
    assert network_file_system(tmp_path, missing) is None
    assert out_of_memory_kills(missing, missing) == 0


def test_declared_versions_of_python_begin_with_the_lowest() -> None:
    """The classifiers name a gapless range of versions that begins where pip allows installing."""
    prefix = "Programming Language :: Python :: 3."
    minors = [int(c.removeprefix(prefix)) for c in PROJECT["classifiers"] if c.startswith(prefix)]
    assert f">=3.{minors[0]}" == PROJECT["requires-python"]
    assert list(range(minors[0], minors[-1] + 1)) == minors
