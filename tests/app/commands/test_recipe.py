"""Recipes: their list, the virtual environment of one, and what is said when it is missing or broken."""

import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from rlexp import api
from rlexp.app.commands.setup.recipe import RecipeRow, install_recipe, list_recipes
from rlexp.app.commands.train.run import RunOutcome
from rlexp.app.execution.scripts.recipe_environments import RecipeEnvironment
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError

RECIPE = """\
# A trainer of the tests.
_target_: rlexp.algorithms.external.External
name: small
command: "{{python}} train.py"
files: null
requirements: ["{wheel}"]
settings: {{}}
continues: false
hang_timeout: null
"""
SCRIPT = """
import importlib.util
import smalltrainer
from rlexp.trainer import Trainer

assert importlib.util.find_spec("numpy") is None, "packages of rlexp must not be found"
run = Trainer.of_run()
run.evaluated(run.steps, [smalltrainer.SCORE] * 2, final=True)
"""


def wheel_in(folder: Path) -> Path:
    """A wheel of a package with one module, `smalltrainer`."""
    path = folder / "smalltrainer-1.0-py3-none-any.whl"
    about = "smalltrainer-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("smalltrainer.py", "SCORE = 4.5\n")
        wheel.writestr(
            f"{about}/METADATA", "Metadata-Version: 2.1\nName: smalltrainer\nVersion: 1.0\n"
        )
        wheel.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{about}/RECORD", "")
    return path


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A workspace with a recipe, and an empty cache; pip may not use the network."""
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    study = tmp_path / "study"
    folder = study / "conf" / "algorithm" / "recipe"
    folder.mkdir(parents=True)
    (folder / "small.yaml").write_text(RECIPE.format(wheel=wheel_in(tmp_path)))
    (study / "train.py").write_text(SCRIPT)
    monkeypatch.chdir(study)
    return Workspace.here()


def row_of(workspace: Workspace) -> RecipeRow:
    """The row of the recipe in the list."""
    (row,) = [row for row in list_recipes(workspace).rows if row.name == "small"]
    return row


def test_a_recipe_is_listed_installed_and_trains(workspace: Workspace) -> None:
    """Its script has its packages and the helper of scripts, and none of rlexp's packages."""
    words: dict[str, Any] = {
        "algorithm": "recipe/small",
        "budget.steps": 10,
        "budget.final_episodes": 2,
    }
    with pytest.raises(ConfigError, match=r"virtual environment of its own: rlexp recipe small"):
        api.run(**words, experiment="x", seeds={"test": 1})
    assert ("A trainer of the tests.", False) == (
        row_of(workspace).description, row_of(workspace).installed
    )  # fmt: skip
    installation = install_recipe("small", workspace)
    assert row_of(workspace).installed
    assert any(package.startswith("smalltrainer") for package in installation.packages)
    result = api.run(**words, experiment="x", seeds={"test": 1})
    assert isinstance(result, RunOutcome)
    assert [4.5] == [score for scores in result.scores.values() for score in scores.values()]
    (installation.folder / "bin" / "python").unlink()
    with pytest.raises(ConfigError, match=r"is broken .*: rlexp recipe small --again"):
        api.run(**words, experiment="y", seeds={"test": 1})
    install_recipe("small", workspace, again=True)
    subprocess.run([installation.folder / "bin" / "python", "-c", "import rlexp"], check=True)


def test_a_library_that_cannot_be_had_is_named(workspace: Workspace) -> None:
    """A package that does not exist is named by the installer's error, and nothing is left."""
    del workspace
    environment = RecipeEnvironment("b", ["no-such-trainer==1"])
    with pytest.raises(ConfigError, match="no-such-trainer==1"):
        environment.install()
    with pytest.raises(ConfigError, match="write these requirements into conf/algorithm/recipe"):
        api.run("algorithm=recipe/small", {"algorithm.requirements": ["no-such-trainer==1"]})
    assert not environment.is_installed
    assert [] == [*environment.folder.parent.glob("*")]


def test_a_cache_that_cannot_be_written_is_named(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that cannot be made is one line, with the variable that names another."""
    monkeypatch.setenv("RLEXP_HOME", "/proc/nowhere")
    with pytest.raises(ConfigError, match="RLEXP_HOME=FOLDER names another place"):
        install_recipe("small", workspace)


def test_an_unknown_recipe_is_refused_with_the_nearest(workspace: Workspace) -> None:
    """A misspelt name is answered with the right one."""
    with pytest.raises(ConfigError, match="did you mean 'small'"):
        install_recipe("smal", workspace)


def test_a_package_that_lost_a_file_is_refused_before_training(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An environment without a module of a required package is broken, and the message says so."""
    del workspace
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    environment = RecipeEnvironment("small", ["smalltrainer==1.0"])
    environment.install()
    environment.check()
    (module,) = environment.folder.glob("lib/python*/site-packages/smalltrainer.py")
    module.unlink()
    with pytest.raises(ConfigError, match=r"is broken .*: rlexp recipe small --again"):
        environment.check()


def test_the_suggested_command_has_the_words_of_the_recipe(workspace: Workspace) -> None:
    """A recipe that cannot train on the default task says on which one it can."""
    file = workspace.folder / "conf" / "algorithm" / "recipe" / "small.yaml"
    file.write_text(f'{file.read_text()}example: ["environment.name=a b"]\n')
    (suggested,) = install_recipe("small", workspace).next
    assert (
        "rlexp run algorithm=recipe/small 'environment.name=a b' seeds.test=5" == suggested.command
    )
