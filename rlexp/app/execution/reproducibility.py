"""What decides a run's numbers besides its definition: packages, processor, the user's own code."""

import ast
import platform
import re
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, packages_distributions, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rlexp.app.execution.import_permission import foreign_modules
from rlexp.protocol.identity import short_name
from rlexp.protocol.spec import RunSpec
from rlexp.store.provenance import machine

LEARNING = ("rlexp", "torch", "numpy", "gymnasium", "stable-baselines3", "sb3-contrib")
"""Distributions that decide the numbers of every run."""
KNOWN = frozenset({"rlexp", "torch", "numpy", "gymnasium", "stable_baselines3", "sb3_contrib"})
"""Packages of these distributions: their code is what their version says."""
DRAWING = frozenset(
    {"imageio", "matplotlib", "moviepy", "packaging", "pygame", "pygame-ce", "seaborn", "swig"},
)
"""What environments need to show themselves: it changes no number."""
PLAIN = ""
"""The extra of what is required without any."""
CODE_OF = "code of "
"""What the names of the user's own packages begin with."""
SUITES = {"meta_world": ("metaworld", "mujoco")}
"""Distributions with which plug-ins make environments that Gymnasium does not know."""
REQUIREMENT = re.compile(r"[\w.-]+")
EXTRA = re.compile(r"""extra\s*==\s*["']([\w.-]+)""")
LONGEST = 1000
"""Characters that a difference is told in."""
GRAPHICS = Path("/proc/driver/nvidia")
"""Where the driver of graphics processors says what there is."""


def versions(spec: RunSpec) -> dict[str, str]:
    """What decides the run's numbers besides its definition, by name.

    Versions of the learning libraries and of what the environment is made with, the processor,
    and the sha256 of the source files of the user's own packages that the run names, or that
    those import. Nothing is imported for it but Gymnasium.
    """
    found = {"python": platform.python_version(), "architecture": platform.machine()}
    found["processor"] = str(machine()["processor"])
    found |= _installed(LEARNING)
    found |= _graphics(str(spec.compute.get("device")))
    found |= _installed(_of_gymnasium(spec.environment))
    found |= _installed(SUITES.get(short_name(spec.environment), ()))
    found |= _of_packages({module.partition(".")[0] for module in foreign_modules(spec)})
    return dict(sorted(found.items()))


def difference(then: Any, now: Mapping[str, str]) -> str | None:
    """One line that names everything that changed, or nothing where nothing did.

    Args:
        then: What `versions` said, as a file has kept it.
        now: What it says.
    """
    if not isinstance(then, Mapping):
        return "with which versions it was made is not known"
    names = sorted({*then, *now}, key=lambda name: (name.startswith(CODE_OF), name))
    changed = [_changed(n, then.get(n), now.get(n)) for n in names if then.get(n) != now.get(n)]
    return " ".join("; ".join(changed).split())[:LONGEST] or None


def _changed(name: str, then: Any, now: str | None) -> str:
    if name.startswith(CODE_OF):
        return f"{name} " + ("is new" if then is None else "is gone" if now is None else "changed")
    if then is None:
        return f"{name} was not there, is {now}"
    return f"{name} was {then}, is {'not there' if now is None else now}"


def _of_gymnasium(environment: Mapping[str, Any]) -> set[str]:
    """Distributions that Gymnasium itself makes the environment and its wrappers with."""
    extras = {"other"} if environment.get("wrappers") else set()
    import gymnasium

    registered = gymnasium.registry.get(str(environment.get("id")))
    home = str(registered.entry_point).split(".") if registered else []
    if home[:2] == ["gymnasium", "envs"]:
        extras.add(home[2].replace("_", "-"))
    return set(_required("gymnasium", extras))


