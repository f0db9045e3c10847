"""The source archive holds every file of the repository, and each part says its licence."""

import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
FOREIGN_DATA = ("*.csv.gz", "*.npz")
"""Names of data that others published, below `tests/`."""


def tracked_files() -> set[str]:
    """The files that git tracks or would track, or a skipped test where this is no checkout."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("the folder is no checkout")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {name for name in process.stdout.splitlines() if (ROOT / name).exists()}


@pytest.mark.slow
def test_archive_holds_every_tracked_file(tmp_path: Path) -> None:
    """The archive holds the files that git tracks, and its metadata."""
    tracked = tracked_files()
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    (path,) = tmp_path.iterdir()
    with tarfile.open(path) as archive:
        packed_files = {name.partition("/")[2] for name in archive.getnames()}
    assert {*tracked, "PKG-INFO"} == packed_files


def test_citation_names_this_version() -> None:
    """CITATION.cff and pyproject.toml agree on name, version, licence and description."""
    of_project = {"title": PROJECT["name"], "version": PROJECT["version"]}
    of_project |= {"license": PROJECT["license"], "abstract": PROJECT["description"]}
    assert of_project == {key: CITATION[key] for key in of_project}


def test_licence_is_that_of_the_metadata() -> None:
    """LICENSE is the MIT licence, and the metadata names both."""
    assert ("MIT", ["LICENSE"]) == (PROJECT["license"], PROJECT["license-files"])
    first, _, holder = (ROOT / "LICENSE").read_text().splitlines()[:3]
    assert "MIT License" == first
    assert holder.endswith("The rlexp authors")


@pytest.mark.parametrize(
    "path",
    sorted(path for name in FOREIGN_DATA for path in (ROOT / "tests").rglob(name)),
    ids=lambda path: path.name,
)
def test_data_of_others_have_their_licence(path: Path) -> None:
    """A licence in the folder of the data names their file, or the pattern of its name."""
    names = {path.name, f"NAME.{path.name.partition('.')[2]}"}
    licences = [file.read_text() for file in path.parent.glob("*.LICENSE")]
    assert any(name in text for name in names for text in licences)
