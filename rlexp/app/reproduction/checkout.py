"""The code of a run, rebuilt in a git worktree of its own: the user's own files stay untouched."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
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
"""No hook of the repository runs."""
LIMIT = 600.0
"""Seconds that one call of git may take; a large checkout takes long."""
LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class Checkout:
    """Where the code of a run lies now.

    Attributes:
        folder: The workspace's folder in it.
        imports: Folders that stand for those of the repository that Python imports from now.
        own: Whether it is a worktree made for this, and not the present folder.
    """

    folder: Path
    imports: tuple[Path, ...] = ()
    own: bool = True


def repository(folder: Path) -> Path | None:
    """The top of the git checkout around a folder, or nothing where there is none."""
    done = _git(folder, "rev-parse", "--show-toplevel")
    return Path(os.fsdecode(done.stdout).rstrip("\n")) if done.returncode == 0 else None


@contextmanager
def checked_out(code: RecordedCode, folder: Path, place: Path) -> Iterator[Checkout]:
    """Rebuild the code of a run; what was made for it is removed at the end.

    Args:
        code: What was recorded of it; without a commit, the present folder has to do.
        folder: The workspace's folder, in its git checkout.
        place: A folder that does not exist yet.

    Raises:
        RecordError: The commit is not to be found here, or the changes do not apply to it.
    """
    if code.commit is None:
        yield Checkout(folder, own=False)
        return
    root = _holding(code, folder)
    try:
        _add(root, place, code)
        inside = place / folder.resolve().relative_to(root.resolve())
        # A workspace's folder that came into being after the commit holds no code of it.
        inside.mkdir(parents=True, exist_ok=True)
        yield Checkout(inside, tuple(_imports(root, place)))
    finally:
        _remove(root, place)


def _holding(code: RecordedCode, folder: Path) -> Path:
    """The repository of the workspace, if it holds the commit."""
    root = repository(folder)
    origin = f", which came from {code.remote}" if code.remote else ""
    if root is None:
        raise RecordError(
            f"the run's code is commit {code.commit}{origin}, and {folder} is in no git checkout: "
            "give the command in a checkout of that repository"
        )
    if _git(root, "cat-file", "-e", f"{code.commit}^{{commit}}").returncode != 0:
        raise RecordError(
            f"the run's code is commit {code.commit}{origin}, which {root} does not hold: "
            "git fetch --all may bring it"
        )
    return root


def _add(root: Path, place: Path, code: RecordedCode) -> None:
    added = _git(root, "worktree", "add", "--detach", "--quiet", str(place), str(code.commit))
    if added.returncode != 0:
        raise RecordError(f"git cannot check out commit {code.commit}: {_reason(added)}")
    if not code.patch:
        return
    applied = _git(place, "apply", "--whitespace=nowarn", "-", content=code.patch)
    if applied.returncode != 0:
        saved = "" if code.saved else ", which was not saved in full,"
        raise RecordError(
            f"{code.source}{saved} does not apply to commit {str(code.commit)[:7]}: "
            f"{_reason(applied)}"
        )


def _remove(root: Path, place: Path) -> None:
    """Remove the worktree, whatever state it is in; a further Ctrl-C does not stop half-way."""
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        removed = _git(root, "worktree", "remove", "--force", "--force", str(place))
        shutil.rmtree(place, ignore_errors=True)
        if removed.returncode != 0:
            # What git was interrupted at is forgotten, as its own collection would do in time.
            _git(root, "worktree", "unlock", str(place))
            _git(root, "worktree", "prune")
    finally:
        signal.signal(signal.SIGINT, handler)


def _imports(root: Path, place: Path) -> Iterator[Path]:
    """The folders of the repository that installed packages are imported from, in the worktree.

    A package that is installed from a checkout for editing would otherwise be imported as it is
    now. The workspace's own folder is left out: it comes last, as in every run.
    """
    begun = sys.path if sys.flags.safe_path else sys.path[1:]
    for folder in dict.fromkeys([*begun, *_edited()]):
        with suppress(ValueError, OSError):
            inside = place / Path(folder).resolve().relative_to(root.resolve())
            if inside.is_dir():
                yield inside


def _edited() -> Iterator[str]:
    """Folders of packages that are installed for editing, or where their modules lie in them."""
    for distribution in distributions():
        text = distribution.read_text("direct_url.json")
        with suppress(ValueError, AttributeError, TypeError, KeyError):
            plain = loads(text or "{}")
            if plain.get("dir_info", {}).get("editable"):
                folder = Path(unquote(urlsplit(plain["url"]).path))
                inner = folder / "src"
                yield str(inner if inner.is_dir() else folder)


def _reason(done: "subprocess.CompletedProcess[bytes]") -> str:
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return lines[0][:LONGEST_REASON] if lines else f"it ended with code {done.returncode}"


def _git(
    folder: Path, *arguments: str, content: bytes = b""
) -> "subprocess.CompletedProcess[bytes]":
    command: Sequence[str] = [*GIT, *arguments]
    # Inside a hook of git, these would name another checkout.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    variables = {**kept, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        return subprocess.run(
            command,
            cwd=folder,
            input=content,
            capture_output=True,
            check=False,
            timeout=LIMIT,
            env=variables,
            start_new_session=True,
        )
    except OSError as error:
        raise RecordError(f"git cannot be started: {error.strerror}; install git") from error
    except subprocess.TimeoutExpired as error:
        raise RecordError(f"git {arguments[0]} did not end within {LIMIT:g} s") from error
