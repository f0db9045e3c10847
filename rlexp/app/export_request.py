"""What an export is asked for, and the runs that it is about."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rlexp.app.gather import gather
from rlexp.app.imported import imported_lines
from rlexp.app.reporting.build import read_phase
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError, RecordError, did_you_mean
from rlexp.exchange.exporters.outcomes import Outcome
from rlexp.protocol.seeds import Phase
from rlexp.reports.evidence import Evidence, Member
from rlexp.reports.sections.missing import MEANING
from rlexp.reports.sentences import counted, listed, shortened
from rlexp.reports.wording import state


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is asked for; options are empty where they were not given."""

    format: str
    output: str | None = None
    phase: str | None = None
    tasks: tuple[str, ...] = ()
    level: str | None = None
    metric: str | None = None
    common_seeds: bool = False
    normalised: bool = False
    force: bool = False


def evidence_of(targets: Sequence[str], wanted: Wanted, place: Workspace) -> Evidence:
    """The planned runs of the targets in the wanted phase, which is that of test unless told.

    Raises:
        RlexpError: A target, phase or task is unknown, or no run has a score.
    """
    phase = read_phase(wanted.phase) or Phase.TEST
    evidence = gather(targets, phase, place)
    for task in wanted.tasks:
        if task not in evidence.tasks:
            raise ConfigError(
                f"there are no {phase} runs on task {task!r}{did_you_mean(task, evidence.tasks)} "
                f"(there are some on: {', '.join(evidence.tasks) or 'none'})",
            )
    if wanted.tasks:
        members = tuple(m for m in evidence.members if m.task in wanted.tasks)
        evidence = replace(evidence, members=members)
    _check_scored(evidence)
    return evidence


def _check_scored(evidence: Evidence) -> None:
    names = [e.name for e in evidence.experiments]
    if all(m.score is None for m in evidence.members):
        absent = (
            f" ({counted(len(evidence.members), 'run')} asked for)" if evidence.members else ""
        )
        told = "; ".join(evidence.problems[:1])
        raise RecordError(
            f"{listed(names)}: no {evidence.phase} run has a score{absent}, so that there is "
            f"nothing to export{f' ({told})' if told else ''}; 'rlexp status {names[0]}' says how "
            "far it is",
        )


def outcomes_of(evidence: Evidence) -> list[Outcome]:
    """Every planned run as exporters take it; one that cannot be read has no score."""
    return [
        Outcome(
            run=member.name,
            label=member.label,
            task=member.task,
            state=state(member),
            score=member.score,
            record=member.record,
        )
        for member in evidence.members
    ]


def numbers_of(evidence: Evidence) -> dict[str, object]:
    """What a program is told of the runs."""
    absent = _absent(evidence)
    return {
        "phase": str(evidence.phase),
        "n": len(evidence.members) - len(absent),
        "planned": len(evidence.members),
        "without_score": [{"run": m.name, "state": state(m)} for m in absent],
        "problems": list(evidence.problems),
    }


def told_of(evidence: Evidence) -> list[str]:
    """What people are told of the runs: how many have a score, and which have none."""
    absent, total = _absent(evidence), len(evidence.members)
    lines = [f"{total - len(absent)} of {counted(total, f'{evidence.phase} run')} have a score"]
    if absent:
        names = [f"{m.name} ({state(m)})" for m in absent]
        lines.append(f"Without one, and never counted as one: {shortened(names)}")
    if evidence.phase in MEANING:
        lines.append(f"No test scores: {MEANING[evidence.phase]}")
    for phase, count in sorted(evidence.left_out.items()):
        lines.append(f"Not part of it: {counted(count, f'{phase} run')}")
    lines += [line for own in evidence.experiments for line in imported_lines(own)]
    return [*lines, *(f"Problem: {line}" for line in evidence.problems)]


def _absent(evidence: Evidence) -> list[Member]:
    return [m for m in evidence.members if m.score is None]
