"""A range of commits of the user's repository, in the order of first parents."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from rlexp.app.reproduction.checkout import git, reason_of, repository
from rlexp.errors import ConfigError, RecordError
from rlexp.text import format_count, shorten_middle

OPTION = "--commits"
MOST_COMMITS = 12
"""Most commits of a range, the first one included."""
SHORT = 7
"""Characters of a commit in labels; a fixed number, so that a label never changes."""
LONGEST_SUBJECT = 40


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of a range.

    Attributes:
        hash: Its full hash.
        tree: The hash of its files.
        parent: The hash of its first parent; empty for the first commit of a repository.
        subject: The first line of its message.
    """

    hash: str
    tree: str
    parent: str
    subject: str

    @property
    def short(self) -> str:
        """The beginning of its hash."""
        return self.hash[:SHORT]

    @property
    def name(self) -> str:
        """The beginning of its hash, and its subject in brackets."""
        printable = "".join(c if c.isprintable() else " " for c in self.subject)
        subject = shorten_middle(printable.strip(), LONGEST_SUBJECT)
        return f"{self.short} ({subject})" if subject else self.short


def read_commits(text: str, folder: Path) -> tuple[Commit, ...]:
    """The commits of a range `FIRST..LAST`: the first one, then each step along first parents.

    Raises:
        ConfigError: The text is no range, a revision does not exist, or the range is empty, too long
            or leaves the first parents of its last commit.
        RecordError: The folder is not in a git checkout.
    """
    first_text, separator, last_text = text.partition("..")
    if not separator or not first_text or last_text.startswith("."):
        raise ConfigError(
            f"{OPTION} {text} is no range of commits: write FIRST..LAST, such as {OPTION} HEAD~3..HEAD",
            key=OPTION,
        )
    root = repository(folder)
    if root is None:
        raise RecordError(
            f"{folder} is not in a git checkout, and {OPTION} {text} names commits of one: git init",
            command="git init",
            key=OPTION,
        )
    first, last = (_resolved(root, each) for each in (first_text, last_text or "HEAD"))
    begin = _log(root, "-1", first)
    steps = _log(root, "--first-parent", "--reverse", f"{first}..{last}")
    if not steps:
        raise ConfigError(
            f"{OPTION} {text} is empty: {last[:SHORT]} has no commit after {first[:SHORT]}; the "
            f"earlier commit comes first, such as {OPTION} HEAD~3..HEAD",
            key=OPTION,
        )
    if steps[0].parent != first:
        raise ConfigError(
            f"{OPTION} {text}: {first[:SHORT]} is not among the first parents of {last[:SHORT]}; "
            f"choose a commit of: git log --first-parent --oneline {shlex.quote(last_text or 'HEAD')}",
            key=OPTION,
        )
    return _checked((*begin, *steps), text)


def _checked(commits: tuple[Commit, ...], text: str) -> tuple[Commit, ...]:
    """The commits, which must not be too many and must not return to earlier files.

    Raises:
        ConfigError: The message has a shorter range.
    """
    if len(commits) > MOST_COMMITS:
        shorter = f"{commits[-MOST_COMMITS].short}..{commits[-1].short}"
        raise ConfigError(
            f"{OPTION} {text} has {format_count(len(commits), 'commit')}, and an ablation takes at "
            f"most {MOST_COMMITS}: shorten the range, such as {OPTION} {shorter}",
            key=OPTION,
            code="out_of_range",
        )
    seen: dict[str, Commit] = {}
    for before, commit in zip((None, *commits), commits, strict=False):
        earlier = seen.setdefault(commit.tree, commit)
        if earlier is not commit and before is not None and before.tree != commit.tree:
            raise ConfigError(
                f"{OPTION} {text}: {commit.name} has the same files as {earlier.short}, so that "
                f"nothing is left of the commits between them: begin there, {OPTION} "
                f"{commit.short}..LAST, or end before it, {OPTION} {commits[0].short}..{before.short}",
                key=OPTION,
            )
    if len(seen) == 1:
        raise ConfigError(
            f"{OPTION} {text}: all its commits have the same files, so that nothing is to be ablated",
            key=OPTION,
        )
    return commits


def _resolved(root: Path, revision: str) -> str:
    result = git(root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if result.returncode != 0:
        raise ConfigError(
            f"{OPTION}: git does not find the commit {revision!r}; to see what there is: "
            "git log --oneline",
            key=OPTION,
            code="unknown_value",
        )
    return result.stdout.decode().strip()


def _log(root: Path, *selection: str) -> tuple[Commit, ...]:
    # Signatures would be lines between the commits.
    result = git(
        *(root, "-c", "log.showSignature=false", "log", "--no-color"),
        *("--format=%H%x00%T%x00%P%x00%s", *selection, "--"),
    )
    if result.returncode != 0:
        raise RecordError(f"git cannot list the commits: {reason_of(result)}")
    # Not `splitlines`: a subject may hold a separator that only Python takes for an end of a line.
    lines = os.fsdecode(result.stdout).split("\n")
    fields = [line.split("\0", 3) for line in lines if line]
    return tuple(Commit(h, tree, parents.partition(" ")[0], s) for h, tree, parents, s in fields)
