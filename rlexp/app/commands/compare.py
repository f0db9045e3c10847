"""`rlexp compare`: compares labels of experiments, with a verdict for each pair."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from rlexp.app.reporting.build import make_report, read_phase
from rlexp.app.reporting.evidence import collect_evidence
from rlexp.app.reporting.next_commands import (
    has_undecided_pair,
    sequential_comparison,
    set_options,
)
from rlexp.app.results import NextCommand, Schema
from rlexp.app.workspace import Workspace
from rlexp.config.report_settings import read_report
from rlexp.errors import ConfigError
from rlexp.reports.analysis.report_context import ReportSettings
from rlexp.reports.drawing.blocks import ReportDocument, SectionContent
from rlexp.reports.evidence.runs import Evidence

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
class Comparison:
    """A comparison of labels.

    Attributes:
        title: The names of the experiments.
        subtitle: The numbers of labels, tasks and runs.
        labels: The compared labels, in the order of the targets.
        parts: Verdicts, scores on each task, measures, aggregates, tests of each pair, and missing
            runs.
        version: The version of rlexp that computed the numbers.
        failed_checks: The failed checks, each as a sentence; with `--strict`, the exit code is 3
            if there are any.
        next: Suggested next commands.
    """

    schema: ClassVar[Schema] = Schema("comparison")

    title: str
    subtitle: str
    labels: tuple[str, ...]
    parts: tuple[SectionContent, ...]
    version: str
    failed_checks: tuple[str, ...]
    next: tuple[NextCommand, ...]


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
    study = make_report(evidence, parts)
    return Comparison(
        title=study.title,
        subtitle=study.subtitle,
        labels=study.labels,
        parts=study.parts,
        version=study.version,
        failed_checks=study.failed_checks,
        next=tuple(_next(request, evidence, study, parts.settings, workspace)),
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
