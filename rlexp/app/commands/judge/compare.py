"""`rlexp compare`: compares labels of experiments, with a verdict for each pair."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from rlexp.app.data_frames import data_frame
from rlexp.app.reading.interval_memory import IntervalMemory
from rlexp.app.reading.looks import with_looks
from rlexp.app.reading.run_rows import Scores, scores_of_evidence
from rlexp.app.reporting.build import make_report, read_phase
from rlexp.app.reporting.evidence import collect_evidence
from rlexp.app.reporting.next_commands import (
    has_undecided_pair,
    pair_tables,
    sequential_comparison,
    set_options,
)
from rlexp.app.results import Displayed, NextCommand, Schema
from rlexp.app.workspace import Workspace
from rlexp.config.report_settings import read_report
from rlexp.errors import ConfigError
from rlexp.reports.analysis.report_context import ReportSettings
from rlexp.reports.drawing.blocks import ReportDocument, SectionContent, SummaryCard
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.formats.as_csv import csv_rows

if TYPE_CHECKING:
    from pandas import DataFrame


SECTIONS = "section=[verdicts,tasks,measures,aggregates,pairs,missing]"
"""The sections of a report that a comparison shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareRequest:
    """The labels to compare, and the settings of the comparison.

    Attributes:
        targets: Experiments, or labels of them (`EXPERIMENT/LABEL`).
        phase: `test`, `selection` or `tuning`; None prefers test where there are test runs.
        overrides: Changed settings of `conf/report.yaml` (`interval=percentile`).
        strict: Whether to compare every file with the ledger; otherwise, those that scores are
            computed from, and only where they changed since they were compared last.
    """

    targets: tuple[str, ...]
    phase: str | None = None
    overrides: tuple[str, ...] = ()
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRuns:
    """The number of runs of one label on all tasks.

    Attributes:
        label: The label.
        planned: Number of planned runs.
        scored: Number of runs with a score.
        counted_as_worst: Number of failed runs that count as the worst score.
    """

    label: str
    planned: int
    scored: int
    counted_as_worst: int

    @classmethod
    def of(cls, label: str, evidence: Evidence) -> "LabelRuns":
        """The runs of a label."""
        cells = evidence.of_label(label)
        return cls(
            label=label,
            planned=sum(len(cell.members) for cell in cells),
            scored=sum(len(cell.scored) for cell in cells),
            counted_as_worst=sum(cell.counted_as_worst for cell in cells),
        )

    @property
    def text(self) -> str:
        """The number of runs in the aggregate, of planned runs (`4 of 5`, `5 of 5, 1 worst`)."""
        worst = f", {self.counted_as_worst} worst" if self.counted_as_worst else ""
        return f"{self.scored + self.counted_as_worst:,} of {self.planned:,}{worst}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Displayed):
    """A comparison of labels.

    Attributes:
        title: The names of the experiments.
        subtitle: The numbers of labels, tasks and runs.
        labels: The compared labels, in the order of the targets.
        tasks: The tasks on which they are compared.
        parts: Verdicts, scores on each task, measures, aggregates, tests of each pair, and missing
            runs.
        version: The version of rlexp that computed the numbers.
        failed_checks: The failed checks, each as a sentence; with `--strict`, the exit code is 3
            if there are any.
        card: The answer, the aggregate of every label, the cost and what is missing, as on the first
            screen of a report with the same settings.
        runs: The number of runs of every label, in the order of `labels`.
        next: Suggested next commands.
        scores: Scores by label and seed, in Python only; with several tasks, by `LABEL on TASK`.
    """

    schema: ClassVar[Schema] = Schema("comparison")

    title: str
    subtitle: str
    labels: tuple[str, ...]
    tasks: tuple[str, ...]
    parts: tuple[SectionContent, ...]
    version: str
    failed_checks: tuple[str, ...]
    card: SummaryCard | None
    runs: tuple[LabelRuns, ...]
    next: tuple[NextCommand, ...]
    scores: Scores = field(default_factory=dict, repr=False, compare=False)

    def to_pandas(self) -> "DataFrame":
        """A data frame with a row for each pair of labels: the table of every test.

        An interval has a column for each of its parts (`difference estimate`, `difference low`).

        Raises:
            ConfigError: pandas is not installed.
        """
        header, *rows = (r for table in pair_tables(self.parts) for r in csv_rows(table))
        cells = [dict(zip(map(str, header), row, strict=True)) for row in rows]
        filled = [n for n in map(str, header) if any(row[n] is not None for row in cells)]
        return data_frame([{name: row[name] for name in filled} for row in cells])


def compare(request: CompareRequest, workspace: Workspace) -> Comparison:
    """Compare the labels of the targets.

    Raises:
        RlexpError: A target or a setting is unknown, or there is only one label.
    """
    workspace.make_allowed_importable()
    parts = read_report([SECTIONS, *request.overrides], workspace.folder, workspace.allowed)
    evidence = collect_evidence(
        request.targets, read_phase(request.phase), workspace, integrity=request.strict
    )
    if len(evidence.labels) < 2:
        raise ConfigError(_too_few_labels(evidence))
    # Only now: a comparison that is refused shows no score.
    evidence = with_looks(evidence, workspace.layout, enter=True)
    kept = IntervalMemory.of(workspace.experiment(evidence.experiments[0].name))
    study = make_report(evidence, parts, kept=kept)
    kept.save()
    return Comparison(
        title=study.title,
        subtitle=study.subtitle,
        labels=study.labels,
        tasks=tuple(evidence.tasks),
        parts=study.parts,
        version=study.version,
        failed_checks=study.failed_checks,
        card=study.card,
        runs=tuple(LabelRuns.of(label, evidence) for label in evidence.labels),
        next=tuple(_next(request, evidence, study, parts.settings, workspace)),
        scores=scores_of_evidence(evidence),
    )


def _too_few_labels(evidence: Evidence) -> str:
    if not evidence.labels and evidence.sweeps:
        name = evidence.sweeps[0].experiment
        return (
            f"{name} has no {evidence.phase} runs to compare yet; to see its progress: "
            f"rlexp status {name}"
        )
    if not evidence.labels:
        return f"there are no {evidence.phase} runs to compare; start some with 'rlexp run'"
    return (
        f"a comparison needs two labels, and the targets hold only {evidence.labels[0]}: name a "
        "second experiment, or EXPERIMENT/LABEL"
    )


def _next(
    request: CompareRequest,
    evidence: Evidence,
    study: ReportDocument,
    settings: ReportSettings,
    workspace: Workspace,
) -> Iterator[NextCommand]:
    """The suggested next commands; only commands that rlexp would accept."""
    phase = ["--phase", request.phase] if request.phase else []
    options = [*phase, *set_options(request.overrides), *workspace.permission]
    report = shlex.join(["rlexp", "report", *request.targets, *options])
    yield NextCommand(why="write the report", command=report)
    if has_undecided_pair(study) and (
        sequential := sequential_comparison(
            request.targets, request.overrides, evidence, settings, workspace
        )
    ):
        yield sequential
