"""`rlexp diff`: in what two runs differ."""

from dataclasses import dataclass
from typing import Any, ClassVar

from rlexp.app.results import Schema
from rlexp.app.workspace import Workspace
from rlexp.errors import RecordError
from rlexp.protocol.difference import Difference, leaf_differences
from rlexp.protocol.spec import RUN, RunSpec, described
from rlexp.records.run import RunRecord
from rlexp.store.files import read_file, read_json
from rlexp.store.layout import AttemptPaths, RunPaths
from rlexp.store.runs import read_run

FILE = "diff --git "
"""Begins the changes of a file in a patch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """One of two runs that are compared.

    Attributes:
        run: Its name, behind that of its experiment (`alpha/ppo-test-0-0123456789`).
        state: Its state.
        score: Its score, in units of the task's return, if it has one.
    """

    run: str
    state: str
    score: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDifferences:
    """In what two runs differ; a part that is not known of both runs is null.

    Attributes:
        first: The one run.
        second: The other run.
        configuration: Values of their specifications that differ.
        code: Commits and uncommitted changes that differ.
        packages: Versions of packages that differ.
        machine: Hardware and environment variables that differ.
        unknown: Why parts are not known.
    """

    schema: ClassVar[Schema] = Schema("run-differences")

    first: ComparedRun
    second: ComparedRun
    configuration: tuple[Difference, ...] | None
    code: tuple[Difference, ...] | None
    packages: tuple[Difference, ...] | None
    machine: tuple[Difference, ...] | None
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Recorded:
    """What is recorded of a run, by part, and why a part is missing."""

    parts: dict[str, Any]
    unknown: tuple[str, ...] = ()


def diff(first: str, second: str, workspace: Workspace) -> RunDifferences:
    """In what two runs differ.

    Raises:
        RlexpError: One of them does not exist, or its records are damaged.
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


def _differences(part: str, first: _Recorded, second: _Recorded) -> tuple[Difference, ...] | None:
    """The leaves of a part that differ; nothing where a run lacks the part."""
    if part not in first.parts or part not in second.parts:
        return None
    return tuple(leaf_differences(first.parts[part], second.parts[part]))


def _recorded(run: RunPaths, spec: RunSpec) -> _Recorded:
    parts: dict[str, Any] = {"configuration": _configuration(spec)}
    attempts = run.attempts()
    if not attempts:
        return _Recorded(parts, (f"{run.folder.name} was never attempted: its code is unknown",))
    try:
        parts |= _provenance(read_json(attempts[-1].provenance), attempts[-1])
    except (RecordError, TypeError, AttributeError) as error:
        return _Recorded(parts, (f"the code of {run.folder.name} is unknown: {error}",))
    if parts["code"]["commit"] is None:
        del parts["code"]
        return _Recorded(parts, (f"the code of {run.folder.name} was in no git checkout",))
    return _Recorded(parts)


def _configuration(spec: RunSpec) -> dict[str, Any]:
    return {**described(spec.parts), **{k: v for k, v in spec.plain().items() if k in RUN}}


def _provenance(content: dict[str, Any], attempt: AttemptPaths) -> dict[str, Any]:
    code = content.get("code", {})
    untracked = dict.fromkeys(code.get("untracked", ()), "untracked, content not recorded")
    return {
        "code": {"commit": code.get("commit"), "changed": {**untracked, **_changes(attempt)}},
        "packages": {"python": content.get("python"), **content.get("packages", {})},
        "machine": {**content.get("machine", {}), "variables": content.get("variables", {})},
    }


def _changes(attempt: AttemptPaths) -> dict[str, str]:
    """The uncommitted changes by file, each named by the start of its sha256."""
    from hashlib import sha256

    try:
        patch = read_file(attempt.patch).decode(errors="replace")
    except OSError:
        return {}
    pieces = ("\n" + patch.rstrip("\n")).split(f"\n{FILE}")[1:]
    return {
        piece.partition("\n")[0].rpartition(" b/")[
            2
        ]: f"change {sha256(piece.encode()).hexdigest()[:10]}"
        for piece in pieces
    }
