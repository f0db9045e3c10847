"""Rebuilds the code of a run in a separate git worktree, leaving the user's files untouched."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import distributions
from json import loads
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rlexp.app.reproduction.original import RecordedCode
from rlexp.errors import RecordError

GIT = (
    *("git", "-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null"),
    *("-c", "submodule.recurse=false", "-c", "advice.detachedHead=false"),
)
"""The git command, with settings that keep hooks of the repository from running."""
LIMIT = 600.0
"""Seconds that one call of git may take; a large checkout takes long."""
LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class Checkout:
    """The rebuilt code of a run.

    Attributes:
        folder: The workspace's folder in the worktree.
        imports: Folders of the worktree that replace folders of the repository on Python's path.
        own: Whether the code is in a new worktree, rather than in the present folder.
    """

    folder: Path
    imports: tuple[Path, ...] = ()
    own: bool = True


def repository(folder: Path) -> Path | None:
    """The root of the git checkout that contains a folder, or None."""
    result = git(folder, "rev-parse", "--show-toplevel")
    return Path(os.fsdecode(result.stdout).rstrip("\n")) if result.returncode == 0 else None


def import_variables(checkout: Checkout) -> dict[str, str]:
    """The variables that make processes import from the checkout before any other folder."""
    if not checkout.imports:
        return {}
    before = os.environ.get("PYTHONPATH")
    # An empty entry would put the current folder on Python's path.
    folders = [*map(str, checkout.imports), *([before] if before else [])]
    return {"PYTHONPATH": os.pathsep.join(folders)}


@contextmanager
def check_out_code(code: RecordedCode, folder: Path, worktree: Path) -> Iterator[Checkout]:
    """Rebuild the code of a run inside a `with` block; the worktree is removed after it.

    Args:
        code: The recorded code; without a commit, the present folder is used.
        folder: The workspace's folder, in its git checkout.
        worktree: The worktree's folder, which must not exist yet.

    Raises:
        RecordError: The repository lacks the commit, or the changes do not apply to it.
    """
    if code.commit is None:
        yield Checkout(folder, own=False)
        return
    root = _repository_with(code, folder)
    try:
        _add(root, worktree, code)
        inside = worktree / folder.resolve().relative_to(root.resolve())
        # The commit may lack the workspace's folder, which then holds no code of the run.
        inside.mkdir(parents=True, exist_ok=True)
        yield Checkout(inside, tuple(_imports(root, worktree)))
    finally:
        _remove(root, worktree)


def _repository_with(code: RecordedCode, folder: Path) -> Path:
    """The repository of the workspace, if it contains the commit."""
    root = repository(folder)
    origin = f", which came from {code.remote}" if code.remote else ""
    if root is None:
        raise RecordError(
            f"the run's code is commit {code.commit}{origin}, and {folder} is not in a git checkout: "
            "repeat the command in a checkout of that repository"
        )
    if git(root, "cat-file", "-e", f"{code.commit}^{{commit}}").returncode != 0:
        raise RecordError(
            f"the run's code is commit {code.commit}{origin}, which {root} does not contain: "
            "try git fetch --all"
        )
    return root


def _add(root: Path, worktree: Path, code: RecordedCode) -> None:
    checkout = git(root, "worktree", "add", "--detach", "--quiet", str(worktree), str(code.commit))
    if checkout.returncode != 0:
        raise RecordError(f"git cannot check out commit {code.commit}: {reason_of(checkout)}")
    if not code.patch:
        return
    patching = git(worktree, "apply", "--whitespace=nowarn", "-", content=code.patch)
    if patching.returncode != 0:
        not_saved = "" if code.saved else ", which was not saved in full,"
        raise RecordError(
            f"{code.source}{not_saved} does not apply to commit {str(code.commit)[:7]}: "
            f"{reason_of(patching)}"
        )


def _remove(root: Path, worktree: Path) -> None:
    """Remove the worktree in any state; a second Ctrl-C does not interrupt the removal."""
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        removed = git(root, "worktree", "remove", "--force", "--force", str(worktree))
        shutil.rmtree(worktree, ignore_errors=True)
        if removed.returncode != 0:
            # An interrupted `git worktree add` leaves a locked entry, which git itself would prune
            # only after months.
            git(root, "worktree", "unlock", str(worktree))
            git(root, "worktree", "prune")
    finally:
        signal.signal(signal.SIGINT, handler)


def _imports(root: Path, worktree: Path) -> Iterator[Path]:
    """Yield the worktree's versions of the folders from which Python imports.

    An editable installation would otherwise be imported in its present state. The workspace's
    folder is left out: it comes last, as in every run.
    """
    # Unless Python is in safe mode, the first entry is the folder of the script.
    search_path = sys.path if sys.flags.safe_path else sys.path[1:]
    for folder in dict.fromkeys([*search_path, *_editable_folders()]):
        with suppress(ValueError, OSError):
            inside = worktree / Path(folder).resolve().relative_to(root.resolve())
            if inside.is_dir():
                yield inside


def _editable_folders() -> Iterator[str]:
    """Yield the source folders of editable installations."""
    for distribution in distributions():
        text = distribution.read_text("direct_url.json")
        with suppress(ValueError, AttributeError, TypeError, KeyError):
            origin = loads(text or "{}")
            if origin.get("dir_info", {}).get("editable"):
                folder = Path(unquote(urlsplit(origin["url"]).path))
                # direct_url.json names the project, and many keep their packages in src/.
                inner = folder / "src"
                yield str(inner if inner.is_dir() else folder)


def reason_of(result: "subprocess.CompletedProcess[bytes]") -> str:
    """The first line of what git said, or its exit code."""
    lines = result.stderr.decode(errors="replace").strip().splitlines()
    return lines[0][:LONGEST_REASON] if lines else f"it ended with code {result.returncode}"


def git(
    folder: Path,
    *arguments: str,
    content: bytes = b"",
    variables: Mapping[str, str] | None = None,
) -> "subprocess.CompletedProcess[bytes]":
    """Call git in a folder, without hooks and without variables of another repository.

    Args:
        folder: The folder.
        arguments: The arguments.
        content: The standard input.
        variables: Further environment variables.

    Raises:
        RecordError: git cannot be started, or does not end.
    """
    command: Sequence[str] = [*GIT, *arguments]
    # In a git hook, variables such as GIT_DIR would point git to another repository.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    silent = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        return subprocess.run(
            command,
            cwd=folder,
            input=content,
            capture_output=True,
            check=False,
            timeout=LIMIT,
            env={**inherited, **silent, **(variables or {})},
            # Ctrl-C in the terminal must not interrupt git half-way.
            start_new_session=True,
        )
    except OSError as error:
        raise RecordError(f"git cannot be started: {error.strerror}; install git") from error
    except subprocess.TimeoutExpired as error:
        raise RecordError(f"git {arguments[0]} did not end within {LIMIT:g} s") from error
