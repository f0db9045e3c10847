"""The code of candidates: a commit for each, made of a patch or taken from a git worktree.

The user's files and branches stay untouched. Every commit of a candidate has a reference below
`refs/rlexp/`, so that git keeps it.
"""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rlexp.app.reproduction.checkout import git, reason_of, repository
from rlexp.errors import RecordError
from rlexp.store.provenance import read_code

SHOWN = 3
"""Most changed files that an error names."""


@dataclass(frozen=True, slots=True)
class CandidateCode:
    """The code of a candidate.

    Attributes:
        commit: The commit; None where the workspace is not in a git checkout.
        digest: The digest of the code, the field `code` of its runs.
        name: The file or folder that it came from; None for the code of the champion.
    """

    commit: str | None
    digest: str
    name: str | None = None


def clean_commit(folder: Path, records: Path, what: str, command: str) -> str | None:
    """The commit of a checkout without any change; None for a folder outside of git.

    Args:
        folder: A folder in the checkout.
        records: The folder `runs/`, which is left out.
        what: The beginning of the error, without its verb.
        command: The command to repeat after the changes are committed.

    Raises:
        RecordError: Files are changed or untracked; the message names them and what to type.
    """
    code = read_code(folder, records)
    changed = [*code.dirty, *code.untracked]
    if code.commit is None or not changed:
        return code.commit
    names = ", ".join(changed[:SHOWN]) + (", …" if len(changed) > SHOWN else "")
    where = shlex.quote(str(folder))
    commit = f"git -C {where} add -A && git -C {where} commit -m candidate && {command}"
    raise RecordError(
        f"{what} has changes that are not committed ({names}), so that its code has no digest: "
        f"commit them, or name them in .gitignore: {commit}",
        code="dirty_tree",
        key=str(folder),
        command=commit,
    )


def tree_of(folder: Path, commit: str) -> str:
    """The hash of the files of a commit, which is the digest of its code.

    Raises:
        RecordError: The repository lacks the commit.
    """
    return _line(git(folder, "rev-parse", f"{commit}^{{tree}}"), f"git does not find {commit}")


def code_of_diff(diff: Path, folder: Path, commit: str, study: str) -> CandidateCode:
    """The code of a patch that is applied to a commit.

    Args:
        diff: The patch, as `git diff` writes it.
        folder: The workspace.
        commit: The commit of the champion.
        study: The name of the stream.

    Raises:
        RecordError: The patch cannot be read, does not apply, or changes nothing.
    """
    try:
        content = diff.read_bytes()
    except OSError as error:
        raise RecordError(
            f"--diff {diff} cannot be read: {error.strerror}", key="--diff"
        ) from error
    root = _repository(folder)
    with TemporaryDirectory(prefix="rlexp-index-") as temporary:
        # An index of its own: neither the files nor the index of the user are touched.
        index = {"GIT_INDEX_FILE": str(Path(temporary) / "index")}
        _line(git(root, "read-tree", commit, variables=index), f"git cannot read {commit}")
        applied = git(
            *(root, "apply", "--cached", "--whitespace=nowarn", "-"),
            content=content,
            variables=index,
        )
        if applied.returncode != 0:
            raise RecordError(
                f"--diff {diff} does not apply to the champion's commit {commit[:7]}: "
                f"{reason_of(applied)}",
                key="--diff",
            )
        tree = _line(git(root, "write-tree", variables=index), "git cannot write a tree")
    if tree == tree_of(root, commit):
        raise RecordError(f"--diff {diff} changes nothing of the champion", key="--diff")
    return CandidateCode(_commit(root, tree, commit, study), tree, str(diff))


def code_of_worktree(
    worktree: Path, folder: Path, records: Path, study: str, command: str
) -> CandidateCode:
    """The code of a git worktree of the user's repository, which must be clean.

    Raises:
        RecordError: The folder is no worktree of this repository, or has changes.
    """
    root = _repository(folder)
    commit = clean_commit(worktree, records, f"--worktree {worktree}", command)
    if commit is None or git(root, "cat-file", "-e", f"{commit}^{{commit}}").returncode != 0:
        raise RecordError(
            f"--worktree {worktree} is no worktree of {root}: make one with "
            f"git -C {shlex.quote(str(root))} worktree add {shlex.quote(str(worktree))}",
            key="--worktree",
        )
    tree = tree_of(root, commit)
    refer(root, study, tree, commit)
    return CandidateCode(commit, tree, str(worktree))


def _repository(folder: Path) -> Path:
    root = repository(folder)
    if root is None:
        raise RecordError(
            f"{folder} is not in a git checkout, and a change of code is a commit: git init",
            command="git init",
        )
    return root


def _commit(root: Path, tree: str, parent: str, study: str) -> str:
    """A commit of a tree, the same for the same tree and parent."""
    # Author and dates are fixed: a command that is repeated after a kill makes the same commit.
    moment = _line(git(root, "show", "-s", "--format=%ct", parent), f"git does not find {parent}")
    signature = {
        f"GIT_{role}_{key}": value
        for role in ("AUTHOR", "COMMITTER")
        for key, value in (("NAME", "rlexp"), ("EMAIL", "rlexp"), ("DATE", f"{moment} +0000"))
    }
    made = git(
        *(root, "commit-tree", tree, "-p", parent, "-m", f"Candidate of {study}"),
        variables=signature,
    )
    commit = _line(made, "git cannot make a commit")
    refer(root, study, tree, commit)
    return commit


def refer(root: Path, study: str, tree: str, commit: str) -> None:
    """Keep a commit by a reference, which has the name of the study and the beginning of a hash.

    Raises:
        RecordError: git cannot write it.
    """
    # A name of an experiment may hold characters that git does not allow in a reference.
    name = "".join(c if c.isalnum() or c in "-_" else "-" for c in study)
    made = git(root, "update-ref", f"refs/rlexp/{name}/{tree[:12]}", commit)
    _line(made, "git cannot write a reference")


def _line(result: object, problem: str) -> str:
    """The only line of an answer of git.

    Raises:
        RecordError: git has failed.
    """
    code, output = getattr(result, "returncode", 1), getattr(result, "stdout", b"")
    if code != 0:
        raise RecordError(f"{problem}: {reason_of(result)}")  # type: ignore[arg-type]
    return os.fsdecode(output).strip()
