"""Wheels and editable installs find conf/ and sweeps/ from any folder."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def run(command: Sequence[str | Path], folder: Path) -> str:
    """The standard output of a command that must succeed."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "RLEXP"))}
    process = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env={**variables, "RLEXP_HOME": str(folder.parent)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert 0 == process.returncode, process.stdout + process.stderr
    return process.stdout


def pip(*overrides: str | Path) -> None:
    """Run the pip of the current environment without an index."""
    offline = ("--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--no-index")
    run([sys.executable, "-m", "pip", *overrides, *offline], ROOT)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel that is built from the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--wheel-dir", folder, ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module", params=["wheel", "editable"])
def rlexp(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rlexp command of a fresh environment, which shares the current dependencies."""
    folder = tmp_path_factory.mktemp("an environment")
    run([sys.executable, "-m", "venv", "--without-pip", folder], ROOT)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    source: list[str | Path] = (
        [request.getfixturevalue("wheel")] if request.param == "wheel" else ["-e", ROOT]
    )
    python = folder / "bin" / "python"
    # The borrowed packages include an rlexp, which pip must not try to replace.
    pip("--python", python, "install", "--ignore-installed", *source)
    return folder / "bin" / "rlexp"


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """An empty study."""
    folder = tmp_path / "a study"
    folder.mkdir()
    return folder


def test_wheel_has_every_configuration(wheel: Path) -> None:
    """The wheel has all files of conf/, sweeps/ and entry/."""
    with zipfile.ZipFile(wheel) as archive:
        packed_files = set(archive.namelist())
    files = {
        f"rlexp/{path.relative_to(ROOT)}"
        for folder in ("conf", "sweeps")
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
    }
    assert set() == {*files, "rlexp/entry/entry.yaml", "rlexp/py.typed"} - packed_files


def test_wheel_has_no_tests(wheel: Path) -> None:
    """The wheel has only the package and its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        top_folders = {name.partition("/")[0] for name in archive.namelist()}
    assert {"rlexp", f"{wheel.name.rpartition('-py3')[0]}.dist-info"} == top_folders


def test_package_comes_from_this_install(rlexp: Path, study: Path) -> None:
    """The imported package is the installed one: from the wheel, or from the checkout."""
    code = "import rlexp; print(rlexp.__file__)"
    location = Path(run([rlexp.with_name("python"), "-c", code], study).strip())
    assert location.is_relative_to(rlexp.parents[1]) != location.is_relative_to(ROOT)


def test_lists_algorithms_in_an_empty_folder(rlexp: Path, study: Path) -> None:
    """Packaged options are found in a folder without conf/."""
    names = run([rlexp, "config", "list", "algorithm"], study).split()
    assert {"ppo", "sac", "dqn"} <= set(names)


def test_plans_a_run_in_an_empty_folder(rlexp: Path, study: Path) -> None:
    """A run is composed, validated and planned in a folder without conf/."""
    output = run([rlexp, "run", "experiment=first", "seeds.test=3", "--dry-run"], study)
    assert "3 runs × 100,000 environment steps" in output
    assert [] == list(study.iterdir())


def test_configuration_of_the_study_wins(rlexp: Path, study: Path) -> None:
    """A file in the conf/ of a study replaces the packaged file of the same name."""
    folder = study / "conf" / "environment"
    folder.mkdir(parents=True)
    (folder / "cartpole.yaml").write_text("defaults: [gymnasium, _self_]\nid: Acrobot-v1\n")
    output = run([rlexp, "run", "environment=cartpole", "algorithm=dqn", "--dry-run"], study)
    assert output.startswith("Acrobot-v1-dqn-")
