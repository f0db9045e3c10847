"""The shortcuts that runs of this machine use, with the user's cache of their checks."""

from pathlib import Path

from rlexp.store.layout import cache_folder
from rlexp.store.provenance import machine
from rlexp.training.lean.proofs import installed_versions, usable_shortcuts


def shortcuts_cache() -> Path:
    """The file with the results of the checks, in the user's cache folder."""
    return cache_folder() / "shortcuts.json"


def usable_here() -> frozenset[str]:
    """The names of the shortcuts that runs of this machine may use."""
    return usable_shortcuts(shortcuts_cache(), str(machine()["processor"]), installed_versions())
