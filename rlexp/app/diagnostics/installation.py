"""Checks installed packages: versions, incompatible pairs, and which shortcuts of training they allow."""

import platform
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from rlexp.app.diagnostics.finding import Finding, fail, ok, warn
from rlexp.app.execution.shortcuts import shortcuts_cache
from rlexp.environments.suites import SUITES, installation_conflict, is_installed
from rlexp.installation_way import install_command
from rlexp.store.provenance import machine, packages
from rlexp.text import join_names
from rlexp.training.lean.proofs import installed_versions, read_passed
from rlexp.training.lean.registry import PROVED_VERSIONS, SHORTCUTS, unproved_packages

LARGE_OR_RARE = {"compiled", "gbrl", "ray"}
"""Extras that `all` leaves out: two large ones, and one with wheels for few platforms."""
NOT_FOR_USERS = {"all", "dev", "docs"}
"""Extras that hold all others, or that only contributors need."""
EXTRA = re.compile(r"extra == ['\"]([\w-]+)['\"]")
"""An extra in the marker of a requirement."""
NEEDS_PROC = (
    "the detection of network folders",
    "stack traces of hung runs",
    "the naming of runs that were killed for memory",
)
"""What rlexp does with the files of the Linux kernel, and does without on other systems."""


@dataclass(frozen=True, slots=True)
class IncompatiblePair:
    """Two packages that are incompatible in these versions; an empty range means any version."""

    first: str
    first_range: str
    second: str
    second_range: str
    why: str
    fix: str


def check_installation() -> list[Finding]:
    """Check Python, the platform, the packages and their pairs, and the shortcuts of training."""
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
        check_extras(required, installed),
        check_shortcuts(),
    ]


def check_python(version: str, accepted: str) -> Finding:
    """Check the version of Python against the supported range."""
    if not SpecifierSet(accepted).contains(version, prereleases=True):
        return fail("python", f"{version}, rlexp needs {accepted}", "use another Python")
    return ok("python", version)


def _platform() -> Finding:
    name = platform.platform()
    if platform.system() == "Linux":
        return ok("platform", name)
    if platform.system() == "Windows":
        return fail("platform", f"{name} cannot fork processes", "use WSL, which is a Linux")
    return warn(
        "platform",
        f"{name} is not tested, and without /proc {join_names(NEEDS_PROC)} are not available",
        "use Linux where it does not work, and set RLEXP_SHARED=1 where runs/ is a network folder",
    )


