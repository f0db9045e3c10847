"""Packs the repository of a study, so that `git fetch` reads it."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from rlexp.errors import ConfigError

# Hooks and fsmonitor are off: they could execute code of the checkout. One thread packs in one order.
GIT = (
    *("git", "-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null"),
    *("-c", "pack.threads=1"),
)
LIMIT = 600.0
"""Seconds that one call of git may take."""


def pack_code(folder: Path, target: Path, commits: Sequence[str]) -> list[str]:
    """Write the history of the present commit into a file that `git fetch` reads.

    Args:
        folder: A folder in the checkout.
        target: The new file.
        commits: The commits that runs recorded.

    Returns:
        The recorded commits that are not in this history.

    Raises:
        ConfigError: The folder is in no git checkout, or git cannot pack it.
    """
    packed = _git(folder, "bundle", "create", "--quiet", str(target), "HEAD")
    if packed is None or packed.returncode != 0:
        reason = (
            packed.stderr.decode(errors="replace").strip()[:160] if packed else "git is missing"
        )
        raise ConfigError(
            f"--code: git cannot pack the repository of {folder}: {reason}; leave out --code"
        )
    return [c for c in commits if not _contains(folder, c)]


def _contains(folder: Path, commit: str) -> bool:
    result = _git(folder, "merge-base", "--is-ancestor", commit, "HEAD")
    return result is not None and result.returncode == 0


def _git(folder: Path, *words: str) -> "subprocess.CompletedProcess[bytes] | None":
    try:
        return subprocess.run(
            [*GIT, *words], cwd=folder, capture_output=True, check=False, timeout=LIMIT
        )
    except (OSError, subprocess.SubprocessError):
        return None
