"""Runs that another tool made: what is known of them, and what is not."""

from collections.abc import Iterator

from rlexp.reports.drawing.blocks import Column, Notice, Table, Tone, Value
from rlexp.reports.evidence.runs import Evidence, Member, imported_members
from rlexp.text import counted, listed

UNKNOWN = (
    "code, packages, hardware, and whether anything was tuned on the same seeds, are not known"
)


def imported_notices(evidence: Evidence) -> Iterator[Notice]:
    """How many runs were imported, from what, and what their returns are of."""
    imported = imported_members(evidence)
    if not imported:
        return
    verb, whose = ("was", "its") if len(imported) == 1 else ("were", "their")
    sources = sorted({f"{_said(m, 'kind')}: {_said(m, 'returns')}" for m in imported})
    yield Notice(
        tone=Tone.WARNING,
        text=f"{counted(len(imported), 'run')} of {len(evidence.members)} {verb} imported from other "
        f"tools ({'; '.join(sources)}): {whose} {UNKNOWN}.",
    )
    training = [m for m in imported if "training" in _said(m, "returns")]
    if training:
        labels = listed(sorted({m.label for m in training}))
        yield Notice(
            tone=Tone.WARNING,
            text=f"Returns of {labels} are those of training, while the policy changed and "
            "explored: they are no evaluations of a fixed policy.",
        )


def imported_table(evidence: Evidence) -> Iterator[Table]:
    """Where imported runs come from."""
    imported = imported_members(evidence)
    if imported:
        columns = ("run", "label", "kind", "original name", "files", "sha256 of the first")
        yield Table(
            name="imported",
            title="Imported runs",
            columns=tuple(Column(title=c, digits=0, label=c == "label") for c in columns),
            rows=tuple(_row(member) for member in imported),
            note="Names as they were where the runs were imported from. All sums stand in the "
            "provenance of each run.",
        )


def _row(member: Member) -> tuple[Value, ...]:
    recorded = member.provenance.get("imported")
    provenance = recorded if isinstance(recorded, dict) else {}
    listed_files = provenance.get("files")
    files = listed_files if isinstance(listed_files, list) else []
    first = files[0] if files and isinstance(files[0], dict) else {}
    sum_of_first = str(first.get("sha256", ""))[:12] or None
    name = provenance.get("name")
    return (
        member.name,
        member.label,
        _said(member, "kind"),
        None if name is None else str(name),
        len(files),
        sum_of_first,
    )


def _said(member: Member, key: str) -> str:
    return str((member.imported or {}).get(key))
