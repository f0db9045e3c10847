"""A script that certainly cannot report a final evaluation is refused before it trains."""

import os
import sys
import venv
from pathlib import Path

import pytest
from command_line import typed

from rlexp.app.execution.scripts.silent_scripts import script_without_rlexp, silent_script

SILENT = """
import os
import random
import gymnasium
import torch
from torch.utils.tensorboard import SummaryWriter
writer = SummaryWriter(f"runs/{random.random()}")
network = torch.nn.Linear(2, 2)
network.eval()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the command."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def verdict(command: str = "python train.py --seed {seed}", **files: str) -> Path | None:
    """The silent script of a command in a folder with these files."""
    for name, text in files.items():
        path = Path(f"{name.replace('__', '/')}.py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    silent = silent_script(command)
    return silent.path if silent is not None else None


@pytest.mark.parametrize(
    "command",
    ["python train.py --seed {seed}", "{python} -u train.py", f"{sys.executable} train.py"],
)
def test_a_script_without_a_report(command: str) -> None:
    """A script of Python that mentions no results is silent, however Python is named."""
    assert Path("train.py") == verdict(command, train=SILENT)


def test_the_folder_alone_is_no_report() -> None:
    """A script that only puts its event files into the folder of the run is silent."""
    text = f'{SILENT}\nfrom os import path\nfolder = "RLEXP_FOLDER"\n'
    assert Path("train.py") == verdict(train=text)


def test_what_a_silent_script_imports_is_read() -> None:
    """Modules beside the script are read, and one that mentions results makes it a reporter."""
    text = f"{SILENT}\nimport parts.network\nimport loop\n"
    quiet = {"parts__network": "x = 1", "loop": "y = 2"}
    assert Path("train.py") == verdict(train=text, **quiet)
    assert verdict(train=text, **{**quiet, "parts__network": "RESULTS = 'RLEXP_RESULTS'"}) is None


@pytest.mark.parametrize(
    "line",
    [
        'results = "RLEXP_RESULTS"',
        "import rlexp",
        "import os; name = os.environ['A']",
        "import os; name = os.getenv('A')",
        "import importlib",
        "exec(open('x').read())",
        "import subprocess",
        "from omegaconf import OmegaConf",
        "this is no python",
    ],
)
def test_a_script_that_may_report(line: str) -> None:
    """No script is refused that mentions results, or can do what its text does not show."""
    assert verdict(train=f"{SILENT}\n{line}\n") is None


@pytest.mark.parametrize(
    "command",
    [
        "python train.py {results}",
        "python train.py --config {configuration}",
        "python train.py --out {folder}",
        "python -m train",
        "python -c 'import train'",
        "sh train.sh",
        "./train.py",
        "/elsewhere/bin/python train.py",
        "python missing.py",
    ],
)
def test_commands_that_may_report(command: str) -> None:
    """No command is refused that tells its files, or executes anything but a file of Python."""
    assert verdict(command, train=SILENT) is None


def test_settings_may_name_the_variables() -> None:
    """A file of settings beside the script that mentions results makes it a reporter."""
    Path("config.yaml").write_text("out: ${oc.env:RLEXP_RESULTS}")
    assert verdict(train=SILENT) is None


def test_packages_of_the_user_may_report(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """A package that was not installed from an index may report for the script."""
    (folder / "site").mkdir()
    (folder / "site" / "mine_alone.py").write_text("x = 1")
    monkeypatch.syspath_prepend(str(folder / "site"))
    assert verdict(train=f"{SILENT}\nimport mine_alone\n") is None
    monkeypatch.setenv("PYTHONPATH", str(folder / "site"))
    assert verdict(train=SILENT) is None


OTHER = "other/bin/python train.py --seed {seed}"


@pytest.fixture
def other(folder: Path) -> Path:
    """The packages of another virtual environment, in which there is no rlexp."""
    venv.create(folder / "other", symlinks=True)
    (packages,) = (folder / "other").glob("lib/python*/site-packages")
    return packages


def test_a_script_of_another_environment_is_silent(other: Path) -> None:
    """A script without a report is found in any Python, and so is a package from an index."""
    (other / "installed.py").write_text("x = 1")
    assert Path("train.py") == verdict(OTHER, train=f"{SILENT}\nimport installed\n")


def test_packages_of_another_environment_may_report(other: Path, folder: Path) -> None:
    """A package that the other Python has from a folder or a repository may report."""
    (folder / "mine").mkdir()
    (folder / "mine" / "editable.py").write_text("x = 1")
    (other / "mine.pth").write_text(str(folder / "mine"))
    assert verdict(OTHER, train=f"{SILENT}\nimport editable\n") is None
    (other / "copied.py").write_text("x = 1")
    record = other / "copied-1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: copied\nVersion: 1.0\n")
    (record / "RECORD").write_text("copied.py,,\n")
    assert verdict(OTHER, train=f"{SILENT}\nimport copied\n") == Path("train.py")
    (record / "direct_url.json").write_text('{"url": "file:///copied"}')
    assert verdict(OTHER, train=f"{SILENT}\nimport copied\n") is None


def test_a_python_that_does_not_answer_refuses_nothing(other: Path) -> None:
    """A script is left alone where its Python cannot say what it imports."""
    assert other.is_dir()
    Path("other/bin/python").unlink()
    Path("other/bin/python").write_text("#!/bin/sh\nexit 3\n")
    Path("other/bin/python").chmod(0o755)
    assert verdict(OTHER, train=SILENT) is None


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("import rlexp; rlexp.final_evaluation(None, None, 1)", True),
        ("if __name__ == '__main__':\n    import rlexp\n", True),
        ("try:\n    import rlexp\nexcept ImportError:\n    pass\n", False),
        ("def report():\n    import rlexp\n", False),
    ],
)
def test_a_script_that_imports_rlexp_needs_it(other: Path, text: str, refused: bool) -> None:
    """A script that surely imports rlexp is refused where its Python does not have it."""
    Path("train.py").write_text(text)
    assert refused is (script_without_rlexp(OTHER) is not None)
    assert script_without_rlexp("python train.py") is None
    (other / "rlexp.py").write_text("")
    assert script_without_rlexp(OTHER) is None


def test_both_refusals_are_one_line_with_what_to_add(other: Path, folder: Path) -> None:
    """The error has the two lines, and says that the other Python needs rlexp."""
    assert other.is_dir()
    words = ("run", "algorithm=external", "environment=cartpole", f"algorithm.command={OTHER}")
    Path("train.py").write_text(SILENT)
    silent = typed(folder, *words)
    Path("train.py").write_text("import rlexp")
    without = typed(folder, *words)
    assert (2, 2) == (silent.code, without.code)
    assert (1, 1) == (silent.err.count("\n"), without.err.count("\n"))
    for text in (
        "add two lines and install rlexp for other/bin/python",
        'writer = SummaryWriter(os.environ["RLEXP_FOLDER"])',
        "import rlexp; rlexp.final_evaluation(environment, act, step)",
    ):
        assert text in silent.err
    assert "train.py imports rlexp, which other/bin/python does not have" in without.err
    assert not (folder / "runs").exists()
