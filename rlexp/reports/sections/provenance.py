"""The section of provenance: code, packages, hardware, commands and configurations."""

import json
import shlex
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from rlexp.records.integrity import Integrity, IntegrityFinding
from rlexp.reports.analysis.fairness import changed_files, packages
from rlexp.reports.analysis.imported import imported_table
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.drawing.blocks import (
    Block,
    Callout,
    SectionContent,
    Table,
    TableColumn,
    Text,
    Tone,
    Value,
    VerbatimText,
)
from rlexp.reports.evidence.runs import Evidence, PlannedRun, imported_members
from rlexp.text import format_count, join_first_names, join_names

Key = TypeVar("Key", bound=Hashable)
SHORT = 12
"""Number of digits of a commit in the table."""


@dataclass(frozen=True, slots=True)
class ProvenanceSection:
    """Tables of what the runs recorded, with equal runs in one row."""

    def part(self, report: ReportContext) -> SectionContent | None:
        """Compute the part; `None` where no run is planned."""
        evidence = report.evidence
        if not evidence.members:
            return None
        recorded = [m for m in evidence.members if m.provenance and not m.imported]
        blocks: list[Block] = [*_integrity(evidence), *_unknown(evidence)]
        if recorded:
            blocks += [
                _code(recorded),
                _packages(recorded),
                _hardware(recorded),
                *_commands(recorded),
            ]
        blocks += [*imported_table(evidence), *_imports(evidence), *_configurations(evidence)]
        return SectionContent(
            name="provenance", title="Provenance", blocks=tuple(blocks), folded=True
        )


def _integrity(evidence: Evidence) -> Iterator[Block]:
    """Result of the comparison of the records with the ledgers, per experiment."""
    for integrity in evidence.integrity:
        if integrity.faults:
            faults = join_first_names(
                [_where(integrity, finding) for finding in integrity.faults], 3
            )
            text = f"{integrity.experiment}: {integrity}. Records that differ: {faults}."
            yield Callout(tone=Tone.PROBLEM, text=text)
        else:
            yield Text(text=f"{integrity.experiment}: {integrity}.")
    rows = [
        (integrity.experiment, finding.run, str(finding.kind), finding.text)
        for integrity in evidence.integrity
        for finding in integrity.findings
    ]
    if rows:
        yield Table(
            name="integrity",
            title="Findings of 'rlexp verify'",
            columns=tuple(
                TableColumn(title=c, digits=0) for c in ("experiment", "run", "kind", "finding")
            ),
            rows=tuple(rows),
            note="A report does not check checkpoints; 'rlexp verify' does.",
        )


def _where(integrity: Integrity, finding: IntegrityFinding) -> str:
    return f"{finding.run or integrity.experiment} ({finding.kind})"


def _unknown(evidence: Evidence) -> Iterator[Callout]:
    silent = [m for m in evidence.members if m.record.attempts and not m.provenance]
    if silent:
        text = (
            f"The origin of {format_count(len(silent), 'run')} is not known: "
            + join_first_names(sorted(m.name for m in silent))
        )
        yield Callout(tone=Tone.WARNING, text=f"{text}.")


def _grouped(
    members: Sequence[PlannedRun], key: Callable[[PlannedRun], Key]
) -> dict[Key, list[PlannedRun]]:
    """Runs by a common key, in the order of the text of the keys."""
    groups: dict[Key, list[PlannedRun]] = {}
    for member in members:
        groups.setdefault(key(member), []).append(member)
    # As text, because keys hold None, which cannot be compared with a string.
    return dict(sorted(groups.items(), key=lambda group: str(group[0])))


def _whose(members: Sequence[PlannedRun], every: int) -> str:
    """`all`, or the labels of the runs."""
    if len(members) == every:
        return "all"
    return join_names(sorted({m.label for m in members}))


def _code(members: Sequence[PlannedRun]) -> Table:
    columns = ("commit", "branch", "remote", "changed files", "runs", "labels")
    rows = [
        (*(key[:3]), join_first_names(key[3]) or None, len(runs), _whose(runs, len(members)))
        for key, runs in _grouped(members, _code_of).items()
    ]
    return Table(
        name="code",
        title="Code of the study",
        columns=tuple(TableColumn(title=c, digits=0) for c in columns),
        rows=tuple(rows),
        note="The changes are stored with each run as diff.patch.",
    )


def _code_of(member: PlannedRun) -> tuple[str, str | None, str | None, tuple[str, ...]]:
    code = member.provenance.get("code") or {}
    commit = code.get("commit")
    shown = str(commit)[:SHORT] if commit else "no commit"
    return shown, code.get("branch"), code.get("remote"), changed_files(member)


def _packages(members: Sequence[PlannedRun]) -> Table:
    by_package: dict[str, dict[str, list[PlannedRun]]] = {}
    for member in members:
        versions = {"python": str(member.provenance.get("python")), **packages(member)}
        for name, version in versions.items():
            by_package.setdefault(name, {}).setdefault(version, []).append(member)
    rows: list[tuple[Value, ...]] = []
    for name, by_version in sorted(by_package.items()):
        for version, runs in sorted(by_version.items()):
            rows.append((name, version, len(runs), _whose(runs, len(members))))
    return Table(
        name="packages",
        title="Packages that can change a score",
        columns=tuple(
            TableColumn(title=c, digits=0) for c in ("package", "version", "runs", "labels")
        ),
        rows=tuple(rows),
        note="Every run recorded the versions of all installed packages.",
    )


def _hardware(members: Sequence[PlannedRun]) -> Table:
    columns = ("processor", "cores", "memory, GB", "system", "threads", "device", "runs", "labels")
    rows = [
        (*key, len(runs), _whose(runs, len(members)))
        for key, runs in _grouped(members, _hardware_of).items()
    ]
    return Table(
        name="hardware",
        title="Hardware",
        columns=tuple(TableColumn(title=c, digits=0) for c in columns),
        rows=tuple(rows),
        note="Cores and memory of the machine; threads and device of one run.",
    )


def _hardware_of(member: PlannedRun) -> tuple[Any, ...]:
    machine = member.provenance.get("machine") or {}
    compute = member.record.spec.compute
    memory = machine.get("memory")
    return (
        machine.get("processor"),
        machine.get("cores"),
        memory / 1e9 if memory else None,
        machine.get("system"),
        compute["threads"],
        compute["device"],
    )


def _commands(members: Sequence[PlannedRun]) -> Iterator[VerbatimText]:
    # Runs of one command share it; quoting makes it ready to be pasted into a shell.
    lines = {shlex.join(map(str, m.provenance.get("command") or ())) for m in members}
    if commands := sorted(lines - {""}):
        yield VerbatimText(name="commands", title="Commands", text="\n".join(commands))


def _imports(evidence: Evidence) -> Iterator[VerbatimText]:
    """The commands that imported the runs."""
    yield from (
        VerbatimText(name="imports", title="Imports", text=listing.text)
        for listing in _commands(imported_members(evidence))
    )


def _configurations(evidence: Evidence) -> Iterator[VerbatimText]:
    """The settings that define a run, without its seed, of each label on each task."""
    for task in evidence.tasks:
        for cell in evidence.of_task(task):
            spec = cell.members[0].record.spec.plain()
            # All runs of the cell share the rest, so one listing stands for all of them.
            kept = {k: v for k, v in spec.items() if k not in {"phase", "root", "seed"}}
            yield VerbatimText(
                name=f"configuration-{cell.label}-{task}",
                title=f"Configuration of {cell.label} on {task}",
                text=json.dumps(kept, indent=2, sort_keys=True),
            )