def _of_packages(names: Iterable[str]) -> dict[str, str]:
    """Versions of what is installed, and sums of the user's own, with all that these import."""
    found: dict[str, str] = {}
    waiting, seen = list(names), set(KNOWN | sys.stdlib_module_names)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        spec = _located(name)
        if spec is None:
            continue
        files = _sources(spec)
        if _is_installed(spec):
            found |= _installed(_distributions_of(name))
        elif files:
            found[CODE_OF + name] = _sum(files)
            waiting += sorted({name for path in files.values() for name in _imported(path)})
    return found


def _located(name: str) -> ModuleSpec | None:
    with suppress(ImportError, ValueError, AttributeError):
        return find_spec(name)
    return None


def _places(spec: ModuleSpec) -> list[Path]:
    """The folders of a package, or the file of a module."""
    if spec.submodule_search_locations is not None:
        return [Path(place) for place in spec.submodule_search_locations]
    return [Path(spec.origin)] if spec.has_location and spec.origin else []


def _is_installed(spec: ModuleSpec) -> bool:
    """Whether it lies where packages are installed, so that a version stands for its code."""
    schemes = sysconfig.get_paths()
    homes = {schemes["purelib"], schemes["platlib"], site.getusersitepackages()}
    homes |= set(site.getsitepackages())
    return any(place.is_relative_to(home) for place in _places(spec) for home in homes)


def _sources(spec: ModuleSpec) -> dict[str, Path]:
    """The source files of a package or module, by their names below it."""
    found: dict[str, Path] = {}
    for place in _places(spec):
        if place.is_file():
            found[place.name] = place
        else:
            found |= {p.relative_to(place).as_posix(): p for p in place.rglob("*.py")}
    return found


def _sum(files: Mapping[str, Path]) -> str:
    total = sha256()
    for name, path in sorted(files.items()):
        content = _content(path)
        total.update(f"{name}\0{len(content)}\0".encode())
        total.update(content)
    return total.hexdigest()


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _imported(path: Path) -> set[str]:
    """The packages that a source file imports; one that is no Python imports none."""
    try:
        nodes = list(ast.walk(ast.parse(_content(path))))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    named = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    named |= {str(n.module) for n in nodes if isinstance(n, ast.ImportFrom) and n.level == 0}
    return {name.partition(".")[0] for name in named}


def _distributions_of(package: str) -> set[str]:
    """The distributions that a package is part of, and what these require."""
    own = set(_by_package().get(package, ()))
    return own.union(*(_required(name, {PLAIN}) for name in own))


@cache
def _by_package() -> Mapping[str, list[str]]:
    return packages_distributions()


def _required(distribution: str, extras: set[str]) -> Iterator[str]:
    """What a distribution requires for these extras, but for what only draws."""
    try:
        lines = requires(distribution) or []
    except PackageNotFoundError:
        return
    for line in lines:
        match = REQUIREMENT.match(line)
        of = EXTRA.search(line)
        if match and (of[1] if of else PLAIN) in extras:
            name = match[0].lower()
            if name not in DRAWING:
                yield name


def _installed(names: Iterable[str]) -> dict[str, str]:
    """Versions of distributions; those that are not there are left out."""
    found = {}
    for name in names:
        with suppress(PackageNotFoundError):
            found[name.lower()] = version(name)
    return found


def _graphics(device: str) -> dict[str, str]:
    """The model of the first graphics processor and its driver, where the run uses one."""
    if not device.startswith("cuda"):
        return {}
    models = [_line(path, "Model:") for path in sorted(GRAPHICS.glob("gpus/*/information"))]
    told = {"graphics processor": next(filter(None, models), "")}
    told["graphics driver"] = _line(GRAPHICS / "version", "NVRM version:")
    return {name: text for name, text in told.items() if text}


def _line(path: Path, begin: str) -> str:
    """What follows in the line of a file that begins so, or nothing."""
    lines = _content(path).decode(errors="replace").splitlines()
    return next(
        (" ".join(n.removeprefix(begin).split()) for n in lines if n.startswith(begin)), ""
    )
