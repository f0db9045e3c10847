"""The packages, the processor and the user's code that determine a run's numbers besides its settings.

`collect_versions` reads them, and `describe_changes` compares them with those of a checkpoint or
run.
"""

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
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rlexp.algorithms.compiled.runtime import compiler_flags, processor_features
from rlexp.app.execution.checks.import_permission import foreign_modules
from rlexp.protocol.identity import short_name
from rlexp.protocol.spec import RunSpec
from rlexp.store.provenance import machine
from rlexp.training.lean.proofs import installed_version

LEARNING = ("rlexp", "torch", "numpy", "gymnasium", "stable-baselines3", "sb3-contrib")
"""Distributions that determine the numbers of every run."""
COMPILER = ("jax", "jaxlib", "ml-dtypes")
"""Distributions that determine the numbers of compiled runs."""
VERSIONED = frozenset({"rlexp", "torch", "numpy", "gymnasium", "stable_baselines3", "sb3_contrib"})
"""The packages of these distributions, whose code their version identifies."""
RENDERING = frozenset(
    {"imageio", "matplotlib", "moviepy", "packaging", "pygame", "pygame-ce", "seaborn", "swig"},
)
"""Distributions that environments need for rendering only; they change no number."""
NO_EXTRA = ""
"""Stands for the requirements that belong to no extra."""
CODE_OF = "code of "
"""Prefix of the names that stand for the user's packages."""
SUITES = {"meta_world": ("metaworld", "mujoco")}
"""Distributions of environments that are not registered in Gymnasium, by plug-in."""
REQUIREMENT = re.compile(r"[\w.-]+")
EXTRA = re.compile(r"""extra\s*==\s*["']([\w.-]+)""")
LONGEST_DESCRIPTION = 1000
"""Characters of a description, at most."""
NVIDIA_DRIVER = Path("/proc/driver/nvidia")
"""The folder in which the driver of graphics processors describes them."""


def collect_versions(spec: RunSpec) -> dict[str, str]:
    """Versions of everything that determines a run's numbers besides its definition, by name.

    The result holds versions of the learning libraries and of the packages that make the
    environment, the processor, and the sha256 of the source files of the user's packages that the
    run names, with all packages that these import. Only Gymnasium is imported.
    """
    versions = {"python": platform.python_version(), "architecture": platform.machine()}
    versions["processor"] = str(machine()["processor"])
    versions |= _installed(LEARNING)
    versions |= _gpu(str(spec.compute.get("device")))
    versions |= _compiler(spec)
    versions |= _installed(_of_gymnasium(spec.environment))
    versions |= _installed(SUITES.get(short_name(spec.environment), ()))
    versions |= _of_packages({module.partition(".")[0] for module in foreign_modules(spec)})
    return dict(sorted(versions.items()))


def collect_development_code() -> dict[str, str]:
    """Hashes of the learning packages that are developed in a folder (`pip install -e`), by name.

    Their version stays the same while their code changes.
    """
    located = {name: _located(name) for name in sorted(VERSIONED)}
    return {
        CODE_OF + name: _hash(_sources(spec))
        for name, spec in located.items()
        if spec is not None and not _is_installed(spec)
    }


def describe_changes(then: Any, now: Mapping[str, str]) -> str | None:
    """One line that names every change, or None where nothing changed.

    Args:
        then: An earlier result of `collect_versions`, read from a file.
        now: The current result.
    """
    if not isinstance(then, Mapping):
        return "the versions that it was made with are not recorded"
    names = sorted({*then, *now}, key=lambda name: (name.startswith(CODE_OF), name))
    changed = [_changed(n, then.get(n), now.get(n)) for n in names if then.get(n) != now.get(n)]
    return " ".join("; ".join(changed).split())[:LONGEST_DESCRIPTION] or None


def _changed(name: str, then: Any, now: str | None) -> str:
    if name.startswith(CODE_OF):
        return f"{name} " + ("is new" if then is None else "is gone" if now is None else "changed")
    if then is None:
        return f"{name} was not installed, is {now}"
    return f"{name} was {then}, is {'not installed' if now is None else now}"


def _of_gymnasium(environment: Mapping[str, Any]) -> set[str]:
    """Distributions that Gymnasium needs for its environments, and for the wrappers."""
    extras = {"other"} if environment.get("wrappers") else set()
    import gymnasium

    registered = gymnasium.registry.get(str(environment.get("id")))
    home = str(registered.entry_point).split(".") if registered else []
    if home[:2] == ["gymnasium", "envs"]:
        extras.add(home[2].replace("_", "-"))
    return set(_required("gymnasium", extras))


