"""Dependencies: what is imported is asked for, and what is asked for has one version in CI."""

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
APART = {suite.extra for suite in SUITES if suite.beside is not None} | {"ray"}
"""Extras that need an environment of their own, and one that is too large to come unasked."""


def test_every_import_is_asked_for() -> None:
    """A package that our code imports is a dependency by name, not by another's grace."""
    graph = grimp.build_graph("rlexp", include_external_packages=True, cache_dir=None)
    modules = {module for module in graph.modules if not module.startswith("rlexp")}
    providers = packages_distributions()
    for_users = chain.from_iterable(own for extra, own in EXTRAS.items() if extra != "dev")
    asked = names([*PROJECT["dependencies"], *for_users])
    # Of packages that bring one module together, one asks for the others.
    assert set() == {
        module
        for module in modules - set(sys.stdlib_module_names)
        if asked.isdisjoint(map(canonicalize_name, providers.get(module, [module])))
    }


def test_every_dependency_is_imported() -> None:
    """No dependency is left over from code that is gone."""
    graph = grimp.build_graph("rlexp", include_external_packages=True, cache_dir=None)
    providers = packages_distributions()
    imported = {
        canonicalize_name(name) for module in graph.modules for name in providers.get(module, [])
    }
    assert set() == names(PROJECT["dependencies"]) - imported


def test_all_holds_every_extra_for_users() -> None:
    """`rlexp[all]` is everything but what only developers need, and what cannot live beside it."""
    (everything,) = EXTRAS["all"]
    assert EXTRAS.keys() - {"all", "dev"} - APART == Requirement(everything).extras


def test_every_suite_has_its_extra() -> None:
    """A refusal names no extra that does not exist."""
    assert {suite.extra for suite in SUITES} <= EXTRAS.keys()


def test_users_are_not_pinned() -> None:
    """A requirement gives a range, so that rlexp can be installed beside other packages."""
    asked = chain(PROJECT["dependencies"], *EXTRAS.values())
    assert [] == [text for text in asked if "==" in text]


def test_every_requirement_has_one_version() -> None:
    """CI installs exact versions only, torch's as it was released: no local build."""
    assert [] == [pin for pin in PINS if not re.fullmatch(r"[\w.-]+==[\w.]+", pin)]
    assert "torch==2.13.0" in PINS
    asked = names([*PROJECT["dependencies"], *chain.from_iterable(EXTRAS.values())])
    assert set() == asked - names(PINS) - {"rlexp"}


def test_versions_satisfy_the_ranges() -> None:
    """The versions that CI tests are among those that users may get."""
    versions = {canonicalize_name(p): v for p, _, v in (pin.partition("==") for pin in PINS)}
    together = [own for extra, own in EXTRAS.items() if extra not in APART]
    asked = [Requirement(text) for text in chain(PROJECT["dependencies"], *together)]
    refused = [
        str(one)
        for one in asked
        if one.name != "rlexp" and versions[canonicalize_name(one.name)] not in one.specifier
    ]
    assert [] == refused
