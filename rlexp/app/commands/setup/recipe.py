"""`rlexp recipe`: lists the recipes, and makes the virtual environment of one."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from rlexp.app.execution.scripts.recipe_environments import (
    FOLDER,
    GROUP,
    RecipeEnvironment,
    recipe_names,
)
from rlexp.app.results import NextCommand, Schema
from rlexp.app.workspace import Workspace
from rlexp.config.config_files import options
from rlexp.config.option_lookup import read_option
from rlexp.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeRow:
    """A recipe.

    Attributes:
        name: Its name (`sbx_ppo`).
        description: The first line of its file.
        requirements: The packages of its virtual environment.
        installed: Whether the virtual environment is there.
    """

    name: str
    description: str
    requirements: tuple[str, ...]
    installed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeListing:
    """All recipes, by name.

    Attributes:
        rows: A row for each recipe.
    """

    schema: ClassVar[Schema] = Schema("recipes")

    rows: tuple[RecipeRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeInstallation:
    """The virtual environment of a recipe, complete.

    Attributes:
        name: The recipe.
        folder: The folder of the virtual environment.
        packages: All packages with their versions.
        next: Suggested next commands.
    """

    schema: ClassVar[Schema] = Schema("recipe")

    name: str
    folder: Path
    packages: tuple[str, ...]
    next: tuple[NextCommand, ...]


def list_recipes(workspace: Workspace) -> RecipeListing:
    """List the recipes of rlexp and of the workspace (`conf/algorithm/recipe/`)."""
    rows = []
    for option in options(GROUP, workspace.folder):
        if option.name.startswith(FOLDER):
            name = option.name.removeprefix(FOLDER)
            environment = _environment(name, read_option(GROUP, option.name, workspace.folder))
            rows.append(
                RecipeRow(
                    name=name,
                    description=option.description,
                    requirements=tuple(environment.requirements),
                    installed=environment.is_installed,
                )
            )
    return RecipeListing(rows=tuple(rows))


def install_recipe(name: str, workspace: Workspace, *, again: bool = False) -> RecipeInstallation:
    """Make the virtual environment of a recipe; a complete one is kept unless `again` is given.

    Raises:
        ConfigError: There is no such recipe, or a package cannot be had.
    """
    bare_name = name.removeprefix(FOLDER)
    names = recipe_names(workspace.folder)
    if bare_name not in names:
        raise ConfigError.unknown(
            f"there is no recipe {bare_name!r}",
            bare_name,
            names,
            code="unknown_option",
            key=GROUP,
            command="rlexp recipe",
        )
    part = read_option(GROUP, f"{FOLDER}{bare_name}", workspace.folder)
    environment = _environment(bare_name, part)
    environment.install(again=again)
    environment.check()
    return RecipeInstallation(
        name=bare_name,
        folder=environment.folder,
        packages=tuple(environment.packages),
        next=(
            NextCommand(
                why="train with it",
                command=shlex.join(
                    [
                        *("rlexp", "run", f"algorithm={FOLDER}{bare_name}"),
                        *(part.get("example") or ()),
                        "seeds.test=5",
                    ]
                ),
            ),
        ),
    )


def _environment(name: str, part: Mapping[str, Any]) -> RecipeEnvironment:
    requirements = part.get("requirements")
    if not isinstance(requirements, list) or not all(isinstance(r, str) for r in requirements):
        raise ConfigError(
            f"algorithm={FOLDER}{name} has no list of requirements: write "
            "requirements: [PACKAGE==VERSION] into its file"
        )
    return RecipeEnvironment(name, tuple(requirements))
