"""Runs imported from other tools: notices about unknown facts, and a table of origins."""

from collections.abc import Iterator, Sequence

from rlexp.reports.drawing.blocks import Callout, Table, TableColumn, Tone, Value
from rlexp.reports.evidence.runs import Evidence, PlannedRun, imported_members, trained_by_program
from rlexp.text import format_count, join_names

UNKNOWN = (
    "code, packages, hardware, and whether anything was tuned on the same seeds, are not known"
)
UNKNOWN_OF_PROGRAM = "code, packages and hardware are not known"


def imported_notices(evidence: Evidence) -> Iterator[Callout]:
    """Warnings about imported runs: their number, sources, and returns of training."""
    imported = imported_members(evidence)
    if not imported:
        return
    # The trials of a study are in its records, and its seeds are those that the study gave.
    trained = trained_by_program(imported)
    for runs, by, unknown in (
        ([m for m in imported if m not in trained], "imported from other tools", UNKNOWN),
        (trained, "trained by the program that asked for them", UNKNOWN_OF_PROGRAM),
    ):
        if runs:
            yield _notice(runs, len(evidence.members), by, unknown)
    training = [m for m in imported if "training" in _said(m, "returns")]
    if training:
        labels = join_names(sorted({m.label for m in training}))
        yield Callout(
            tone=Tone.WARNING,
            text=f"Returns of {labels} were recorded during training, while the policy changed and "
            "explored. They are not evaluations of a fixed policy.",
        )


def _notice(runs: Sequence[PlannedRun], every: int, by: str, unknown: str) -> Callout:
    verb, whose = ("was", "its") if len(runs) == 1 else ("were", "their")
    sources = "; ".join(sorted({_source(member) for member in runs}))
    number = format_count(len(runs), "run")
    text = f"{number} of {every} {verb} {by} ({sources}): {whose} {unknown}."
    return Callout(tone=Tone.WARNING, text=text)


def _source(member: PlannedRun) -> str:
    source = member.imported or {}
    metric = f" of {source['metric']}" if "metric" in source else ""
    return f"{_said(member, 'kind')}: {_said(member, 'returns')}{metric}"


def imported_table(evidence: Evidence) -> Iterator[Table]:
    """Table of the origin of imported runs; none without imported runs."""
    imported = imported_members(evidence)
    if imported:
        columns = ("run", "label", "kind", "original name", "files", "sha256 of the first file")
        yield Table(
            name="imported",
            title="Imported runs",
            columns=tuple(TableColumn(title=c, digits=0, label=c == "label") for c in columns),
            rows=tuple(_row(member) for member in imported),
            note="Names are those of the original tool. The provenance of each run contains the "
            "checksums of all its files.",
        )


def _row(member: PlannedRun) -> tuple[Value, ...]:
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


def _said(member: PlannedRun, key: str) -> str:
    return str((member.imported or {}).get(key))
