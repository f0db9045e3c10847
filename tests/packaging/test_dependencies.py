"""Every import is declared as a dependency, and CI tests one version of each dependency."""

import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import grimp
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rlexp.environments.suites import SUITES

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINS = [
    line
    for line in (ROOT / ".ci" / "constraints.txt").read_text().splitlines()
    if not line.startswith("#")
]


def names(requirements: list[str]) -> set[str]:
    """The canonical names of the packages in a list of requirements."""
    return {canonicalize_name(Requirement(text).name) for text in requirements}


EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
APART = {suite.extra for suite in SUITES if suite.beside is not None} | {"compiled", "gbrl", "ray"}
"""Extras that need a separate environment, and those that are too large or too rare to install by default."""


OF_NOTEBOOKS = {"IPython"}
"""Modules that are imported only in a process that has imported them already: a notebook."""
CANNOT_BE_DECLARED = {"brax", "gymnax"}
"""Modules of packages that users install for tasks of their own.

gymnax excludes the version of Gymnasium that rlexp needs, so no extra can name both. Brax is maintained no more.
"""


def test_every_import_is_declared() -> None:
    """Each package that rlexp imports is a direct dependency."""
    graph = grimp.build_graph("rlexp", include_external_packages=True, cache_dir=None)
    # A recipe runs in a virtual environment of its own, which has the packages that its yaml names.
    modules = {
        module
        for module in graph.modules
        if not module.startswith("rlexp")
        and not all(
            importer.startswith("rlexp.recipes.")
            for importer in graph.find_modules_that_directly_import(module)
        )
    }
    providers = packages_distributions()
    for_users = chain.from_iterable(
        requirements for extra, requirements in EXTRAS.items() if extra not in {"dev", "docs"}
    )
    declared = names([*PROJECT["dependencies"], *for_users])
    # Where several packages provide one module, one of them requires the others.
    assert set() == {
        module
        for module in modules - set(sys.stdlib_module_names) - OF_NOTEBOOKS - CANNOT_BE_DECLARED
        if declared.isdisjoint(map(canonicalize_name, providers.get(module, [module])))
    }


def test_every_dependency_is_imported() -> None:
    """Each dependency is imported by rlexp."""
    graph = grimp.build_graph("rlexp", include_external_packages=True, cache_dir=None)
    providers = packages_distributions()
    imported = {
        canonicalize_name(name) for module in graph.modules for name in providers.get(module, [])
    }
    assert set() == names(PROJECT["dependencies"]) - imported


def test_all_holds_every_extra_for_users() -> None:
    """`rlexp[all]` has all extras except those for developers or for separate environments."""
    (everything,) = EXTRAS["all"]
    assert EXTRAS.keys() - {"all", "dev", "docs"} - APART == Requirement(everything).extras


def test_every_suite_has_its_extra() -> None:
    """Each extra that an error names exists."""
    assert {suite.extra for suite in SUITES} <= EXTRAS.keys()


def test_users_are_not_pinned() -> None:
    """No requirement pins a version, so rlexp can be installed beside other packages."""
    requirements = chain(PROJECT["dependencies"], *EXTRAS.values())
    assert [] == [text for text in requirements if "==" in text]


def test_every_requirement_has_one_version() -> None:
    """CI installs an exact version of each requirement, and torch without a local build."""
    assert [] == [pin for pin in PINS if not re.fullmatch(r"[\w.-]+==[\w.]+", pin)]
    assert "torch==2.13.0" in PINS
    declared = names([*PROJECT["dependencies"], *chain.from_iterable(EXTRAS.values())])
    assert set() == declared - names(PINS) - {"rlexp"}


def test_versions_satisfy_the_ranges() -> None:
    """The versions that CI tests are within the declared ranges."""
    versions = {canonicalize_name(p): v for p, _, v in (pin.partition("==") for pin in PINS)}
    installed_extras = [
        extra_requirements for extra, extra_requirements in EXTRAS.items() if extra not in APART
    ]
    requirements = [
        Requirement(text) for text in chain(PROJECT["dependencies"], *installed_extras)
    ]
    refused = [
        str(requirement)
        for requirement in requirements
        if requirement.name != "rlexp"
        and versions[canonicalize_name(requirement.name)] not in requirement.specifier
    ]
    assert [] == refused
