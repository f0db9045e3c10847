"""Where numbers come from: code, command, packages, machine."""

import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from rlexp.store.secrets import (
    SECRET_FILES,
    is_secret_file,
    is_settings_file,
    mask,
    mask_all,
    mask_code,
    secret_values,
)

VARIABLES = re.compile(
    r"(CUDA|OMP|MKL|OPENBLAS|NUMEXPR|TORCH|PYTORCH|PYTHON)[A-Z0-9_]*|SLURM_JOB_ID|MUJOCO_GL",
)
"""Environment variables that are recorded; no other is."""
MIRRORS = ("tensorboard", "mlflow.db", "mlartifacts", "wandb")
"""What trackers write beside records."""
LARGEST_PATCH = 5_000_000
_GIT = ("git", "-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null")
_DIFF = (
    *("diff", "HEAD", "--no-ext-diff", "--no-textconv", "--no-color", "--no-relative", "-U3"),
    *("--src-prefix=a/", "--dst-prefix=b/", "--submodule=short"),
)
"""Changes in the form that can be applied again, whatever the user's settings of git are."""
_WITHOUT_SECRETS = (":/", *(f":(top,exclude,glob,icase)**/{name}" for name in SECRET_FILES))
"""All files but those that hold secrets."""
_FILE = "diff --git "
_TIMEOUT = 10.0
LARGEST_FILE = 200_000
"""Bytes of an untracked file that is still put into the patch."""


@dataclass(frozen=True, slots=True)
class Code:
    """State of the study's code; a folder that is no git checkout has no commit."""

    commit: str | None
    branch: str | None
    remote: str | None
    dirty: tuple[str, ...]
    untracked: tuple[str, ...]
    patch: str
    saved: bool = True
    """Whether the patch holds every change: no long file, picture or secret was left out."""

    def __str__(self) -> str:
        """One phrase for the plan (`git 1a2b3c4 (dirty: 2 files, diff saved)`)."""
        if self.commit is None:
            return "no git commit"
        changed = len(self.dirty) + len(self.untracked)
        files = "file" if changed == 1 else "files"
        return f"git {self.commit[:7]}" + (
            f" (dirty: {changed} {files}, diff saved{'' if self.saved else ' in part'})"
            if changed
            else ""
        )


def read_code(folder: Path, records: Path | None = None) -> Code:
    """Read the state of the git checkout around `folder`; records in it are no code."""
    commit = _word(folder, "rev-parse", "HEAD")
    if commit is None:
        return Code(None, None, None, (), (), "")
    root = Path(_word(folder, "rev-parse", "--show-toplevel") or folder)
    own = _excluded(root, records)
    asked = ("status", "--porcelain=v1", "--no-renames", "-uall", "-z", "--", ":/", *own)
    listed = _git(folder, *asked) or ""
    status = listed.split("\0")
    untracked = tuple(line[3:] for line in status if line.startswith("??"))
    added = [_added(root, path) for path in untracked]
    patch = _git(folder, *_DIFF, "--", *_WITHOUT_SECRETS, *own) or ""
    changed = tuple(line[3:] for line in status if line and not line.startswith("??"))
    # What is no UTF-8 was read with marks where it could not be.
    saved = None not in added and "\nBinary files " not in patch and "\ufffd" not in patch
    saved &= not any(is_secret_file(name) for name in changed)
    patch = "".join([patch, *filter(None, added)])
    masked = _mask_patch(patch[:LARGEST_PATCH], secret_values(os.environ))
    return Code(
        commit=commit,
        branch=_word(folder, "rev-parse", "--abbrev-ref", "HEAD"),
        remote=mask(_word(folder, "config", "--get", "remote.origin.url") or "") or None,
        dirty=changed,
        untracked=untracked,
        patch=masked,
        saved=saved and masked == patch,
    )


def _excluded(root: Path, records: Path | None) -> list[str]:
    """What leaves the records and their mirrors out of an answer of git."""
    if records is None:
        return []
    top, place = root.resolve(), records.resolve()
    own = [place, *(place.parent / name for name in MIRRORS)]
    inside = [path.relative_to(top) for path in own if path.is_relative_to(top)]
    return [f":(top,exclude,literal){path}" for path in inside if path.parts]


def _mask_patch(patch: str, values: frozenset[str]) -> str:
    """Mask a patch file by file: in code a name with a colon is often no secret's."""
    head, *pieces = patch.split(_FILE)
    masked = [
        (mask if is_settings_file(piece.partition("\n")[0]) else mask_code)(piece, values)
        for piece in pieces
    ]
    return _FILE.join([head, *masked])


def _added(root: Path, name: str) -> str | None:
    """A patch that adds an untracked text file, or nothing where it is long or no text."""
    path = root / name
    try:
        if is_secret_file(name) or path.is_symlink() or path.stat().st_size > LARGEST_FILE:
            return None
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        return None
    if "\r" in text or "\0" in text:
        return None
    head = f"diff --git a/{name} b/{name}\nnew file mode 100644\n"
    if not text:
        return head
    lines = text.removesuffix("\n").split("\n")
    end = "" if text.endswith("\n") else "\\ No newline at end of file\n"
    body = "".join(f"+{line}\n" for line in lines)
    return f"{head}--- /dev/null\n+++ b/{name}\n@@ -0,0 +1,{len(lines)} @@\n{body}{end}"


def collect(
    code: Code,
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
) -> dict[str, Any]:
    """Everything that `provenance.json` says, secrets masked."""
    values = secret_values(environment)
    return {
        "command": [mask(word, values) for word in command],
        "folder": str(folder),
        "code": {
            "commit": code.commit,
            "branch": code.branch,
            "remote": code.remote,
            "dirty": list(code.dirty),
            "untracked": list(code.untracked),
            "saved": code.saved,
        },
        "python": platform.python_version(),
        "executable": sys.executable,
        "packages": packages(),
        "machine": machine(),
        "variables": mask_all(
            {k: v for k, v in environment.items() if VARIABLES.fullmatch(k)}, values
        ),
    }


def packages() -> dict[str, str]:
    """Installed packages and their versions."""
    found = {}
    for distribution in distributions():
        metadata = distribution.metadata  # Parsed anew each time it is asked for.
        if name := metadata["Name"]:
            found[name.lower()] = metadata["Version"]
    return dict(sorted(found.items()))


def machine() -> dict[str, Any]:
    """Hardware and system."""
    return {
        "host": platform.node(),
        "system": platform.platform(),
        "processor": _processor(),
        "cores": usable_cores(),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def usable_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found.group(1) if found else platform.processor()


def _word(folder: Path, *arguments: str) -> str | None:
    text = _git(folder, *arguments)
    return text.strip() if text is not None else None


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            [*_GIT, *arguments],
            cwd=folder,
            capture_output=True,
            check=True,
            timeout=_TIMEOUT,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace")
