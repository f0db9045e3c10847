"""What to export, and the runs that an export is about."""

from dataclasses import dataclass, replace

from rlexp.app.exporting.output import ExportedFiles, Output, RunWithoutScore
from rlexp.app.reading.imported import imported_lines
from rlexp.app.reporting.build import read_phase
from rlexp.app.reporting.evidence import gather
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError, RecordError, did_you_mean
from rlexp.exchange.exporters.outcomes import Outcome
from rlexp.protocol.seeds import Phase
from rlexp.reports.evidence.runs import Evidence, Member
from rlexp.reports.sections.missing import MEANING
from rlexp.reports.sentences import counted, listed, shortened
from rlexp.reports.wording import state


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """What to export, and how; options are empty where they were not given.

    Attributes:
        format: `rliable`, `marl-eval`, `csv`, `parquet`, `script` or `huggingface`.
        targets: Experiments, or labels of them (`EXPERIMENT/LABEL`); for a script, one run.
        output: The new file or folder.
        phase: `test` (the default), `selection` or `tuning`.
        tasks: The only tasks to export; all where none is named.
        level: The only table to write: `runs`, `evaluations` or `episodes`.
        metric: The metric of a model card: `iqm` (the default), `mean` or `median`.
        common_seeds: Whether to take only the seeds that every task has.
        normalised: Whether scores are 0 and 1 at the anchors of each task.
        force: Whether to replace what is there.
    """

    format: str
    targets: tuple[str, ...]
    output: str | None = None
    phase: str | None = None
    tasks: tuple[str, ...] = ()
    level: str | None = None
    metric: str | None = None
    common_seeds: bool = False
    normalised: bool = False
    force: bool = False


def evidence_of(request: ExportRequest, workspace: Workspace) -> Evidence:
    """The planned runs of the targets in the phase of the request, which is test by default.

    Raises:
        RlexpError: A target, phase or task is unknown, or no run has a score.
    """
    phase = read_phase(request.phase) or Phase.TEST
    evidence = gather(request.targets, phase, workspace)
    for task in request.tasks:
        if task not in evidence.tasks:
            raise ConfigError(
                f"there are no {phase} runs on task {task!r}{did_you_mean(task, evidence.tasks)} "
                f"(there are some on: {', '.join(evidence.tasks) or 'none'})",
            )
    if request.tasks:
        members = tuple(m for m in evidence.members if m.task in request.tasks)
        evidence = replace(evidence, members=members)
    _check_scored(evidence)
    return evidence


def _check_scored(evidence: Evidence) -> None:
    names = [e.name for e in evidence.experiments]
    if all(m.score is None for m in evidence.members):
        absent = (
            f" ({counted(len(evidence.members), 'run')} asked for)" if evidence.members else ""
        )
        problem = f" ({evidence.problems[0]})" if evidence.problems else ""
        raise RecordError(
            f"{listed(names)}: no {evidence.phase} run has a score{absent}, so that there is "
            f"nothing to export{problem}; 'rlexp status {names[0]}' says how "
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


def exported_runs(
    evidence: Evidence, request: ExportRequest, output: Output, *remarks: str
) -> ExportedFiles:
    """What every export of several runs says of them.

    Args:
        evidence: The runs.
        request: What is exported.
        output: Where it goes.
        remarks: What a reader must know besides what the runs say.
    """
    absent = _absent(evidence)
    return ExportedFiles(
        format=request.format,
        output=output.path,
        phase=str(evidence.phase),
        n=len(evidence.members) - len(absent),
        planned=len(evidence.members),
        without_score=tuple(RunWithoutScore(run=m.name, state=state(m)) for m in absent),
        problems=evidence.problems,
        remarks=remarks,
    )


def run_remarks(evidence: Evidence) -> list[str]:
    """How many runs have a score, which have none, and what else a reader must know of them."""
    absent, total = _absent(evidence), len(evidence.members)
    lines = [f"{total - len(absent)} of {counted(total, f'{evidence.phase} run')} have a score"]
    if absent:
        names = [f"{m.name} ({state(m)})" for m in absent]
        lines.append(f"Without one, and never counted as one: {shortened(names)}")
    if evidence.phase in MEANING:
        lines.append(f"No test scores: {MEANING[evidence.phase]}")
    for phase, count in sorted(evidence.left_out.items()):
        lines.append(f"Not part of it: {counted(count, f'{phase} run')}")
    lines += [line for e in evidence.experiments for line in imported_lines(e)]
    return [*lines, *(f"Problem: {line}" for line in evidence.problems)]


def _absent(evidence: Evidence) -> list[Member]:
    return [m for m in evidence.members if m.score is None]