def _of_packages(names: Iterable[str]) -> dict[str, str]:
    """Versions of installed packages, hashes of the user's, and those of all they import."""
    versions: dict[str, str] = {}
    # Python's version covers the standard library.
    waiting, seen = list(names), set(VERSIONED | sys.stdlib_module_names)
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
            versions |= _installed(_distributions_of(name))
        elif files:
            versions[CODE_OF + name] = _hash(files)
            # Read from the source, because importing a module would execute the user's code.
            waiting += sorted({name for path in files.values() for name in _imported(path)})
    return versions


def _located(name: str) -> ModuleSpec | None:
    with suppress(ImportError, ValueError, AttributeError):
        return find_spec(name)
    return None


def _locations(spec: ModuleSpec) -> list[Path]:
    """The folders of a package, or the file of a module."""
    if spec.submodule_search_locations is not None:
        return [Path(folder) for folder in spec.submodule_search_locations]
    return [Path(spec.origin)] if spec.has_location and spec.origin else []


def _is_installed(spec: ModuleSpec) -> bool:
    """Whether a package lies where pip installs packages: its version identifies its code."""
    schemes = sysconfig.get_paths()
    install_folders = {schemes["purelib"], schemes["platlib"], site.getusersitepackages()}
    install_folders |= set(site.getsitepackages())
    return any(
        location.is_relative_to(folder)
        for location in _locations(spec)
        for folder in install_folders
    )


def _sources(spec: ModuleSpec) -> dict[str, Path]:
    """The source files of a package or module, by their path relative to it."""
    files: dict[str, Path] = {}
    for location in _locations(spec):
        if location.is_file():
            files[location.name] = location
        else:
            files |= {p.relative_to(location).as_posix(): p for p in location.rglob("*.py")}
    return files


def _hash(files: Mapping[str, Path]) -> str:
    digest = sha256()
    for name, path in sorted(files.items()):
        # Name and length keep apart files whose contents would join to the same bytes.
        content = _content(path)
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _imported(path: Path) -> set[str]:
    """The packages that a source file imports; a file that Python cannot parse imports none."""
    try:
        nodes = list(ast.walk(ast.parse(_content(path))))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    named = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    named |= {str(n.module) for n in nodes if isinstance(n, ast.ImportFrom) and n.level == 0}
    return {name.partition(".")[0] for name in named}


def _distributions_of(package: str) -> set[str]:
    """The distributions that provide a package, and the distributions that these require."""
    providers = set(_by_package().get(package, ()))
    return providers.union(*(_required(name, {NO_EXTRA}) for name in providers))


@cache
def _by_package() -> Mapping[str, list[str]]:
    return packages_distributions()


def _required(distribution: str, extras: set[str]) -> Iterator[str]:
    """Yield the requirements of a distribution for these extras, without those for rendering."""
    try:
        lines = _requirements(distribution)
    except PackageNotFoundError:
        return
    for line in lines:
        match = REQUIREMENT.match(line)
        extra_of_line = EXTRA.search(line)
        if match and (extra_of_line[1] if extra_of_line else NO_EXTRA) in extras:
            name = match[0].lower()
            if name not in RENDERING:
                yield name


@cache
def _requirements(distribution: str) -> tuple[str, ...]:
    """The requirements of a distribution, which a process reads once, like versions."""
    return tuple(requires(distribution) or ())


def _installed(names: Iterable[str]) -> dict[str, str]:
    """Versions of the distributions that are installed."""
    versions = {}
    for name in names:
        with suppress(PackageNotFoundError):
            versions[name.lower()] = installed_version(name)
    return versions


def _compiler(spec: RunSpec) -> dict[str, str]:
    """What decides the numbers of a compiled run: JAX, and the processor's instructions."""
    if not spec.compiled:
        return {}
    compiler = _installed(COMPILER) | {"processor features": processor_features()}
    flags = compiler_flags()
    return {**compiler, **({"compiler flags": flags} if flags else {})}


def _gpu(device: str) -> dict[str, str]:
    """The model of the first graphics processor and its driver, where the run uses one."""
    if not device.startswith("cuda"):
        return {}
    # The driver's files are read directly: importing torch would take seconds.
    models = [_line(path, "Model:") for path in sorted(NVIDIA_DRIVER.glob("gpus/*/information"))]
    gpu = {"graphics processor": next(filter(None, models), "")}
    gpu["graphics driver"] = _line(NVIDIA_DRIVER / "version", "NVRM version:")
    return {name: text for name, text in gpu.items() if text}


def _line(path: Path, prefix: str) -> str:
    """The rest of the first line of a file that begins with a prefix, or an empty text."""
    lines = _content(path).decode(errors="replace").splitlines()
    return next(
        (" ".join(n.removeprefix(prefix).split()) for n in lines if n.startswith(prefix)), ""
    )
