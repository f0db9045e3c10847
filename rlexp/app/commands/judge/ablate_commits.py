"""An ablation of commits: one configuration, trained by the code of each commit of a range."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from signal import Signals
from typing import Any

from rlexp.app.commands.judge.ablate_source import AblationWords, ablation_name
from rlexp.app.execution.ablation_plan import AblationPlan
from rlexp.app.observer import Observer
from rlexp.app.reproduction.checkout import repository
from rlexp.app.reproduction.commit_range import OPTION, Commit, read_commits
from rlexp.app.streams.candidate_code import refer
from rlexp.app.streams.composition import ComposedCandidate, compose_in_checkout, task_differences
from rlexp.app.streams.training import Checkouts, StreamTraining
from rlexp.app.workspace import Workspace
from rlexp.engine.source import Plan
from rlexp.errors import ConfigError
from rlexp.protocol.experiment import Configuration, Experiment, Failures
from rlexp.protocol.seeds import Phase
from rlexp.protocol.spec import OF_COMMIT, RunSpec
from rlexp.records.ablation import AblatedChange, Ablation
from rlexp.store.provenance import read_code
from rlexp.store.runs import write_experiment
from rlexp.text import format_count

ORDER = "The commits are in the order of their first parents."
SAME = "it changes no file"
OTHER_SETTINGS = "its words cannot be composed: its runs have the settings of the commit before"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSource:
    """The commits of an ablation and the configuration that each of them trains.

    Attributes:
        plan: What is trained, and what is compared.
        commits: The commit of each configuration, by its field `code`.
        name: The name of the experiment, where the command names none.
        root: The root of the seeds that the words have in the first commit.
        failures: How failed runs count.
        operational: Settings of every attempt that change no number.
    """

    plan: AblationPlan
    commits: Mapping[str, str]
    name: str
    root: int
    failures: Failures
    operational: Mapping[str, Any]

    @property
    def fingerprints(self) -> tuple[str, str]:
        """The identities of the first configuration and of the last one."""
        every = {c.label: c.fingerprint for c in self.plan.configurations}
        last, first = self.plan.ablation.total
        return every[first], every[last]


@dataclass(frozen=True, slots=True)
class CommitTraining:
    """Trains the runs of an ablation, each in a checkout of its commit.

    Attributes:
        training: How runs are trained by other code than that of the working tree.
        commits: The commit of each configuration, by its field `code`.
        last: The last commit of the range, which git keeps with all before it.
    """

    training: StreamTraining
    commits: Mapping[str, str]
    last: str

    def train(self, experiment: Experiment, plan: Plan, *, retry: bool) -> Signals | None:
        """Write the definition, and train the missing runs, commit by commit.

        Returns:
            The signal that ended the training, or None.
        """
        paths = self.training.paths
        root = repository(self.training.workspace.folder)
        if root is not None:
            refer(root, paths.name, self.last, self.last)
        # The definition precedes every run: a run folder without one would belong to no experiment.
        write_experiment(paths, experiment)
        groups: dict[str | None, list[RunSpec]] = {}
        for spec in plan.missing:
            groups.setdefault(self.commits[str(spec.code)], []).append(spec)
        return replace(self.training, retry=retry).train(groups, Phase.TEST)


def read_commit_source(
    text: str, words: AblationWords, checkouts: Checkouts, observer: Observer
) -> CommitSource:
    """The configuration of the words in each commit of a range.

    Raises:
        RlexpError: The range is refused; a target is named; the words are wrong in the first commit;
            or a commit changes what is trained on, for how long, or how it is scored.
    """
    workspace = checkouts.workspace
    if words.targets:
        raise ConfigError(
            f"{OPTION} takes the words of one configuration and no experiment: leave out "
            f"{' '.join(words.targets)}",
            key=words.targets[0],
        )
    if unmirrored := [key for key in words.keys if key.partition(".")[0] == "tracker"]:
        raise ConfigError(
            f"{unmirrored[0]}: the runs of commits have no tracker while they train; leave it out, "
            "and copy them afterwards with rlexp sync",
            key=unmirrored[0],
        )
    commits = read_commits(text, workspace.folder)
    _note_changes(workspace, observer)
    composed = _composed(commits, words.changes, checkouts, observer)
    labels = _labels(commits)
    configurations = {
        labels[commit]: replace(
            each.configuration, label=labels[commit], code=f"{OF_COMMIT}{commit.tree}"
        )
        for commit, each in composed.items()
    }
    # Commits of the same files share a configuration.
    codes = {f"{OF_COMMIT}{c.tree}": c.hash for c in reversed(commits)}
    first = composed[commits[0]]
    ends = [configurations[labels[commits[side]]] for side in (0, -1)]
    return CommitSource(
        plan=AblationPlan(_ablation(commits, composed, words), tuple(configurations.values())),
        commits=codes,
        name=ablation_name(*ends),
        root=first.seeds.root,
        failures=first.failures,
        operational=first.operational,
    )


def _note_changes(workspace: Workspace, observer: Observer) -> None:
    code = read_code(workspace.folder, workspace.layout.root)
    changed = [*code.dirty, *code.untracked]
    if changed:
        observer.note(
            f"Changes that are not committed are no part of this ablation "
            f"({format_count(len(changed), 'file')}): only commits count"
        )


def _labels(commits: Sequence[Commit]) -> dict[Commit, str]:
    """The label of each commit: that of the first commit with the same files."""
    first: dict[str, Commit] = {}
    return {commit: first.setdefault(commit.tree, commit).short for commit in commits}


def _composed(
    commits: Sequence[Commit], overrides: Sequence[str], checkouts: Checkouts, observer: Observer
) -> dict[Commit, ComposedCandidate]:
    """What the words mean in each commit that changes files.

    Raises:
        ConfigError: The words are wrong in the first commit, or mean another task in another one.
    """
    first, *others = commits
    base = before = _compose(first, overrides, checkouts)
    _check_supported(base)
    composed = {first: base}
    tree = first.tree
    for commit in others:
        if commit.tree == tree:
            continue
        tree = commit.tree
        try:
            present = _compose(commit, overrides, checkouts)
        except ConfigError as error:
            # A commit that is broken is trained all the same, so that its runs fail visibly.
            observer.note(f"Warning: {error}")
            present = before
        _check_supported(present)
        _refuse_other_task(commit, present.configuration, base.configuration)
        composed[commit] = before = present
    return composed


def _compose(commit: Commit, overrides: Sequence[str], checkouts: Checkouts) -> ComposedCandidate:
    """What the words mean in a commit; an error begins with its name.

    Raises:
        ConfigError: The words are wrong there.
        ExecutorError: The process that composes them has failed.
    """
    checkout = checkouts.of(commit.hash)
    try:
        return compose_in_checkout(
            overrides, checkout, checkouts.workspace, "an ablation of commits"
        )
    except ConfigError as error:
        raise ConfigError(f"in {commit.name}: {error}", code=error.code, key=error.key) from error


def _check_supported(composed: ComposedCandidate) -> None:
    if composed.starts_from:
        raise ConfigError(
            "algorithm.start_from and replay=prior_data begin with what no commit has trained: leave "
            "them out",
            key="algorithm.start_from",
        )
    if "command" in composed.configuration.algorithm:
        raise ConfigError(
            "an ablation of commits trains algorithms with a class, and no training scripts",
            key="algorithm",
        )


def _refuse_other_task(commit: Commit, present: Configuration, base: Configuration) -> None:
    for difference in task_differences(present, base):
        raise ConfigError(
            f"{commit.name} changes {difference.path} from {difference.first!r} to "
            f"{difference.second!r}, so that its scores cannot be compared: give {difference.path} as "
            f"a word, or end the range before it, {OPTION} FIRST..{commit.short}~1",
            key=difference.path,
        )


def _ablation(
    commits: Sequence[Commit],
    composed: Mapping[Commit, ComposedCandidate],
    words: AblationWords,
) -> Ablation:
    labels = _labels(commits)
    pairs = pairwise(commits)
    changes = tuple(_change(before, commit, labels, composed) for before, commit in pairs)
    return Ablation(
        kind="commits",
        total=(labels[commits[-1]], labels[commits[0]]),
        changes=changes,
        order=ORDER,
        source={
            "first": commits[0].hash,
            "last": commits[-1].hash,
            "words": " ".join(words.changes),
        },
    )


def _change(
    before: Commit,
    commit: Commit,
    labels: Mapping[Commit, str],
    composed: Mapping[Commit, ComposedCandidate],
) -> AblatedChange:
    """A commit against its parent."""
    old, new = labels[before], labels[commit]
    return AblatedChange(
        name=commit.name,
        old={"commit": before.short},
        new={"commit": commit.short},
        step=(new, old) if new != old else None,
        remark=SAME if new == old else _fallback(commit, composed),
    )


def _fallback(commit: Commit, composed: Mapping[Commit, ComposedCandidate]) -> str | None:
    """The remark on a commit whose words cannot be composed; None for any other."""
    same = [other for other, each in composed.items() if each is composed[commit]]
    return None if same[0] == commit else OTHER_SETTINGS


def pinned(command: Sequence[str], text: str, ablation: Ablation) -> tuple[str, ...]:
    """The command with hashes in the place of names, which move with later commits."""
    exact = f"{ablation.source['first'][:12]}..{ablation.source['last'][:12]}"
    return tuple(
        exact if word == text else f"{OPTION}={exact}" if word == f"{OPTION}={text}" else word
        for word in command
    )
