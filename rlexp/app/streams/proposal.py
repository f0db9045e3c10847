"""Reads one candidate: its code, its settings, and whether it may be compared at all."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlexp.app.reproduction.checkout import Checkout
from rlexp.app.streams.candidate_code import (
    CandidateCode,
    code_of_diff,
    code_of_worktree,
    tree_of,
)
from rlexp.app.streams.composition import (
    ComposedCandidate,
    compose_candidate,
    refuse_frozen_words,
    refuse_other_task,
)
from rlexp.app.streams.protected_files import refuse_changed_files, sums_of_protected
from rlexp.app.streams.scoring import check_learner
from rlexp.app.streams.training import Checkouts
from rlexp.app.workspace import Workspace
from rlexp.config.overrides import split_override
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.budget import LEAN
from rlexp.protocol.experiment import Configuration, Experiment
from rlexp.protocol.seeds import Phase
from rlexp.records.stream import CandidateSource, StreamBeginning, StreamRegister
from rlexp.store.layout import ExperimentPaths
from rlexp.store.sweeps import read_trials

CODE = "code"
"""The parameter of a trial that is a change of code."""
SHORT = 12
"""Digits of a digest that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateProposal:
    """What a command proposes.

    Attributes:
        words: Settings that differ from the champion.
        diff: A patch to the champion's code.
        worktree: A git worktree with changed code.
        command: The command as the user typed it.
    """

    words: tuple[str, ...] = ()
    diff: Path | None = None
    worktree: Path | None = None
    command: tuple[str, ...] = ()

    @property
    def source(self) -> CandidateSource:
        """Where the candidate comes from."""
        if self.diff is not None:
            return CandidateSource.DIFF
        return CandidateSource.SETTINGS if self.worktree is None else CandidateSource.WORKTREE

    @property
    def is_empty(self) -> bool:
        """Whether the proposal holds no change."""
        return not self.words and self.diff is None and self.worktree is None


@dataclass(frozen=True, slots=True)
class CheckedCandidate:
    """A candidate that may be compared with the champion.

    Attributes:
        configuration: Its configuration with the digest of its code.
        code: Its code.
        parameters: What is shown as its parameters.
        composed: What its words mean.
    """

    configuration: Configuration
    code: CandidateCode
    parameters: dict[str, Any]
    composed: ComposedCandidate


def merged(overrides: Sequence[str], added: Sequence[str]) -> tuple[str, ...]:
    """Words with further ones, which replace words of the same key."""
    replaced = {split_override(word)[0] for word in added}
    return (
        *(w for w in overrides if "=" not in w or split_override(w)[0] not in replaced),
        *added,
    )


def refuse_changed_workspace(beginning: StreamBeginning, checkout: Checkout, study: str) -> None:
    """Refuse to score where the files of the environment differ from those at the beginning.

    Raises:
        RecordError: Names the file.
    """
    present = sums_of_protected(checkout.folder, beginning.modules, beginning.declared)
    remedy = f"restore it; {study} cannot be continued with another environment"
    refuse_changed_files(beginning.protected, present, "the workspace", remedy)


def read_candidate(
    proposal: CandidateProposal,
    paths: ExperimentPaths,
    experiment: Experiment,
    register: StreamRegister,
    beginning: StreamBeginning,
    checkouts: Checkouts,
    workspace: Workspace,
) -> CheckedCandidate:
    """Read a candidate and refuse what changes the task, the seeds, the evaluation or the budget.

    Nothing is trained, and nothing is written but the commit of a patch.

    Raises:
        RlexpError: The candidate is refused; the message names the word or the file.
    """
    refuse_frozen_words(proposal.words, beginning.free)
    code = _code(proposal, paths, register, beginning, workspace)
    checkout = checkouts.of(code.commit)
    if proposal.source is not CandidateSource.SETTINGS:
        present = sums_of_protected(checkout.folder, beginning.modules, beginning.declared)
        remedy = "leave it as it is, or begin another stream"
        refuse_changed_files(beginning.protected, present, "the candidate", remedy)
    words = merged(
        merged(beginning.words, register.words_of(register.champion)), _of_training(proposal.words)
    )
    composed = compose_candidate(words, checkout, workspace)
    remedy = "propose agent or algorithm only, or begin another stream"
    refuse_other_task(composed.configuration, experiment.default, beginning.free, remedy)
    configuration = replace(composed.configuration, code=code.digest)
    return CheckedCandidate(configuration, code, _parameters(proposal, code), composed)


