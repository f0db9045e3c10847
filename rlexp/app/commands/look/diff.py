"""`rlexp diff`: finds the differences between two runs."""

from dataclasses import dataclass
from typing import Any, ClassVar

from rlexp.app.results import Schema
from rlexp.app.workspace import Workspace
from rlexp.errors import RecordError
from rlexp.protocol.leaf_differences import LeafDifference, leaf_differences
from rlexp.protocol.spec import RUN, RunSpec, described
from rlexp.records.run import RunRecord
from rlexp.store.files import read_file, read_json
from rlexp.store.layout import AttemptPaths, RunPaths
from rlexp.store.runs import read_run

FILE_HEADER = "diff --git "
"""The start of the line that begins the changes of a file in a git patch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """One of the two compared runs.

    Attributes:
        run: Its experiment and name (`alpha/ppo-test-0-0123456789`).
        state: Its state.
        score: Its score, in units of the task's return; null if it has none.
    """

    run: str
    state: str
    score: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDifferences:
    """The differences between two runs; a part that is unknown for either run is null.

    Attributes:
        first: The first run.
        second: The second run.
        configuration: Differing values of the run specifications.
        code: Differing commits and uncommitted changes.
        packages: Differing versions of packages.
        machine: Differing hardware and environment variables.
        unknown: The reasons why parts are unknown.
    """

    schema: ClassVar[Schema] = Schema("run-differences")

    first: ComparedRun
    second: ComparedRun
    configuration: tuple[LeafDifference, ...] | None
    code: tuple[LeafDifference, ...] | None
    packages: tuple[LeafDifference, ...] | None
    machine: tuple[LeafDifference, ...] | None
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _RecordedParts:
    """The recorded values of a run by part, and the reasons why parts are missing."""

    parts: dict[str, Any]
    unknown: tuple[str, ...] = ()


def diff(first: str, second: str, workspace: Workspace) -> RunDifferences:
    """The differences between two runs.

    Raises:
        RlexpError: A run does not exist, or its records are damaged.
    """
    runs = workspace.run(first), workspace.run(second)
    records = tuple(read_run(run).record for run in runs)
    recorded = tuple(_recorded(run, r.spec) for run, r in zip(runs, records, strict=True))
    first_run, second_run = (_compared(run, r) for run, r in zip(runs, records, strict=True))
    return RunDifferences(
        first=first_run,
        second=second_run,
        configuration=_differences("configuration", *recorded),
        code=_differences("code", *recorded),
        packages=_differences("packages", *recorded),
        machine=_differences("machine", *recorded),
        unknown=tuple(sorted({text for run in recorded for text in run.unknown})),
    )


def _compared(run: RunPaths, record: RunRecord) -> ComparedRun:
    name = f"{run.folder.parent.name}/{run.folder.name}"
    return ComparedRun(run=name, state=str(record.state), score=record.score)


def _differences(
    part: str, first: _RecordedParts, second: _RecordedParts
) -> tuple[LeafDifference, ...] | None:
    """The differing values of a part; None if either run lacks the part."""
    if part not in first.parts or part not in second.parts:
        return None
    return tuple(leaf_differences(first.parts[part], second.parts[part]))


def _recorded(run: RunPaths, spec: RunSpec) -> _RecordedParts:
    parts: dict[str, Any] = {"configuration": _configuration(spec)}
    attempts = run.attempts()
    if not attempts:
        return _RecordedParts(
            parts, (f"{run.folder.name} was never attempted: its code is unknown",)
        )
    try:
        parts |= _provenance(read_json(attempts[-1].provenance), attempts[-1])
    except (RecordError, TypeError, AttributeError) as error:
        return _RecordedParts(parts, (f"the code of {run.folder.name} is unknown: {error}",))
    if parts["code"]["commit"] is None:
        del parts["code"]
        return _RecordedParts(parts, (f"the code of {run.folder.name} was in no git repository",))
    return _RecordedParts(parts)


def _configuration(spec: RunSpec) -> dict[str, Any]:
    return {**described(spec.parts), **{k: v for k, v in spec.plain().items() if k in RUN}}


def _provenance(content: dict[str, Any], attempt: AttemptPaths) -> dict[str, Any]:
    code = content.get("code", {})
    # The patch holds most untracked files, too: its entries replace these below.
    untracked = dict.fromkeys(code.get("untracked", ()), "untracked, content not recorded")
    return {
        "code": {"commit": code.get("commit"), "changed": {**untracked, **_changes(attempt)}},
        "packages": {"python": content.get("python"), **content.get("packages", {})},
        "machine": {**content.get("machine", {}), "variables": content.get("variables", {})},
    }


def _changes(attempt: AttemptPaths) -> dict[str, str]:
    """The uncommitted changes: for each file, the first digits of the sha256 of its patch."""
    from hashlib import sha256

    try:
        patch = read_file(attempt.patch).decode(errors="replace")
    except OSError:
        return {}
    # The line feed before the header tells it from the same text inside a changed line.
    pieces = ("\n" + patch.rstrip("\n")).split(f"\n{FILE_HEADER}")[1:]
    return {
        piece.partition("\n")[0].rpartition(" b/")[
            2
        ]: f"change {sha256(piece.encode()).hexdigest()[:10]}"
        for piece in pieces
    }
