"""Reads the records of a completed run: its numbers, and the code and machine it used."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlexp.app.workspace import Workspace
from rlexp.errors import RecordError
from rlexp.protocol.seeds import Phase
from rlexp.records.events import Ending, RunEnded
from rlexp.records.run import RunRecord, State
from rlexp.store.files import read_file, read_json
from rlexp.store.layout import AttemptPaths, ExperimentPaths, RunPaths
from rlexp.store.runs import read_attempts, read_run
from rlexp.store.secrets import MASK

COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCode:
    """The code of an attempt: a commit with uncommitted changes, or no commit.

    Attributes:
        commit: The commit, or None where the workspace was not in a git checkout.
        remote: The remote repository of the checkout, if recorded.
        changed: Files with uncommitted changes, including untracked files.
        saved: Whether the patch contains all these changes.
        patch: The changes as a git patch.
        source: The file of the patch.
    """

    commit: str | None = None
    remote: str | None = None
    changed: tuple[str, ...] = ()
    saved: bool = True
    patch: bytes = field(default=b"", repr=False)
    source: Path | None = field(default=None, compare=False)

    def __str__(self) -> str:
        """Describe the code (`commit 1a2b3c4 with 2 uncommitted changes`)."""
        if self.commit is None:
            return "no commit"
        changes = "change" if len(self.changed) == 1 else "changes"
        more = f" with {len(self.changed)} uncommitted {changes}" if self.changed else ""
        return f"commit {self.commit[:7]}{more}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """A completed run: its record with measurements, its provenance and its code.

    `mixed` is true where earlier attempts that count for the run used other code than the last one.
    """

    paths: RunPaths
    record: RunRecord
    provenance: Mapping[str, Any]
    code: RecordedCode
    mixed: bool = False

    @property
    def name(self) -> str:
        """The run's name on the command line."""
        return f"{self.paths.folder.parent.name}/{self.paths.folder.name}"


def find_originals(
    target: str, phase: str | None, count: int | None, workspace: Workspace
) -> list[Original]:
    """The run of this name, or the completed runs of the experiment of this name.

    Args:
        target: A run or an experiment.
        phase: The phase; by default the first of test, selection and tuning with completed runs.
        count: The largest number of runs; None for all.
        workspace: The workspace.

    Raises:
        RecordError: The name is unknown, no run is completed, or a run is damaged.
    """
    match = workspace.find(target)
    if isinstance(match, RunPaths):
        return [_completed(match)]
    records = [(run, read_run(run).record) for run in match.runs()]
    completed_phases = {r.spec.phase for _, r in records if r.state is State.COMPLETED}
    chosen_phase = _phase(phase, completed_phases, match)
    completed = [
        (record.spec.seed, run)
        for run, record in records
        if record.state is State.COMPLETED and record.spec.phase is chosen_phase
    ]
    ordered = [
        run
        for _, run in sorted(
            completed, key=lambda seed_and_run: (seed_and_run[0], seed_and_run[1].folder.name)
        )
    ]
    return [read_original(run) for run in ordered[:count]]


def _phase(requested: str | None, completed_phases: set[Phase], paths: ExperimentPaths) -> Phase:
    if not completed_phases:
        raise RecordError(
            f"{paths.name} has no completed run, and only completed runs can be reproduced"
        )
    if requested is None:
        return next(
            p for p in (Phase.TEST, Phase.SELECTION, Phase.TUNING) if p in completed_phases
        )
    names = [str(phase) for phase in Phase if phase in completed_phases]
    if requested not in names:
        raise RecordError.unknown(
            f"{paths.name} has no completed run of phase {requested!r}",
            requested,
            names,
            key="--phase",
        )
    return Phase(requested)


def _completed(paths: RunPaths) -> Original:
    record = read_run(paths).record
    if record.state is not State.COMPLETED:
        kind = f" ({record.failure})" if record.failure else ""
        raise RecordError(
            f"run {paths.folder.name} is {record.state}{kind}: only a completed run can be "
            "reproduced; 'rlexp status' shows its state"
        )
    return read_original(paths)


def read_original(paths: RunPaths) -> Original:
    """Read the records of a completed run.

    Raises:
        RecordError: The run is damaged.
    """
    record = read_run(paths, measurements=True).record
    attempts = read_attempts(paths)
    ends = [a.paths for a in attempts if _is_completed(a.events[-1:])]
    if not ends:
        raise RecordError(f"run {paths.folder.name} has no completed attempt")
    last = ends[-1]
    provenance = _read_provenance(last)
    code = read_code(provenance, last)
    # The first attempt of an extended run holds the events of its parent.
    first = 1 if record.inherited is None else 2
    earlier = [a.paths for a in attempts if first <= a.paths.number < last.number]
    # Only a continued run contains steps of several attempts.
    mixed = bool(record.continuations) and any(
        read_code(_read_provenance(a), a) != code for a in earlier
    )
    return Original(paths=paths, record=record, provenance=provenance, code=code, mixed=mixed)


def _is_completed(events: Sequence[object]) -> bool:
    return any(isinstance(e, RunEnded) and e.ending is Ending.COMPLETED for e in events)


def _read_provenance(attempt: AttemptPaths) -> Mapping[str, Any]:
    """The provenance of an attempt; empty where the file is missing."""
    return read_json(attempt.provenance) if attempt.provenance.exists() else {}


def read_code(provenance: Mapping[str, Any], attempt: AttemptPaths) -> RecordedCode:
    """The code of an attempt.

    Raises:
        RecordError: The recorded commit makes no sense, or the patch is missing.
    """
    code = provenance.get("code")
    commit = code.get("commit") if isinstance(code, Mapping) else None
    if not isinstance(code, Mapping) or commit is None:
        return RecordedCode()
    # The text becomes an argument of git, and a record from another person could hold an option.
    if not isinstance(commit, str) or not COMMIT.fullmatch(commit):
        raise RecordError(f"{attempt.provenance} is damaged: {commit!r} is not a commit")
    changed = tuple(str(n) for key in ("dirty", "untracked") for n in code.get(key) or ())
    patch = _patch(attempt)
    saved = bool(code.get("saved", True))
    if changed and saved and not patch:
        raise RecordError(
            f"{attempt.patch} is missing: the run's code had uncommitted changes "
            f"({', '.join(changed[:3])}{', …' if len(changed) > 3 else ''}), which are lost"
        )
    remote = code.get("remote")
    return RecordedCode(
        commit=commit,
        remote=remote if isinstance(remote, str) else None,
        changed=changed,
        # A masked secret in the patch makes the rebuilt code differ from the code of the run.
        saved=saved and MASK.encode() not in patch,
        patch=patch,
        source=attempt.patch if patch else None,
    )


def _patch(attempt: AttemptPaths) -> bytes:
    try:
        return read_file(attempt.patch)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise RecordError(f"{attempt.patch} cannot be read: {error.strerror}") from error
