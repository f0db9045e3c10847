"""Virtual environments of training scripts whose packages cannot live beside those of rlexp."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import psutil

from rlexp.config.config_files import group_options
from rlexp.config.option_lookup import read_option
from rlexp.errors import ConfigError
from rlexp.store.layout import cache_folder

GROUP = "algorithm"
FOLDER = "recipe/"
"""The beginning of the options that are recipes."""
READY = "ready.json"
"""File of a complete environment: its requirements and all packages with their versions."""
PACKAGE = Path(__file__).parents[3]
"""The package of rlexp, whose helper `rlexp.trainer` scripts import."""
UNNAMED = "write these requirements into conf/algorithm/recipe/NAME.yaml, and then type rlexp recipe NAME"
"""What to do where no recipe has the requirements."""
LAST_LINES = 3
"""Lines of a failed installation that are shown."""
NAME_OF_PACKAGE = re.compile(r"[A-Za-z0-9._-]+")
"""The beginning of a requirement (`sbx-rl` of `sbx-rl==0.28.0`)."""
EXAMINE = """
import sys, rlexp.trainer
from importlib.metadata import files
for name in sys.argv[1:]:
    for file in files(name) or ():
        # Compiled files come and go.
        if file.suffix in {".py", ".so"}:
            file.locate().stat()
"""
"""Code that ends with an error where a file of a required package is missing; it imports no library."""
LONGEST_ANSWER = 60.0
"""Seconds after which the Python of an environment counts as broken."""


@dataclass(frozen=True, slots=True)
class RecipeEnvironment:
    """The virtual environment for a list of requirements.

    Attributes:
        name: The name of the recipe with these requirements, for messages; empty if none has them.
        requirements: The packages, with versions.
    """

    name: str
    requirements: Sequence[str]

    @property
    def folder(self) -> Path:
        """Its folder in the user's cache; equal requirements share one."""
        # The environment links to this package of rlexp.
        about = [sorted(self.requirements), sys.version_info[:2], str(PACKAGE)]
        return cache_folder() / "recipes" / sha256(json.dumps(about).encode()).hexdigest()[:16]

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def packages(self) -> list[str]:
        """All its packages with their versions; empty where it is not installed."""
        try:
            return list(json.loads((self.folder / READY).read_text())["packages"])
        except (OSError, ValueError, KeyError):
            return []

    @property
    def is_installed(self) -> bool:
        """Whether an installation was finished."""
        return (self.folder / READY).is_file()

    def check(self) -> None:
        """Refuse an environment that is missing or broken, before anything trains.

        Raises:
            ConfigError: It is not installed, or a file of its Python or of a required package is missing.
        """
        command = f"rlexp recipe {self.name}"
        if not self.is_installed:
            raise ConfigError(
                f"the script needs {', '.join(self.requirements)} in a virtual environment of its "
                f"own: {command if self.name else UNNAMED}",
                code="missing_package",
                command=command if self.name else "rlexp recipe",
            )
        # A package by its path or address has a name that only pip knows.
        names = [NAME_OF_PACKAGE.match(r) for r in self.requirements if "/" not in r]
        try:
            subprocess.run(
                [self.python, "-c", EXAMINE, *(name[0] for name in names if name)],
                capture_output=True, check=True, timeout=LONGEST_ANSWER, env=clean_variables(),
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            raise ConfigError(
                f"the virtual environment of {self.name or 'these requirements'} is broken "
                f"({self.folder}): {command if self.name else UNNAMED} --again",
                code="missing_package",
                command=f"{command} --again" if self.name else "rlexp recipe",
            ) from error

    def install(self, *, again: bool = False) -> None:
        """Make the environment; a complete one is kept unless `again` is given.

        Raises:
            ConfigError: A package cannot be had; the message has the installer's last line.
        """
        if self.is_installed and not again:
            return
        # Built beside its place: a killed installation never looks like a complete one.
        building = self.folder.with_name(f"{self.folder.name}.{os.getpid()}")
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            self._remove_abandoned()
            self._build(building)
            self._put_in_place(building, again=again)
        except OSError as error:
            raise ConfigError(
                f"the virtual environment of {self.name} cannot be written into "
                f"{self.folder.parent}: {error.strerror}; RLEXP_HOME=FOLDER names another place"
            ) from error
        finally:
            shutil.rmtree(building, ignore_errors=True)

    def _remove_abandoned(self) -> None:
        """Remove what killed installations have left."""
        for folder in self.folder.parent.glob(f"{self.folder.name}.*"):
            if not psutil.pid_exists(int(folder.suffix[1:])):
                shutil.rmtree(folder, ignore_errors=True)

    def _put_in_place(self, building: Path, *, again: bool) -> None:
        """Give a complete environment its name; another command may have been faster."""
        if self.is_installed and not again:
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        try:
            building.rename(self.folder)
        except OSError:
            if not self.is_installed:
                raise

    def _build(self, folder: Path) -> None:
        python = str(folder / "bin" / "python")
        pip = [python, "-m", "pip", "--disable-pip-version-check"]
        self._execute([sys.executable, "-m", "venv", str(folder)])
        self._execute([*pip, "install", "-q", "--no-input", *self.requirements])
        code = "import sysconfig; print(sysconfig.get_path('purelib'))"
        # A link to the package alone: the other packages of rlexp must not be found there.
        site = Path(self._execute([python, "-c", code]).strip())
        (site / PACKAGE.name).symlink_to(PACKAGE, target_is_directory=True)
        packages = self._execute([*pip, "freeze"]).splitlines()
        about = {"requirements": list(self.requirements), "packages": packages}
        (folder / READY).write_text(json.dumps(about, indent=2) + "\n")

    def _execute(self, words: Sequence[str]) -> str:
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, env=clean_variables()
        )
        if done.returncode:
            # `venv` writes its reasons to standard output.
            text = done.stderr if done.stderr.strip() else done.stdout
            lines = [line for line in text.splitlines() if line.strip()]
            errors = [line for line in lines if line.startswith("ERROR")] or lines[-LAST_LINES:]
            raise ConfigError(
                f"the virtual environment of {self.name} cannot be made, "
                f"{', '.join(self.requirements)}: {' '.join(errors[-1:])}",
                code="missing_package",
            )
        return done.stdout


def recipe_names(folder: Path) -> list[str]:
    """The names of the recipes of rlexp and of a workspace, sorted (`sbx_ppo`).

    Args:
        folder: The folder of the workspace.
    """
    recipes = (o for o in group_options(GROUP, folder) if o.startswith(FOLDER))
    return [option.removeprefix(FOLDER) for option in recipes]


def recipe_with(requirements: Sequence[str], folder: Path) -> str:
    """The name of the first recipe with these requirements; empty without any.

    Args:
        requirements: The packages, with versions.
        folder: The folder of the workspace.
    """
    for name in recipe_names(folder):
        part = read_option(GROUP, f"{FOLDER}{name}", folder)
        if sorted(part.get("requirements") or ()) == sorted(requirements):
            return name
    return ""


def clean_variables() -> dict[str, str]:
    """The variables of this process without those that lead a Python to packages of another."""
    left_out = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"}
    return {name: value for name, value in os.environ.items() if name not in left_out}
