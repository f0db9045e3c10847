"""Suites of environments: the extra of rlexp that installs each, and hints for missing ones."""

import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from rlexp.installation_way import install_command


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """The environments that one extra of rlexp installs."""

    extra: str
    """Name of the extra in `rlexp[…]`."""
    module: str
    """Module that can be imported if the extra is installed."""
    home: str
    """Package of the entry points of the suite."""
    # This pattern matches no text.
    ids: str = "(?!)"
    """Pattern of the ids that `module` registers when it is imported."""
    others: tuple[str, ...] = ()
    """Further modules that only this extra installs."""
    beside: tuple[str, str] | None = None
    """A package that conflicts with the suite, and the versions of it that do not."""
    apart: str = ""
    """Reason of the conflict."""


SUITES = (
    Suite(
        extra="atari",
        module="ale_py",
        home="ale_py",
        ids=r"ALE/.+|\w+(NoFrameskip|Deterministic)-v[04]",
        others=("cv2",),
    ),
    Suite(extra="box2d", module="Box2D", home="gymnasium.envs.box2d"),
    Suite(
        extra="electric-motor",
        module="gym_electric_motor",
        home="gym_electric_motor",
        ids=r"(Cont|Finite)-(SC|TC|CC)-\w+-v\d+",
    ),
    Suite(
        extra="highway",
        module="highway_env",
        home="highway_env",
        ids=r"(highway|merge|roundabout|parking|intersection|racetrack|exit|u-turn)-.*v\d+",
    ),
    Suite(
        extra="metaworld",
        module="metaworld",
        home="metaworld",
        ids=r"Meta-World/.+",
        beside=("mujoco", "==3.3.0"),
        apart="metaworld works with mujoco 3.3.0 only",
    ),
    Suite(
        extra="minigrid",
        module="minigrid",
        home="minigrid",
        ids=r"(MiniGrid|BabyAI)-.+",
    ),
    Suite(extra="mujoco", module="mujoco", home="gymnasium.envs.mujoco"),
    Suite(
        extra="multi-objective",
        module="mo_gymnasium",
        home="mo_gymnasium",
        ids=r"mo-.+|(deep-sea-treasure|minecart|four-room|fruit-tree|resource-gathering"
        r"|water-reservoir|fishwood|breakable-bottles)-.*v\d+",
        # No version is below 0, so every version conflicts.
        beside=("pygame-ce", "<0"),
        apart="mo-gymnasium brings pygame, which overwrites files of pygame-ce",
    ),
    Suite(
        extra="robotics",
        module="gymnasium_robotics",
        home="gymnasium_robotics",
        ids=r"(Fetch|HandReach|HandManipulate|AntMaze|PointMaze|AdroitHand|FrankaKitchen).*-v\d+",
        beside=("mujoco", "<4"),
        apart="gymnasium-robotics works with mujoco before 4 only",
    ),
)


def suite_of_module(module: str) -> Suite | None:
    """Return the suite that installs a module, or None."""
    top = module.partition(".")[0]
    return next((s for s in SUITES if top in {s.module, *s.others}), None)


def suite_of_entry(entry: str) -> Suite | None:
    """Return the suite of an entry point in Gymnasium's registry, or None."""
    return next((s for s in SUITES if re.match(rf"{re.escape(s.home)}[.:]", entry)), None)


def suite_of_id(registered: str) -> Suite | None:
    """Return the suite whose pattern matches an id, or None."""
    return next((s for s in SUITES if re.fullmatch(s.ids, registered)), None)


def is_installed(suite: Suite) -> bool:
    """Whether the suite can be imported."""
    return all(find_spec(module) is not None for module in (suite.module, *suite.others))


def installation_conflict(suite: Suite) -> str:
    """Return the conflict of the suite with an installed package, or an empty string."""
    if suite.beside is None:
        return ""
    package, harmless = suite.beside
    try:
        installed = version(package)
    except PackageNotFoundError:
        return ""
    # By default, a set of versions contains no pre-releases.
    # Only a suite that conflicts with a package needs this import.
    from packaging.specifiers import SpecifierSet

    fits = SpecifierSet(harmless).contains(installed, prereleases=True)
    return "" if fits else f"{suite.apart}, and {package} {installed} is installed"


def install_hint(suite: Suite) -> str:
    """Return the command that installs the suite, behind any conflict that it would cause here."""
    if reason := installation_conflict(suite):
        # The command of this installation would install into the environment with the conflict.
        return f"{reason}; in a new virtual environment, type: pip install 'rlexp[{suite.extra}]'"
    return install_command(suite.extra)
