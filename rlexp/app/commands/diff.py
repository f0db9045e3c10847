"""`rlexp diff`: in what two runs differ."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from rlexp.app.workspace import Workspace
from rlexp.console import Console
from rlexp.errors import RecordError
from rlexp.protocol.difference import Difference, leaf_differences
from rlexp.protocol.spec import RUN, RunSpec, described
from rlexp.store.files import read_file, read_json
from rlexp.store.layout import AttemptPaths, RunPaths
from rlexp.store.runs import read_run

PARTS = ("configuration", "code", "packages", "machine")
FILE = "diff --git "


@dataclass(frozen=True, slots=True)
class Described:
    """What is compared of a run, by part, and why a part is missing."""

    parts: dict[str, Any]
    unknown: tuple[str, ...] = ()


def diff(first: str, second: str, workspace: Workspace, console: Console) -> int:
    """Show in what two runs differ; returns the exit code.

    Raises:
        RlexpError: One of them is not there, or its spec is damaged.
    """
    runs = workspace.run(first), workspace.run(second)
    one, other = (_describe(run) for run in runs)
    unknown = sorted({*one.unknown, *other.unknown})
    known = [part for part in PARTS if part in one.parts and part in other.parts]
    found = {part: leaf_differences(one.parts[part], other.parts[part]) for part in known}
    names = [f"{run.folder.parent.name}/{run.folder.name}" for run in runs]
    value = {
        "first": names[0],
        "second": names[1],
        **{part: [asdict(d) for d in differences] for part, differences in found.items()},
        "unknown": unknown,
    }
    console.show(value, [*_head(runs, names), *_lines(found), *unknown])
    return 0


def _head(runs: tuple[RunPaths, RunPaths], names: list[str]) -> list[str]:
    records = [read_run(run).record for run in runs]
    scores = [f", score {r.score:,.2f}" if r.score is not None else "" for r in records]
    return [
        f"{sign} {name} ({record.state}{score})"
        for sign, name, record, score in zip("-+", names, records, scores, strict=True)
    ]


def _lines(found: dict[str, list[Difference]]) -> list[str]:
    lines = []
    for part, differences in found.items():
        if differences:
            lines.append(part)
            lines += [f"  {d.path}: {_said(d.first)} → {_said(d.second)}" for d in differences]
    same = [part for part, differences in found.items() if not differences]
    if len(same) == len(PARTS):
        return ["no difference"]
    return [*lines, f"no difference in {', '.join(same)}"] if same else lines


def _said(value: Any) -> str:
    if value is None:
        return "—"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _describe(run: RunPaths) -> Described:
    parts: dict[str, Any] = {"configuration": _configuration(read_run(run).record.spec)}
    attempts = run.attempts()
    if not attempts:
        return Described(parts, (f"{run.folder.name} was never attempted: its code is unknown",))
    try:
        parts |= _provenance(read_json(attempts[-1].provenance), attempts[-1])
    except (RecordError, TypeError, AttributeError) as error:
        return Described(parts, (f"the code of {run.folder.name} is unknown: {error}",))
    if parts["code"]["commit"] is None:
        del parts["code"]
        return Described(parts, (f"the code of {run.folder.name} was in no git checkout",))
    return Described(parts)


def _configuration(spec: RunSpec) -> dict[str, Any]:
    return {**described(spec.parts), **{k: v for k, v in spec.plain().items() if k in RUN}}


def _provenance(plain: dict[str, Any], attempt: AttemptPaths) -> dict[str, Any]:
    code = plain.get("code", {})
    untracked = dict.fromkeys(code.get("untracked", ()), "untracked, content not recorded")
    return {
        "code": {"commit": code.get("commit"), "changed": {**untracked, **_changes(attempt)}},
        "packages": {"python": plain.get("python"), **plain.get("packages", {})},
        "machine": {**plain.get("machine", {}), "variables": plain.get("variables", {})},
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
