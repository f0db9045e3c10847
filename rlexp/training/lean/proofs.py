"""Decides which shortcuts this machine may use, and keeps the answer in a cache.

A shortcut is used where its packages have proved versions, and where its check passes on this
processor. The checks take some milliseconds, and their results stay valid until the processor, a
version or the code of the shortcuts changes. This module imports a library only for the checks.
"""

import json
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rlexp.training.lean.registry import PROVED_VERSIONS, SHORTCUTS, unproved_packages

MOST_ENTRIES = 20
"""Combinations of processor, versions and code that a cache holds."""
CPU_VARIABLES = ("ATEN_CPU_CAPABILITY", "NPY_DISABLE_CPU_FEATURES", "NPY_ENABLE_CPU_FEATURES")
"""Variables that choose the vector instructions which torch and NumPy use."""


@cache
def installed_version(name: str) -> str:
    """Return the version of a package, which this process reads once: it takes a millisecond.

    Modules that a process has imported stay those of this version.

    Raises:
        PackageNotFoundError: The package is not installed.
    """
    return version(name)


def installed_versions() -> dict[str, str]:
    """Return the versions of the packages that shortcuts take the place of, by name."""
    versions = {}
    for name in PROVED_VERSIONS:
        with suppress(PackageNotFoundError):
            versions[name] = installed_version(name)
    return versions


def usable_shortcuts(cache: Path, processor: str, installed: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the shortcuts that this machine may use.

    Args:
        cache: The file with the results of earlier checks; it is written if they are missing.
        processor: The name of the processor.
        installed: The installed versions by name.
    """
    proved = [each.name for each in SHORTCUTS if not unproved_packages(each, installed)]
    if not proved:
        return frozenset()
    passed = read_passed(cache, processor, installed)
    if passed is None:
        from rlexp.training.lean.checks import passed_checks

        passed = passed_checks(proved)
        _write(cache, _key(processor, installed), passed)
    return frozenset(passed).intersection(proved)


def read_passed(
    cache: Path, processor: str, installed: Mapping[str, str]
) -> frozenset[str] | None:
    """Return the shortcuts whose checks have passed on this machine; None before any check."""
    names = _read(cache).get(_key(processor, installed))
    return None if names is None else frozenset(names)


def _key(processor: str, installed: Mapping[str, str]) -> str:
    """Identify processor, versions and the code of the shortcuts."""
    total = sha256(repr([processor, platform.machine(), platform.libc_ver()]).encode())
    total.update(repr([installed.get(name) for name in PROVED_VERSIONS]).encode())
    total.update(repr([os.environ.get(name) for name in CPU_VARIABLES]).encode())
    for file in sorted(Path(__file__).parent.glob("*.py")):
        total.update(file.read_bytes())
    return total.hexdigest()


def _read(cache: Path) -> dict[str, list[str]]:
    """Return the cache; an empty one where the file is missing or damaged."""
    try:
        entries = json.loads(cache.read_text())
    except (OSError, ValueError):
        return {}
    if not isinstance(entries, dict):
        return {}
    return {
        key: names
        for key, names in entries.items()
        if isinstance(names, list) and all(isinstance(name, str) for name in names)
    }


def _write(cache: Path, key: str, passed: frozenset[str]) -> None:
    """Add an entry; without a writable folder, the next run checks again."""
    entries = {**_read(cache), key: sorted(passed)}
    newest = dict(list(entries.items())[-MOST_ENTRIES:])
    temporary = cache.with_name(f".{cache.name}.{os.getpid()}")
    with suppress(OSError):
        cache.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(newest, indent=1))
        temporary.replace(cache)
