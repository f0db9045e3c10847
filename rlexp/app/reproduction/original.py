"""What is recorded of a completed run: its numbers, and the code and machine they came from."""

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
    """The code that an attempt ran: a commit with uncommitted changes, or no commit at all.

    Attributes:
        commit: The commit, or nothing where the workspace was in no git checkout.
        remote: Where the checkout came from, if that is known.
        changed: Files with uncommitted changes, untracked ones among them.
        saved: Whether the patch holds all these changes as they were.
        patch: The changes as git tells them.
        source: The file of the patch.
    """

    commit: str | None = None
    remote: str | None = None
    changed: tuple[str, ...] = ()
    saved: bool = True
    patch: bytes = field(default=b"", repr=False)
    source: Path | None = field(default=None, compare=False)

    def __str__(self) -> str:
        """One phrase (`commit 1a2b3c4 with 2 uncommitted changes`)."""
        if self.commit is None:
            return "no commit"
        changes = "change" if len(self.changed) == 1 else "changes"
        more = f" with {len(self.changed)} uncommitted {changes}" if self.changed else ""
        return f"commit {self.commit[:7]}{more}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """A completed run with its measurements, the code it ran, and all that was recorded of both.

    `mixed` says that attempts which count for it ran other code than the last one.
    """

    paths: RunPaths
    record: RunRecord
    provenance: Mapping[str, Any]
    code: RecordedCode
    mixed: bool = False

    @property
    def name(self) -> str:
        """Its name on the command line."""
        return f"{self.paths.folder.parent.name}/{self.paths.folder.name}"


def find_originals(
    target: str, phase: str | None, count: int | None, workspace: Workspace
) -> list[Original]:
    """The run that is named, or the completed runs of a phase of the experiment that is named.

    Args:
        target: A run or an experiment.
        phase: Of an experiment; by default test, or else the first that has completed runs.
        count: Only the first so many.
        workspace: Where they are looked up.

    Raises:
        RecordError: There is none of that name, none is completed, or one is damaged.
    """
    found = workspace.find(target)
    if isinstance(found, RunPaths):
        return [_completed(found)]
    records = [(run, read_run(run).record) for run in found.runs()]
    there = {r.spec.phase for _, r in records if r.state is State.COMPLETED}
    wanted = _phase(phase, there, found)
    completed = [
        (record.spec.seed, run)
        for run, record in records
        if record.state is State.COMPLETED and record.spec.phase is wanted
    ]
    ordered = [
        run for _, run in sorted(completed, key=lambda pair: (pair[0], pair[1].folder.name))
    ]
    return [read_original(run) for run in ordered[:count]]


def _phase(asked: str | None, there: set[Phase], paths: ExperimentPaths) -> Phase:
    if not there:
        raise RecordError(f"{paths.name} has no completed run: only these can be reproduced")
    if asked is None:
        return next(p for p in (Phase.TEST, Phase.SELECTION, Phase.TUNING) if p in there)
    names = [str(phase) for phase in Phase if phase in there]
    if asked not in names:
        raise RecordError.unknown(
            f"{paths.name} has no completed run of phase {asked!r}", asked, names, key="--phase"
        )
    return Phase(asked)


def _completed(paths: RunPaths) -> Original:
    record = read_run(paths).record
    if record.state is not State.COMPLETED:
        kind = f" ({record.failure})" if record.failure else ""
        raise RecordError(
            f"run {paths.folder.name} is {record.state}{kind}: only a completed run can be "
            "reproduced; 'rlexp status' says what is unfinished"
        )
    return read_original(paths)


def read_original(paths: RunPaths) -> Original:
    """Read all that is recorded of a completed run.

    Raises:
        RecordError: It is damaged.
    """
    record = read_run(paths, measurements=True).record
    attempts = read_attempts(paths)
    ends = [a.paths for a in attempts if _is_completed(a.events[-1:])]
    if not ends:
        raise RecordError(f"run {paths.folder.name} has no completed attempt")
    last = ends[-1]
    provenance = _read_provenance(last)
    code = read_code(provenance, last)
    earlier = [a.paths for a in attempts if a.paths.number < last.number]
    mixed = bool(record.continuations) and any(
        read_code(_read_provenance(a), a) != code for a in earlier
    )
    return Original(paths=paths, record=record, provenance=provenance, code=code, mixed=mixed)


def _is_completed(events: Sequence[object]) -> bool:
    return any(isinstance(e, RunEnded) and e.ending is Ending.COMPLETED for e in events)


def _read_provenance(attempt: AttemptPaths) -> Mapping[str, Any]:
    """What was recorded; nothing where the file is missing."""
    return read_json(attempt.provenance) if attempt.provenance.exists() else {}


def read_code(provenance: Mapping[str, Any], attempt: AttemptPaths) -> RecordedCode:
    """The code that an attempt ran.

    Raises:
        RecordError: What is said of it makes no sense, or its patch is missing.
    """
    code = provenance.get("code")
    commit = code.get("commit") if isinstance(code, Mapping) else None
    if not isinstance(code, Mapping) or commit is None:
        return RecordedCode()
    if not isinstance(commit, str) or not COMMIT.fullmatch(commit):
        raise RecordError(f"{attempt.provenance} is damaged: {commit!r} is no commit")
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
