"""`rlexp compare`: labels of one or several experiments side by side, with a verdict a pair."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from rlexp.app.comparison.sequential import (
    FAMILY,
    GROUP,
    INTERIMS,
    FrozenDesign,
    draw_up,
    failed_for_good,
    frozen_design,
    look_at,
    options,
)
from rlexp.app.reporting.build import make_study, read_phase
from rlexp.app.reporting.evidence import gather
from rlexp.app.results import NextCommand, Schema
from rlexp.app.workspace import Workspace
from rlexp.config.report import read_report
from rlexp.errors import ConfigError, RecordError
from rlexp.protocol.seeds import Phase
from rlexp.reports.analysis.inquiry import Settings
from rlexp.reports.drawing.blocks import Part, Study, Table
from rlexp.reports.evidence.runs import Evidence
from rlexp.stats.family import Verdict

SECTIONS = "section=[verdicts,tasks,aggregates,pairs,missing]"
"""The sections of a report that a comparison shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareRequest:
    """What to compare, and how.

    Attributes:
        targets: Experiments, or labels of them (`EXPERIMENT/LABEL`).
        phase: `test`, `selection` or `tuning`; without one, test where there are test runs.
        overrides: Changed settings of `conf/report.yaml` (`interval=percentile`).
    """

    targets: tuple[str, ...]
    phase: str | None = None
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Labels side by side.

    Attributes:
        title: The names of the experiments.
        subtitle: How many labels, tasks and runs are compared.
        labels: The labels, in the order in which they were named.
        parts: Verdicts, scores on each task, aggregates, tests of each pair, and what is missing.
        version: The version of rlexp that computed the numbers.
        failed_checks: The checks that `--strict` refuses, each as a sentence.
        next: The commands that make sense now.
    """

    schema: ClassVar[Schema] = Schema("comparison")

    title: str
    subtitle: str
    labels: tuple[str, ...]
    parts: tuple[Part, ...]
    version: str
    failed_checks: tuple[str, ...]
    next: tuple[NextCommand, ...]


def compare(request: CompareRequest, workspace: Workspace) -> Comparison:
    """Compare the labels of the targets.

    Raises:
        RlexpError: A target or a setting is unknown, or there is one label only.
    """
    workspace.make_allowed_importable()
    parts = read_report([SECTIONS, *request.overrides], workspace.folder, workspace.allowed)
    evidence = gather(request.targets, read_phase(request.phase), workspace)
    if len(evidence.labels) < 2:
        raise ConfigError(_too_few(evidence))
    study = make_study(evidence, parts)
    return Comparison(
        title=study.title,
        subtitle=study.subtitle,
        labels=study.labels,
        parts=study.parts,
        version=study.version,
        failed_checks=study.failed_checks,
        next=tuple(_next(request, evidence, study, parts.settings, workspace)),
    )


def _too_few(evidence: Evidence) -> str:
    if not evidence.labels and evidence.sweeps:
        name = evidence.sweeps[0].experiment
        return (
            f"{name} has no {evidence.phase} run to compare yet; 'rlexp status {name}' says how "
            "far it is"
        )
    if not evidence.labels:
        return f"there is no {evidence.phase} run to compare; start some with rlexp run"
    return (
        f"{evidence.labels[0]} is alone: name a second experiment, or EXPERIMENT/LABEL of one, "
        "to compare it with"
    )


def _next(
    request: CompareRequest,
    evidence: Evidence,
    study: Study,
    settings: Settings,
    workspace: Workspace,
) -> Iterator[NextCommand]:
    """The commands that make sense now, and that are not refused."""
    phase = ["--phase", request.phase] if request.phase else []
    words = [*phase, *_set_options(request.overrides), *workspace.permission]
    report = shlex.join(["rlexp", "report", *request.targets, *words])
    yield NextCommand(why="write the report", command=report)
    sequential = _sequential(request, evidence, settings, workspace) if _undecided(study) else None
    if sequential:
        yield sequential


def _set_options(overrides: Sequence[str]) -> list[str]:
    """Overrides as options; a report has sections that are not those of a comparison."""
    kept = (o for o in overrides if not o.startswith("section="))
    return [word for override in kept for word in ("--set", override)]


def _undecided(study: Study) -> bool:
    """Whether a pair is undecided."""
    tables = [b for part in study.parts for b in part.blocks if isinstance(b, Table)]
    verdicts = {row[-1] for table in tables if table.name == "pairs" for row in table.rows}
    return not verdicts or str(Verdict.UNDECIDED) in verdicts


def _sequential(
    request: CompareRequest, evidence: Evidence, settings: Settings, workspace: Workspace
) -> NextCommand | None:
    """A sequential comparison of these labels; nothing where there can be none."""
    seeds_are_listed = any(not isinstance(e.seeds.test, int) for e in evidence.experiments)
    if evidence.phase is not Phase.TEST or len(evidence.experiments) > 1 or seeds_are_listed:
        return None
    try:
        frozen = frozen_design(workspace.experiment(evidence.experiments[0].name))
    except RecordError:
        # A comparison does not need the frozen design; --adaptive itself reports what is wrong.
        return None
    design = _design(evidence, settings, frozen or {})
    if design is None or failed_for_good(evidence) or frozen not in (None, design.plain()):
        return None
    over = frozen is not None and look_at(design, evidence).finished
    words = options(design) if frozen else _set_options(request.overrides)
    command = ["rlexp", "compare", *request.targets, "--adaptive", *words, *workspace.permission]
    return NextCommand(
        why="see what the looks decided" if over else "add seeds until every pair is decided",
        command=shlex.join(command),
    )


def _design(
    evidence: Evidence, settings: Settings, frozen: Mapping[str, Any]
) -> FrozenDesign | None:
    """The design by the options of the frozen one, or by the defaults, if there can be one."""
    shared = {key: frozen[key] for key in ("alpha", "seed", "repetitions") if frozen}
    try:
        return draw_up(
            evidence,
            replace(settings, **shared),
            frozen.get("group", GROUP),
            frozen.get("interims", INTERIMS),
            frozen.get("family", FAMILY),
        )
    except ConfigError:
        return None
