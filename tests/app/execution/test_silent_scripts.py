"""A script that certainly cannot report a final evaluation is refused before it trains."""

import os
import sys
from pathlib import Path

import pytest

from rlexp.app.execution.silent_scripts import silent_script

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
    return silent_script(command)


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
