"""Checks of what is installed: versions against our own ranges, and pairs that do not get on."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires
from importlib.util import find_spec

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from rlexp.app.diagnostics.finding import Finding, fail, ok, warn
from rlexp.environments.suites import SUITES, is_installed, obstacle
from rlexp.store.provenance import packages

VIDEO = ("video", "imageio_ffmpeg")
"""An extra that is no suite of environments, and the module that it brings."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two packages that do not get on; an empty range is any version."""

    first: str
    first_range: str
    second: str
    second_range: str
    why: str
    fix: str


PAIRS = (
    Pair(
        *("pygame", "", "pygame-ce", ""),
        "both install into the folder pygame/, so that one has overwritten parts of the other",
        "pip uninstall pygame pygame-ce, then pip install pygame-ce; give rlexp[multi-objective], "
        "which brings pygame, a virtual environment of its own",
    ),
    Pair(
        *("metaworld", ">=3,<3.2", "mujoco", "!=3.3.0"),
        "metaworld 3.1 works with mujoco 3.3.0 only",
        "give rlexp[metaworld] a virtual environment of its own",
    ),
    Pair(
        *("gymnasium-robotics", "<=1.4.2", "mujoco", ">=4"),
        "gymnasium-robotics works with mujoco before 4 only",
        "give rlexp[robotics] a virtual environment of its own",
    ),
    Pair(
        *("opencv-python", "", "opencv-python-headless", ""),
        "both install into the folder cv2/, so that one has overwritten parts of the other",
        "pip uninstall opencv-python opencv-python-headless, then pip install one of them",
    ),
    Pair(
        *("hydra-core", "<1.4", "omegaconf", ">=2.4"),
        "hydra 1.3 does not work with omegaconf 2.4",
        "pip install 'omegaconf<2.4'",
    ),
    Pair(
        *("gymnax", ">=1.0,<1.1", "gymnasium", ">=1.4"),
        "gymnax 1.0 needs gymnasium before 1.4",
        "give gymnax an environment of its own",
    ),
    Pair(
        *("rejax", "<=0.1.3", "gymnasium", ">=1.4"),
        "rejax 0.1 needs gymnasium before 1.4",
        "give rejax an environment of its own",
    ),
    Pair(
        *("rliable", "<=1.2", "pandas", ">=3"),
        "rliable brings a version of arch that cannot be imported under pandas 3",
        "give rliable an environment of its own, with pandas before 3",
    ),
    Pair(
        *("hydra-optuna-sweeper", "<=1.3", "optuna", ">=3"),
        "hydra-optuna-sweeper 1.3 needs optuna before 3",
        "pip uninstall hydra-optuna-sweeper: rlexp does not use it",
    ),
)


def check_installation() -> list[Finding]:
    """Check Python, the platform, our requirements, and known-bad pairs."""
    installed = {str(canonicalize_name(name)): version for name, version in packages().items()}
    try:
        python = str(metadata("rlexp")["Requires-Python"])
        required = [Requirement(line) for line in requires("rlexp") or ()]
    except PackageNotFoundError:
        return [
            fail("packages", "rlexp itself is not installed", "pip install -e . in its folder")
        ]
    return [
        check_python(platform.python_version(), python),
        _platform(),
        *check_requirements(required, installed),
        *check_pairs(installed),
        _extras(),
    ]


def check_python(version: str, accepted: str) -> Finding:
    """Check the version of Python against the range that we accept."""
    if not SpecifierSet(accepted).contains(version, prereleases=True):
        return fail("python", f"{version}, rlexp needs {accepted}", "use another Python")
    return ok("python", version)


def _platform() -> Finding:
    told = platform.platform()
    if platform.system() == "Linux":
        return ok("platform", told)
    if platform.system() == "Windows":
        return fail("platform", f"{told} cannot fork processes", "use WSL, which is a Linux")
    return warn("platform", f"{told} is not tested", "use Linux where it does not work")


def check_requirements(required: list[Requirement], installed: Mapping[str, str]) -> list[Finding]:
    """Check installed versions against the ranges of requirements.

    Args:
        required: Those of our own package.
        installed: Versions by canonical name.
    """
    good, bad = [], []
    for requirement in required:
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        version = installed.get(canonicalize_name(requirement.name))
        if version is None:
            detail = f"{requirement.name} is not installed"
        elif _inside(version, str(requirement.specifier)):
            good.append(f"{requirement.name} {version}")
            continue
        else:
            detail = f"{requirement.name} {version}, rlexp needs {requirement.specifier}"
        bad.append(
            fail("packages", detail, f"pip install '{requirement.name}{requirement.specifier}'")
        )
    return [*([ok("packages", ", ".join(sorted(good)))] if good else []), *bad]


def check_pairs(installed: Mapping[str, str]) -> list[Finding]:
    """Name the pairs of packages that do not get on."""
    return [
        warn(
            "packages",
            f"{pair.first} {installed[pair.first]} and {pair.second} {installed[pair.second]}: "
            f"{pair.why}",
            pair.fix,
        )
        for pair in PAIRS
        if _present(installed, pair.first, pair.first_range)
        and _present(installed, pair.second, pair.second_range)
    ]


def _present(installed: Mapping[str, str], name: str, accepted: str) -> bool:
    return name in installed and _inside(installed[name], accepted)


def _inside(version: str, accepted: str) -> bool:
    try:
        return SpecifierSet(accepted).contains(version, prereleases=True)
    except InvalidVersion:
        return False


def _extras() -> Finding:
    installed = {suite.extra: is_installed(suite) for suite in SUITES}
    installed[VIDEO[0]] = find_spec(VIDEO[1]) is not None
    there = [name for name in sorted(installed) if installed[name]]
    absent = [name for name in sorted(installed) if not installed[name]]
    apart = {suite.extra: reason for suite in SUITES if (reason := obstacle(suite))}
    told = f"installed: {', '.join(there) or 'none'}"
    if here := [name for name in absent if name not in apart]:
        told += f"; not installed: {', '.join(here)} (pip install 'rlexp[{','.join(here)}]')"
    for name in absent:
        if name in apart:
            told += f"; only in a virtual environment of its own: {name} ({apart[name]})"
    return ok("extras", told)