def check_requirements(required: list[Requirement], installed: Mapping[str, str]) -> list[Finding]:
    """Check installed versions against the ranges of requirements.

    Args:
        required: The requirements of rlexp.
        installed: Installed versions by canonical name.
    """
    good, bad = [], []
    for requirement in required:
        # Requirements of extras have a marker that is false without the extra.
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
    """Warn about installed pairs of incompatible packages."""
    return [
        warn(
            "packages",
            f"{pair.first} {installed[pair.first]} and {pair.second} {installed[pair.second]}: "
            f"{pair.why}",
            pair.fix,
        )
        for pair in INCOMPATIBLE_PAIRS
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


def check_extras(required: list[Requirement], installed: Mapping[str, str]) -> Finding:
    """Name the extras that are installed, and how to install the others.

    Args:
        required: The requirements of rlexp, with those of its extras.
        installed: Installed versions by canonical name.
    """
    packages_of: dict[str, set[str]] = {}
    for requirement in required:
        for name in _extras_of(requirement):
            packages_of.setdefault(name, set()).add(canonicalize_name(requirement.name))
    there = {name: needed <= installed.keys() for name, needed in packages_of.items()}
    # The package of a suite may be there for another reason: gymnasium[box2d] needs gymnasium.
    there |= {suite.extra: is_installed(suite) for suite in SUITES}
    present = [name for name in sorted(there) if there[name]]
    absent = [name for name in sorted(there) if not there[name]]
    obstacles = {
        suite.extra: reason for suite in SUITES if (reason := installation_conflict(suite))
    }
    summary = f"installed: {', '.join(present) or 'none'}"
    if installable := [n for n in absent if n not in obstacles and n not in LARGE_OR_RARE]:
        command = install_command(",".join(installable))
        summary += f"; not installed: {', '.join(installable)} ({command})"
    if others := [name for name in absent if name in LARGE_OR_RARE]:
        summary += f"; not installed, and large or for few platforms: {', '.join(others)}"
    if apart := [f"{name} ({obstacles[name]})" for name in absent if name in obstacles]:
        summary += f"; only in a separate virtual environment: {', '.join(apart)}"
    return ok("extras", summary)


def _extras_of(requirement: Requirement) -> set[str]:
    """The extras for users that install a requirement; none for what rlexp always needs."""
    if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
        return set()
    named = set(EXTRA.findall(str(requirement.marker)))
    return named - NOT_FOR_USERS


INCOMPATIBLE_PAIRS = (
    IncompatiblePair(
        *("pygame", "", "pygame-ce", ""),
        "both install into the folder pygame/, so one has overwritten parts of the other",
        "pip uninstall pygame pygame-ce, then pip install pygame-ce; give rlexp[multi-objective], "
        "which installs pygame, a separate virtual environment",
    ),
    IncompatiblePair(
        *("metaworld", ">=3,<3.2", "mujoco", "!=3.3.0"),
        "metaworld 3.1 works with mujoco 3.3.0 only",
        "give rlexp[metaworld] a separate virtual environment",
    ),
    IncompatiblePair(
        *("gymnasium-robotics", "<=1.4.2", "mujoco", ">=4"),
        "gymnasium-robotics works with mujoco before 4 only",
        "give rlexp[robotics] a separate virtual environment",
    ),
    IncompatiblePair(
        *("opencv-python", "", "opencv-python-headless", ""),
        "both install into the folder cv2/, so one has overwritten parts of the other",
        "pip uninstall opencv-python opencv-python-headless, then pip install one of them",
    ),
    IncompatiblePair(
        *("hydra-core", "<1.4", "omegaconf", ">=2.4"),
        "hydra 1.3 does not work with omegaconf 2.4",
        "pip install 'omegaconf<2.4'",
    ),
    IncompatiblePair(
        *("gymnax", ">=1.0,<1.1", "gymnasium", ">=1.4"),
        "gymnax 1.0 needs gymnasium before 1.4",
        "give gymnax a separate environment",
    ),
    IncompatiblePair(
        *("rejax", "<=0.1.3", "gymnasium", ">=1.4"),
        "rejax 0.1 needs gymnasium before 1.4",
        "give rejax a separate environment",
    ),
    IncompatiblePair(
        *("rliable", "<=1.2", "pandas", ">=3"),
        "rliable brings a version of arch that cannot be imported under pandas 3",
        "give rliable a separate environment, with pandas before 3",
    ),
    IncompatiblePair(
        *("hydra-optuna-sweeper", "<=1.3", "optuna", ">=3"),
        "hydra-optuna-sweeper 1.3 needs optuna before 3",
        "pip uninstall hydra-optuna-sweeper: rlexp does not use it",
    ),
)


def check_shortcuts() -> Finding:
    """Tell which shortcuts the runs of this machine use."""
    installed = installed_versions()
    passed = read_passed(shortcuts_cache(), str(machine()["processor"]), installed)
    return describe_shortcuts(installed, passed)


def describe_shortcuts(installed: Mapping[str, str], passed: Collection[str] | None) -> Finding:
    """Describe the shortcuts that runs use; none changes a number, so this is never a fault.

    Args:
        installed: The installed versions of the packages that shortcuts take the place of, by name.
        passed: The shortcuts whose checks have passed on this processor; None before any check.
    """
    proved = [each.name for each in SHORTCUTS if not unproved_packages(each, installed)]
    strange = {name for each in SHORTCUTS for name in unproved_packages(each, installed)}
    used = [name for name in proved if passed is None or name in passed]
    unequal = [name for name in proved if name not in used]
    texts = [f"in use unless compute.lean=false: {', '.join(used) or 'none'}"]
    if passed is None and proved:
        texts.append("the first run checks them on this processor")
    if unequal:
        texts.append(f"not equal to the library on this processor: {', '.join(unequal)}")
    if strange:
        proved = [f"{name.split()[0]} {' or '.join(_proved(name))}" for name in sorted(strange)]
        texts.append(
            f"nothing is proved yet with {join_names(sorted(strange))}, only with "
            f"{join_names(proved)}: runs use the library's code there, with the same numbers"
        )
    return ok("shortcuts", "; ".join(texts))


def _proved(package: str) -> tuple[str, ...]:
    return PROVED_VERSIONS[package.split(maxsplit=1)[0]]
