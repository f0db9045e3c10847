"""Computes a report from evidence once, and writes it in several formats."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, is_dataclass, replace
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rlexp.app.reading.beside import beside
from rlexp.app.reading.catalogue import collector_paused
from rlexp.app.reporting.evidence import collect_evidence
from rlexp.app.results import NextCommand
from rlexp.app.workspace import Workspace
from rlexp.config.report_settings import ReportParts, read_report, with_cut
from rlexp.config.validate import validate_settings
from rlexp.errors import ConfigError, RlexpError
from rlexp.metrics.estimate import KeptIntervals
from rlexp.protocol.seeds import Phase
from rlexp.records.registration import DECIDING, METRIC_CLASS, definition_of_metric
from rlexp.records.run import State
from rlexp.reports.analysis.answer import FEW_LABELS
from rlexp.reports.analysis.report_context import ReportContext, ReportSettings, ResultMemory
from rlexp.reports.analysis.scale import in_units_of_scores
from rlexp.reports.analysis.summary_card import summary_card, uncompared_card
from rlexp.reports.drawing.blocks import (
    ReportDocument,
    SectionContent,
    SuggestedCommand,
    SummaryCard,
)
from rlexp.reports.drawing.units import naming_unit
from rlexp.reports.evidence.runs import Evidence
from rlexp.store.annotations import read_readable_annotations
from rlexp.store.layout import ExperimentPaths
from rlexp.text import format_count, join_names

MOST_COMPARED = 12
"""Most labels that the card of an experiment compares with each other.

