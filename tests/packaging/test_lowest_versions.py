"""Commands work with the lowest allowed version of every dependency.

`make test-lowest` installs these versions and sets `RLEXP_LOWEST_VERSIONS`.
"""

import json
import os
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from in_full import LOWEST_VERSIONS
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
REQUIREMENTS = [
    Requirement(text)
    for text in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
]
TINY = ("budget.steps=2048", "budget.evaluation_every=1024", "budget.final_episodes=3")

pytestmark = [
    pytest.mark.timeout(1200),
    pytest.mark.skipif(
        not LOWEST_VERSIONS,
        reason="needs other packages: make test-lowest",
    ),
]


def rlexp(folder: Path, *overrides: str) -> str:
    """The standard output of a command that must succeed."""
    process = subprocess.run(
        [sys.executable, "-m", "rlexp", *overrides],
        cwd=folder,
        env={**os.environ, "RLEXP_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == process.returncode, process.stdout + process.stderr
    return process.stdout


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with two experiments and a sweep."""
    folder = tmp_path_factory.mktemp("a study")
    rlexp(folder, "run", "algorithm=ppo,a2c", "experiment=duel", "seeds.test=3", *TINY)
    rlexp(folder, "run", "algorithm=dqn", "experiment=dqn", "seeds.test=1", *TINY)
    rlexp(folder, "sweep", "quick", "sweep.trials=3", "budget.steps=2048")
    return folder


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=lambda r: str(r.name))
def test_a_dependency_has_its_lowest_version(requirement: Requirement) -> None:
    """The installed version is the lowest one of pyproject.toml."""
    (lowest,) = (part.version for part in requirement.specifier if part.operator == ">=")
    # A version of torch ends with a plus and the name of its build.
    assert Version(lowest) == Version(Version(version(requirement.name)).public)


def test_runs_are_completed(study: Path) -> None:
    """Every run of the experiment has a score."""
    runs = json.loads(rlexp(study, "ls", "duel", "--json"))["rows"]
    assert ["completed"] * 6 == [run["state"] for run in runs]


def test_a_sweep_has_a_winner(study: Path) -> None:
    """A sweep completes tuning, selection and test."""
    selection = json.loads((study / "runs" / "quick" / "selection.json").read_text())
    assert selection["winner"] in range(3)


def test_labels_are_compared(study: Path) -> None:
    """A comparison has its table and its verdict."""
    text = rlexp(study, "compare", "duel", "--full")
    assert "IQM of every label on every task" in text
    assert "ppo and a2c" in text


@pytest.mark.parametrize("name", ["duel", "quick"])
def test_reports_are_written_in_every_format(study: Path, name: str) -> None:
    """The report has its plots, tables and documents."""
    folder = study / f"report of {name}"
    rlexp(study, "report", name, "--format", "html,latex,csv,json,md", "--output", str(folder))
    assert {".html", ".tex", ".csv", ".json", ".md"} <= {path.suffix for path in folder.rglob("*")}
    (page,) = folder.rglob("*.html")
    assert "<svg" in page.read_text()
