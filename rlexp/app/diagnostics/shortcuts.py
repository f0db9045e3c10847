"""Checks which shortcuts of training are in use, and tells why others are not."""

from collections.abc import Collection, Mapping

from rlexp.app.diagnostics.finding import Finding, ok
from rlexp.app.execution.shortcuts import shortcuts_cache
from rlexp.store.provenance import machine
from rlexp.text import join_names
from rlexp.training.lean.proofs import installed_versions, read_passed
from rlexp.training.lean.registry import PROVED_VERSIONS, SHORTCUTS, unproved_packages


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