def check_candidate(
    candidate: CheckedCandidate,
    experiment: Experiment,
    code: str,
    trusted: Checkout,
    workspace: Workspace,
) -> None:
    """Refuse a candidate whose policy the trusted code could not score.

    Args:
        candidate: The candidate.
        experiment: The stream.
        code: The digest of the trusted code.
        trusted: The checkout of the trusted code.
        workspace: The workspace.

    Raises:
        ConfigError: Why its learner cannot be built.
    """
    seed = experiment.seeds.seeds(Phase.TUNING)[0]
    spec = candidate.configuration.spec(Phase.TUNING, experiment.seeds.root, seed)
    lean = bool(candidate.composed.operational.get(LEAN, True))
    check_learner(spec, trusted, workspace, code=code, lean=lean)


def earlier_number(paths: ExperimentPaths, configuration: Configuration) -> int | None:
    """The number of the trial with the same configuration and code, if any."""
    for trial in read_trials(paths):
        earlier = trial.configuration
        if earlier is not None and earlier.fingerprint == configuration.fingerprint:
            return trial.number
    return None


def _code(
    proposal: CandidateProposal,
    paths: ExperimentPaths,
    register: StreamRegister,
    beginning: StreamBeginning,
    workspace: Workspace,
) -> CandidateCode:
    """The code of a candidate; that of the champion for settings.

    Raises:
        RecordError: It has no digest, or does not fit the champion.
    """
    champion = register.commit_of(register.champion)
    if proposal.source is CandidateSource.SETTINGS:
        if champion is None:
            return CandidateCode(None, beginning.code)
        return CandidateCode(champion, tree_of(workspace.folder, champion))
    if champion is None:
        raise RecordError(
            f"{paths.name} has begun outside of git, so that its code has no commit: git init, "
            "commit, and begin another stream",
            command="git init",
        )
    if proposal.diff is not None:
        return code_of_diff(proposal.diff, workspace.folder, champion, paths.name)
    worktree = proposal.worktree or Path()
    records, command = workspace.layout.root, shlex.join(proposal.command)
    return code_of_worktree(worktree, workspace.folder, records, paths.name, command)


def _of_training(overrides: Sequence[str]) -> tuple[str, ...]:
    return tuple(w for w in overrides if split_override(w)[0].partition(".")[0] != "executor")


def _parameters(proposal: CandidateProposal, code: CandidateCode) -> dict[str, Any]:
    if proposal.source is not CandidateSource.SETTINGS:
        return {CODE: code.digest[:SHORT]}
    pairs = (split_override(word) for word in _of_training(proposal.words))
    return {key.lstrip("+"): _value(text) for key, text in pairs}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def check_one_way(proposal: CandidateProposal) -> None:
    """Refuse a candidate that is settings and code, or two changes of code, at once.

    Raises:
        ConfigError: What to leave out.
    """
    if proposal.diff is not None and proposal.worktree is not None:
        raise ConfigError("--diff and --worktree are two candidates: leave one out", key="--diff")
    if proposal.source is not CandidateSource.SETTINGS and _of_training(proposal.words):
        raise ConfigError(
            f"{proposal.words[0]} and a change of code are two candidates: propose one after the "
            "other, so that each is judged alone",
            key=split_override(proposal.words[0])[0],
        )
