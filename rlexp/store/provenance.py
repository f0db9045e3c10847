"""Provenance of a run: the code, command, packages and machine that produced its numbers."""

import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from rlexp.store.secret_names import SECRET_FILES, is_secret_file, is_settings_file
from rlexp.store.secrets import mask, mask_all, mask_code, secret_values

VARIABLES = re.compile(
    r"(CUDA|OMP|MKL|OPENBLAS|NUMEXPR|TORCH|PYTORCH|PYTHON)[A-Z0-9_]*|SLURM_JOB_ID|MUJOCO_GL",
)
"""Names of the environment variables that are recorded; all others may hold secrets."""
MIRRORS = ("tensorboard", "mlflow.db", "mlartifacts", "wandb")
"""Files that trackers write beside the records."""
LARGEST_PATCH = 5_000_000
_GIT = ("git", "-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null")
_DIFF = (
    *("diff", "HEAD", "--no-ext-diff", "--no-textconv", "--no-color", "--no-relative", "-U3"),
    *("--src-prefix=a/", "--dst-prefix=b/", "--submodule=short"),
)
"""Arguments of a diff that `git apply` accepts, whatever the user's git settings are."""
_WITHOUT_SECRETS = (":/", *(f":(top,exclude,glob,icase)**/{name}" for name in SECRET_FILES))
"""Path arguments for all files except those that usually hold secrets."""
_FILE = "diff --git "
_TIMEOUT = 10.0
LARGEST_FILE = 200_000
"""Most bytes of an untracked file that is put into the patch."""


@dataclass(frozen=True, slots=True)
class Code:
    """State of the user's code; a folder outside a git checkout has no commit."""

    commit: str | None
    branch: str | None
    remote: str | None
    dirty: tuple[str, ...]
    untracked: tuple[str, ...]
    patch: str
    saved: bool = True
    """Whether the patch holds every change: no long file, binary file or secret was left out."""
    root: Path | None = field(default=None, compare=False)
    """The top folder of the checkout, to which the names of files are relative."""

    def __str__(self) -> str:
        """A short text for the plan (`git 1a2b3c4 (dirty: 2 files, diff saved)`)."""
        if self.commit is None:
            return "no git commit"
        changed = len(self.dirty) + len(self.untracked)
        files = "file" if changed == 1 else "files"
        return f"git {self.commit[:7]}" + (
            f" (dirty: {changed} {files}, diff saved{'' if self.saved else ' in part'})"
            if changed
            else ""
        )


def read_code(folder: Path, records: Path | None = None, outputs: Sequence[Path] = ()) -> Code:
    """Read the state of the git checkout around `folder`.

    Args:
        folder: A folder in the checkout.
        records: The folder `runs/`, which is left out: records are not code.
        outputs: Further files that are left out.
    """
    commit = _line_of(folder, "rev-parse", "HEAD")
    if commit is None:
        return Code(None, None, None, (), (), "")
    root = Path(_line_of(folder, "rev-parse", "--show-toplevel") or folder)
    excluded = [*_excluded(root, records), *_excluded_paths(root, outputs)]
    command = ("status", "--porcelain=v1", "--no-renames", "-uall", "-z", "--", ":/", *excluded)
    status = (_git(folder, *command) or "").split("\0")
    untracked = tuple(line[3:] for line in status if line.startswith("??"))
    added = [_added(root, path) for path in untracked]
    patch = _git(folder, *_DIFF, "--", *_WITHOUT_SECRETS, *excluded) or ""
    changed = tuple(line[3:] for line in status if line and not line.startswith("??"))
    # Bytes that are not UTF-8 were decoded as U+FFFD: such a patch would not apply.
    saved = None not in added and "\nBinary files " not in patch and "\ufffd" not in patch
    saved &= not any(is_secret_file(name) for name in changed)
    patch = "".join([patch, *filter(None, added)])
    # Cut before masking: regular expressions over a huge patch would take minutes.
    masked = _mask_patch(patch[:LARGEST_PATCH], secret_values(os.environ))
    return Code(
        commit=commit,
        branch=_line_of(folder, "rev-parse", "--abbrev-ref", "HEAD"),
        remote=mask(_line_of(folder, "config", "--get", "remote.origin.url") or "") or None,
        dirty=changed,
        untracked=untracked,
        patch=masked,
        saved=saved and masked == patch,
        root=root,
    )


def _excluded(root: Path, records: Path | None) -> list[str]:
    """Path arguments of git that exclude the records and the files of trackers."""
    if records is None:
        return []
    runs = records.resolve()
    return _excluded_paths(root, [runs, *(runs.parent / name for name in MIRRORS)])


def _excluded_paths(root: Path, paths: Sequence[Path]) -> list[str]:
    top, resolved = root.resolve(), [path.resolve() for path in paths]
    inside = [path.relative_to(top) for path in resolved if path.is_relative_to(top)]
    return [f":(top,exclude,literal){path}" for path in inside if path.parts]


def _mask_patch(patch: str, values: frozenset[str]) -> str:
    """Mask a patch file by file, because in code a secret name with a colon is an annotation."""
    head, *pieces = patch.split(_FILE)
    masked = [
        (mask if is_settings_file(piece.partition("\n")[0]) else mask_code)(piece, values)
        for piece in pieces
    ]
    return _FILE.join([head, *masked])


def _added(root: Path, name: str) -> str | None:
    """A patch that adds an untracked text file; None for a long file, binary file or secret."""
    path = root / name
    try:
        if is_secret_file(name) or path.is_symlink() or path.stat().st_size > LARGEST_FILE:
            return None
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        return None
    # `git apply` may change line ends with "\r", and treats a file with "\0" as binary.
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
    """The content of `provenance.json`, with secrets masked."""
    values = secret_values(environment)
    return {
        "command": [mask(argument, values) for argument in command],
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
    """The versions of the installed packages, by their names in lower case."""
    versions = {}
    for distribution in distributions():
        metadata = distribution.metadata  # A property that parses the file at each access.
        if name := metadata["Name"]:
            versions[name.lower()] = metadata["Version"]
    return dict(sorted(versions.items()))


def machine() -> dict[str, Any]:
    """The hardware and the operating system of this machine."""
    return {
        "host": platform.node(),
        "system": platform.platform(),
        "processor": _processor(),
        "cores": usable_cores(),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def usable_cores() -> int:
    """The number of cores that this process may use; containers and job schedulers limit it."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match.group(1) if match else platform.processor()


def _line_of(folder: Path, *arguments: str) -> str | None:
    text = _git(folder, *arguments)
    return text.strip() if text is not None else None


def _git(folder: Path, *arguments: str) -> str | None:
    """The output of a git command; None where git is missing, fails or takes too long."""
    try:
        # Hooks and fsmonitor are off (`_GIT`): they could execute code of the checkout. Optional
        # locks are off, so that the user's own git commands never meet a lock of ours.
        result = subprocess.run(
            [*_GIT, *arguments],
            cwd=folder,
            capture_output=True,
            check=True,
            timeout=_TIMEOUT,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.decode(errors="replace")