So many fit one screen. Without the intervals of differences, their tests take 0.02 to 0.5 s of
processor time, for 3 to 50 seeds on one or two tasks. Seven labels take longest.
"""
WORTH_FORKING = 500
"""Runs from which on a report is computed by two processes."""
APART = frozenset({"measurements", "reliability"})
"""Sections that take long and share no result with others but the order of labels."""
FORMATS = ("html", "latex", "csv", "json", "md")


def read_formats(values: Sequence[str]) -> list[str]:
    """Parse the values of `--format`, each of which may list several formats with commas.

    Raises:
        ConfigError: A format is unknown, or none is named.
    """
    names = [name for value in values for name in value.split(",") if name]
    for name in names:
        if name not in FORMATS:
            raise ConfigError.unknown(
                f"there is no format {name!r}", name, FORMATS, key="--format"
            )
    if not names:
        raise ConfigError(f"--format is empty; formats: {', '.join(FORMATS)}")
    return list(dict.fromkeys(names))


def read_phase(name: str | None) -> Phase | None:
    """The phase of this name; None without a name.

    Raises:
        ConfigError: The phase is unknown.
    """
    names = [str(phase) for phase in Phase]
    if name is not None and name not in names:
        raise ConfigError.unknown(f"there is no phase {name!r}", name, names, key="--phase")
    return Phase(name) if name else None


def make_report(
    evidence: Evidence,
    parts: ReportParts,
    memory: ResultMemory | None = None,
    *,
    pair_intervals: bool = True,
    kept: KeptIntervals | None = None,
) -> ReportDocument:
    """Compute every section of a report.

    Args:
        evidence: The runs.
        parts: Sections, metrics and settings.
        memory: Results of an earlier report with the same metrics.
        pair_intervals: Whether differences of pairs get intervals, which take most of the time.
        kept: Intervals that later commands use again; None keeps none.
    """
    from rlexp.reports.analysis.checklist import failed_checks
    from rlexp.reports.analysis.estimates import best_labels_first

    inquiry = replace(
        context_of(evidence, parts, memory), pair_intervals=pair_intervals, kept=kept
    )
    large = len(evidence.members) >= WORTH_FORKING
    if large:
        # Both processes order labels by their aggregates, which are then computed once.
        best_labels_first(inquiry)
    with (
        collector_paused(),
        beside(lambda: _sections(parts, inquiry, apart=True), worthwhile=large) as others,
    ):
        here, card = _sections(parts, inquiry, apart=False), summary_card(inquiry)
        failed = failed_checks(inquiry)
        computed = here | others.result()
    study = ReportDocument(
        title=join_names(e.name for e in evidence.experiments),
        subtitle=", ".join(_counts(evidence)),
        labels=evidence.labels,
        parts=tuple(part for name in parts.sections if (part := computed[name]) is not None),
        version=version("rlexp"),
        card=card,
        failed_checks=failed,
    )
    return naming_unit(study, evidence.unit)


def _sections(
    parts: ReportParts, inquiry: ReportContext, *, apart: bool
) -> dict[str, SectionContent | None]:
    """The sections that share no result with others (`apart`), or all others, by name."""
    return {
        name: section.part(inquiry)
        for name, section in parts.sections.items()
        if (name in APART) is apart
    }


def make_brief_report(evidence: Evidence, parts: ReportParts) -> ReportDocument:
    """Compute the card of a report without comparisons, which take most of the time."""
    inquiry = context_of(evidence, parts)
    has_one_pair = len(evidence.labels) <= 2
    card = summary_card(inquiry) if has_one_pair else uncompared_card(inquiry, pending=True)
    study = ReportDocument(
        title=join_names(e.name for e in evidence.experiments),
        subtitle=", ".join(_counts(evidence)),
        labels=evidence.labels,
        parts=(),
        version=version("rlexp"),
        card=card,
    )
    return naming_unit(study, evidence.unit)


def count_looks(name: str, phase: Phase, workspace: Workspace) -> None:
    """Enter the looks at the test scores of an experiment, where no card shows them."""
    with suppress(RlexpError):
        collect_evidence((name,), phase, workspace, enter=True, brief=True)


def card_context(
    name: str, phase: Phase | None, workspace: Workspace, *, enter: bool = False
) -> ReportContext | None:
    """What the card of one experiment is computed from; None where it cannot be read.

    `enter` is that of `collect_evidence`.
    """
    try:
        parts = read_report(("section=[]",), workspace.folder, workspace.allowed)
        evidence = collect_evidence((name,), phase, workspace, enter=enter, brief=True)
    except RlexpError:
        return None
    return card_context_of(evidence, parts)


def card_context_of(evidence: Evidence, parts: ReportParts) -> ReportContext:
    """What `card_of` is computed from.

    The answer about three labels or more states no interval of a difference, so none is computed.
    """
    return replace(context_of(evidence, parts), pair_intervals=len(evidence.labels) <= 2)


def card_of(context: ReportContext) -> SummaryCard:
    """The summary card without learning curves.

    More labels than fit one screen are not compared, because the tests of their pairs take long.
    The card of many labels has no intervals: the terminal shows those of the summary.
    """
    labels = len(context.evidence.labels)
    if labels > MOST_COMPARED:
        card = uncompared_card(context)
    else:
        card = summary_card(context, curves=False, intervals=labels <= FEW_LABELS)
    return naming_unit(card, context.evidence.unit)


def context_of(
    evidence: Evidence, parts: ReportParts, memory: ResultMemory | None = None
) -> ReportContext:
    """What sections and the card of a report are computed from.

    A registered experiment is judged by the settings that were sealed, unless the command names others.
    """
    parts = with_sealed_settings(parts, evidence)
    return ReportContext(
        evidence=in_units_of_scores(evidence, parts.settings),
        settings=parts.settings,
        metrics=parts.metrics,
        sections=tuple(parts.sections),
        memory=memory or ResultMemory(),
    )


def with_commands(
    study: ReportDocument, commands: Sequence[NextCommand], overrides: str
) -> ReportDocument:
    """The report with suggested commands, and overrides to copy, on its card."""
    if study.card is None:
        return study
    suggested = tuple(SuggestedCommand(why=c.why, command=c.command) for c in commands)
    return replace(study, card=replace(study.card, overrides=overrides, commands=suggested))


def with_annotations(
    study: ReportDocument, experiments: Sequence[ExperimentPaths]
) -> ReportDocument:
    """The report with the tags and notes of its experiments and their runs."""
    tags: list[str] = []
    notes: list[tuple[str, str, str]] = []
    for paths in experiments:
        annotations, _ = read_readable_annotations(paths)
        tags += annotations.experiment.tags
        every = {paths.name: annotations.experiment, **annotations.runs}
        notes += [
            (name, f"{datetime.fromtimestamp(note.time, UTC):%Y-%m-%d}", note.text)
            for name, annotation in every.items()
            for note in annotation.notes
        ]
    return replace(study, tags=tuple(dict.fromkeys(tags)), notes=tuple(notes))


def render_files(
    study: ReportDocument,
    formats: Sequence[str],
    folder: Path,
    figures: Path | None,
    films: Mapping[str, str],
) -> dict[Path, bytes]:
    """The content of every file of a report.

    Args:
        study: The report.
        formats: The formats.
        folder: The folder of the report.
        figures: The folder of the figures for print; None for none.
        films: The addresses of the films by the names of their files.
    """
    links = {"figures": os.path.relpath(figures, folder)} if figures else {}
    files: dict[Path, bytes] = {}
    for name in formats:
        files |= {
            folder / path: content
            for path, content in _rendered(study, name, links, films).items()
        }
    if figures:
        drawn = import_module("rlexp.reports.figures").draw_figures(study)
        files |= {figures / name: content for name, content in drawn.items()}
    return files


def _counts(evidence: Evidence) -> Iterator[str]:
    """Yield the numbers of trials, labels, tasks and runs of the report."""
    if trials := sum(len(sweep.trials) for sweep in evidence.sweeps):
        yield format_count(trials, "trial")
    if evidence.labels or not evidence.sweeps:
        yield format_count(len(evidence.labels), "label")
        yield format_count(len(evidence.tasks), "task")
    yield _finished(evidence)


def _finished(evidence: Evidence) -> str:
    """How many planned runs finished, failed, are running and are missing."""
    states = [member.record.state for member in evidence.members]
    if not states:
        return f"no {evidence.phase} run"
    finished, failed, running = map(states.count, (State.COMPLETED, State.FAILED, State.RUNNING))
    # While runs are running, those that have not begun wait for their turn.
    planned = states.count(State.PLANNED) if evidence.running else 0
    missing = len(states) - finished - failed - running - planned
    others = {"failed": failed, "running": running, "planned": planned, "missing": missing}
    parts = [f"{finished:,} of {format_count(len(states), f'{evidence.phase} run')} finished"]
    return ", ".join(parts + [f"{count:,} {name}" for name, count in others.items() if count])


def _rendered(
    study: ReportDocument, name: str, links: Mapping[str, str], films: Mapping[str, str]
) -> Mapping[str, bytes]:
    """The files of one format by name; some formats link the figures by relative paths."""
    if name == "html":
        page: str = import_module("rlexp.reports.page.html").render_html(study, films)
        return {"report.html": page.encode()}
    module = {"latex": "latex", "csv": "as_csv", "json": "as_json", "md": "markdown"}[name]
    renderer = import_module(f"rlexp.reports.formats.{module}")
    linked = links if name in {"latex", "md"} else {}
    files: Mapping[str, bytes] = renderer.render(study, **linked)
    return files


def with_sealed_settings(parts: ReportParts, evidence: Evidence) -> ReportParts:
    """The settings of a report, with those that the protocol of its only experiment sealed.

    What the command itself names stays as it is: the report then says that it deviates. A sealed
    metric that the workspace has no longer is left out, with the same consequence.

    Raises:
        ConfigError: A sealed setting is out of range.
    """
    registered = evidence.protocols.experiments
    if len(registered) != 1 or len(evidence.experiments) != 1:
        return parts
    sealed = registered[0].registration.study.settings
    kept = {key: sealed[key] for key in DECIDING if key in sealed and key not in parts.chosen}
    settings = validate_settings(ReportSettings, {**asdict(parts.settings), **kept})
    first = (
        [] if "metric" in parts.chosen else [m for m in sealed["metrics"] if m in parts.metrics]
    )
    names = dict.fromkeys((*first, *parts.metrics))
    definitions = registered[0].registration.study.metric_definitions
    metrics = {name: _sealed_metric(name, definitions, parts) for name in names}
    return replace(
        parts,
        settings=settings,
        metrics={name: with_cut(metric, settings.iqm) for name, metric in metrics.items()},
    )


def _sealed_metric(
    name: str, definitions: Mapping[str, Mapping[str, Any]], parts: ReportParts
) -> Any:
    """The metric of a name with its sealed values, unless the command itself names others.

    A metric of another class than the sealed one stays as it is. No code that only the register names
    is imported, and the report says that it deviates.

    Raises:
        ConfigError: A sealed value is out of range.
    """
    metric, sealed = parts.metrics[name], definitions.get(name)
    used = definition_of_metric(metric)
    # A word may give a whole metric (`metric.NAME`), or a value of it (`metric.NAME.KEY`).
    chosen = any(f"{key}.".startswith(f"metric.{name}.") for key in parts.chosen)
    # A class that is no dataclass names no fields, by which its values could be set and checked.
    fixed = chosen or not is_dataclass(metric)
    if fixed or sealed is None or sealed == used or sealed.get(METRIC_CLASS) != used[METRIC_CLASS]:
        return metric
    values = {key: value for key, value in sealed.items() if key != METRIC_CLASS}
    return validate_settings(type(metric), values, f"metric.{name}.")
