"""The section of the protocol: seeds, budgets, evaluation, scores and failures as declared."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rlexp.protocol.experiment import Experiment
from rlexp.protocol.seeds import Phase
from rlexp.reports.analysis.fairness import warnings
from rlexp.reports.analysis.looks import look_blocks
from rlexp.reports.analysis.registered_protocols import protocol_blocks
from rlexp.reports.analysis.report_context import ReportContext
from rlexp.reports.analysis.sweep_tables import search_protocol
from rlexp.reports.drawing.blocks import (
    Block,
    SectionContent,
    Table,
    TableColumn,
    Text,
    Tone,
    Value,
)
from rlexp.reports.evidence.runs import (
    Evidence,
    LabelTaskRuns,
    PlannedRun,
    imported_members,
    score_definition,
    trained_by_program,
)
from rlexp.text import decimals_for_values, format_ranges, join_names

FAILURES = {
    "missing": "A failed run is a missing score.",
    "worst": "A failed run counts as the minimum score that its task declares.",
}


@dataclass(frozen=True, slots=True)
class ProtocolSection:
    """The protocol as it was declared before any run."""

    def part(self, report: ReportContext) -> SectionContent | None:
        """Compute the part; `None` where there is no experiment."""
        evidence = report.evidence
        if not evidence.experiments:
            return None
        blocks: list[Block] = [Text(text=text) for text in _texts(evidence)]
        blocks.append(_seeds(evidence))
        if evidence.members:
            blocks += [_budgets(evidence), _references(evidence)]
        blocks += [
            block for sweep in evidence.sweeps for block in search_protocol(sweep, evidence)
        ]
        blocks += protocol_blocks(report)
        blocks += look_blocks(report)
        blocks += [note for note in warnings(evidence) if note.tone is Tone.NOTE]
        return SectionContent(name="protocol", title="Protocol", blocks=tuple(blocks))


def _texts(evidence: Evidence) -> Iterator[str]:
    trained = [m for m in evidence.members if not m.imported]
    if trained:
        yield (
            f"The score of a run was declared before it started: {_scores(trained)}. Returns are "
            "undiscounted sums of the task's unmodified reward."
        )
    if by_program := trained_by_program(evidence.members):
        yield f"The score of a run is what the program that trained it has told: {_scores(by_program)}."
    if imported := [m for m in imported_members(evidence) if m not in by_program]:
        yield f"The score of an imported run was chosen at its import: {_scores(imported)}."
    if any(sweep.imported for sweep in evidence.sweeps):
        yield (
            "The trials of another tool are imported as tuning runs with one value each. Their seeds "
            "are not known; seed 0 stands for them."
        )
    if trained or any(experiment.imported is None for experiment in evidence.experiments):
        yield (
            "Training, evaluation and the final episodes use different seeds by construction, and "
            "so do the phases: no seed is used for both tuning and test."
            f"{' For imported runs this is not known.' if imported else ''}"
        )
    # Experiments of one report may declare different rules for failures.
    rules = dict.fromkeys(e.failures for e in evidence.experiments)
    by_rule = {
        rule: [e.name for e in evidence.experiments if e.failures == rule] for rule in rules
    }
    for rule, names in by_rule.items():
        where = f" (in {join_names(names)})" if len(by_rule) > 1 else ""
        yield f"{FAILURES[rule]}{where}"


def _scores(members: Sequence[PlannedRun]) -> str:
    return " or ".join(sorted({score_definition(m.record.spec) for m in members}))


def _seeds(evidence: Evidence) -> Table:
    columns = ("experiment", "phase", "root", "seeds", "number")
    return Table(
        name="seeds",
        title="Seeds by phase",
        columns=tuple(TableColumn(title=c, digits=0) for c in columns),
        rows=tuple(
            _planned(experiment, phase)
            for experiment in evidence.experiments
            for phase in Phase
            if experiment.seeds.seeds(phase)
        ),
        note=f"{_derived(evidence)}The table lists every phase for which the experiment reserves "
        "seeds, even if no run of it was started; this report covers the "
        f"{evidence.phase} phase.",
    )


def _derived(evidence: Evidence) -> str:
    """Sentence about derived seeds; empty where all runs are imported."""
    if all(experiment.imported is not None for experiment in evidence.experiments):
        return ""
    return "All seeds of libraries are derived from root, phase and seed. "


def _planned(experiment: Experiment, phase: Phase) -> tuple[Value, ...]:
    seeds = experiment.seeds.seeds(phase)
    return (experiment.name, str(phase), experiment.seeds.root, format_ranges(seeds), len(seeds))


ACTIONS = {True: "deterministic", False: "sampled", None: None}
"""How evaluations act; of imported runs it may not be known."""
BUDGET = (
    TableColumn(title="task"),
    TableColumn(title="label", label=True),
    TableColumn(title="runs", digits=0),
    TableColumn(title="environment steps", digits=0),
    TableColumn(title="evaluation every", digits=0),
    TableColumn(title="episodes per evaluation", digits=0),
    TableColumn(title="final episodes", digits=0),
    TableColumn(title="actions"),
    TableColumn(title="score"),
)

OFFLINE = TableColumn(title="offline gradient steps", digits=0)
ABOUT_OFFLINE = (
    " Offline gradient steps are taken on the dataset of a run before its first environment step."
)


def _budgets(evidence: Evidence) -> Table:
    """A row for each label on each task."""
    cells = [cell for task in evidence.tasks for cell in evidence.of_task(task)]
    offline = [cell.members[0].record.spec.offline_steps for cell in cells]
    begins = any(offline)
    return Table(
        name="budgets",
        title="Budget and evaluation",
        columns=(*BUDGET, OFFLINE) if begins else BUDGET,
        rows=tuple(
            (*_budget(cell), steps) if begins else _budget(cell)
            for cell, steps in zip(cells, offline, strict=True)
        ),
        note="Values of one run. Evaluations play whole episodes in separate environments and do "
        f"not count as environment steps.{ABOUT_OFFLINE if begins else ''}",
    )


def _budget(cell: LabelTaskRuns) -> tuple[Value, ...]:
    budget = cell.members[0].record.spec.budget
    during = budget["evaluation_every"]
    return (
        cell.task,
        cell.label,
        cell.planned,
        budget["steps"],
        during,
        # Without evaluations during training, a number of their episodes would mislead.
        budget["evaluation_episodes"] if during else None,
        budget["final_episodes"],
        ACTIONS[budget["evaluation_deterministic"]],
        budget["score"],
    )


def _references(evidence: Evidence) -> Table:
    keys = ("random", "threshold", "minimum", "maximum", "source")
    rows: list[tuple[Value, ...]] = []
    for task in evidence.tasks:
        reference: Any = evidence.reference(task)
        rows.append((task, *(reference.get(key) for key in keys)))
    digits = decimals_for_values(v for row in rows for v in row if isinstance(v, int | float))
    return Table(
        name="known-scores",
        title="Known scores of the tasks",
        columns=(
            TableColumn(title="task"),
            *(TableColumn(title=key, digits=digits) for key in keys),
        ),
        rows=tuple(rows),
        note="As declared in the configuration: mean return of random actions, return from which "
        "the task is solved, smallest and largest possible return.",
    )
