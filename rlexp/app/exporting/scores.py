"""Exports scores and evaluations for rliable, marl-eval, spreadsheets and data frames."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from rlexp.app.exporting.output import (
    Content,
    Export,
    ExportedFiles,
    ExportRequest,
    ExportTarget,
    evidence_of,
    exported_outcomes,
    exported_runs,
    run_remarks,
)
from rlexp.app.results import NextCommand
from rlexp.app.workspace import Workspace
from rlexp.config.report_settings import read_report
from rlexp.errors import ConfigError
from rlexp.exchange.exporters.exported_runs import CommonSeedRuns, select_common_seeds
from rlexp.exchange.exporters.marl_eval import as_marl_eval, evaluations_by_task
from rlexp.exchange.exporters.parquet import parquet_package, write_parquet
from rlexp.exchange.exporters.rliable import (
    Scores,
    as_json,
    as_npz,
    loading_imports,
    loading_line,
    score_dictionary,
)
from rlexp.exchange.exporters.tables import LEVELS, Sheet, make_sheet
from rlexp.reports.analysis.scale import NORMALISED_ALREADY, anchors_by_task
from rlexp.reports.analysis.score_words import quantities_text
from rlexp.reports.evidence.runs import Evidence, score_definition
from rlexp.reports.formats.as_csv import to_csv
from rlexp.reports.formats.markdown import inline
from rlexp.text import format_count, format_ranges, join_names


def make_rliable(request: ExportRequest, output: ExportTarget, workspace: Workspace) -> Export:
    """Export the score dictionary of rliable, and a page that describes it.

    Raises:
        RlexpError: The runs do not fit into arrays of runs × tasks.
    """
    _check_suffix(output, (".npz", ".json"))
    evidence = evidence_of(request, workspace)
    shape = select_common_seeds(
        exported_outcomes(evidence), format_name="rliable", common=request.common_seeds
    )
    scores, unit = score_dictionary(shape), f"in units of the {quantities_text(evidence)}"
    if request.normalised:
        scores, unit = _normalised(scores, shape, evidence, workspace)
    content = as_npz(scores) if output.suffix == ".npz" else as_json(scores)
    name, remarks = output.path.name, [*run_remarks(evidence), *_left_out(shape)]
    page = _page(name, shape, evidence, unit, remarks)
    modules = ", ".join(loading_imports(name))
    shape_code = "print({k: v.shape for k, v in scores.items()})"
    line = f"import {modules}; {loading_line(str(output.path))}; {shape_code}"
    outcome = exported_runs(evidence, request, output, *remarks)
    command = NextCommand(why="try it", command=shlex.join(["python", "-c", line]))
    return Export(
        # Names may contain lone surrogates, which UTF-8 cannot encode.
        contents={name: content, f"{name}.md": page.encode(errors="replace")},
        folder=False,
        outcome=replace(_with_shape(outcome, shape), unit=unit, next=(command,)),
    )


def make_marl_eval(request: ExportRequest, output: ExportTarget, workspace: Workspace) -> Export:
    """Export the evaluations of every run as marl-eval's JSON.

    Raises:
        RlexpError: Labels or tasks have runs on different seeds.
    """
    _check_suffix(output, (".json",))
    evidence = evidence_of(request, workspace)
    shape = select_common_seeds(
        exported_outcomes(evidence),
        format_name="marl-eval",
        common=request.common_seeds,
        across_labels=True,
    )
    counts = evaluations_by_task(shape)
    remarks = [*run_remarks(evidence), *_left_out(shape)]
    if len(set(counts.values())) > 1:
        differing = join_names(f"{n} on {task}" for task, n in counts.items())
        remarks.append(
            f"Runs have different numbers of evaluations ({differing}): marl-eval plots sample "
            "efficiency only for tasks with equal numbers; use --task to export single tasks"
        )
    outcome = exported_runs(evidence, request, output, *remarks)
    return Export(
        contents={output.path.name: as_marl_eval(shape)},
        folder=False,
        outcome=_with_shape(outcome, shape),
    )


def make_tables(request: ExportRequest, output: ExportTarget, workspace: Workspace) -> Export:
    """Export runs, evaluations, episodes and measurements as tables, in one file or a folder.

    Raises:
        RlexpError: The level is unknown, or no package that writes the format is installed.
    """
    package = parquet_package() if request.format == "parquet" else None
    levels, folder = _levels(request, output)
    evidence = evidence_of(request, workspace, measurements="measurements" in levels)
    sheets = [make_sheet(level, exported_outcomes(evidence)) for level in levels]
    contents: dict[str, Content] = {}
    for table in sheets:
        name = f"{table.name}.{request.format}" if folder else output.path.name
        contents[name] = _content(table, package)
    rows = {table.name: len(table.rows) for table in sheets}
    counts = [f"{format_count(n, 'row')} of {name}" for name, n in rows.items()]
    outcome = exported_runs(evidence, request, output, *run_remarks(evidence), *counts)
    return Export(contents=contents, folder=folder, outcome=replace(outcome, rows=rows))


def _levels(request: ExportRequest, output: ExportTarget) -> tuple[tuple[str, ...], bool]:
    """The tables to write, and whether they are written into a folder."""
    level = request.level
    if level is not None and level not in LEVELS:
        raise ConfigError.unknown(f"there is no level {level!r}", level, LEVELS, key="--level")
    if output.suffix == f".{request.format}":
        return (level or "evaluations",), False
    if output.suffix in {".csv", ".parquet", ".json", ".npz"}:
        raise ConfigError(
            f"{output.path.name} does not end in .{request.format}: name a file with that suffix, or a folder"
        )
    return (level,) if level else LEVELS, True


def _content(table: Sheet, package: str | None) -> Content:
    if package is not None:
        return partial(write_parquet, table, package=package)
    return to_csv(iter([table.titles, *table.rows]))


def _check_suffix(output: ExportTarget, suffixes: Sequence[str]) -> None:
    if output.suffix not in suffixes:
        allowed_suffixes = " or ".join(suffixes)
        raise ConfigError(f"--output={output.path.name!r} must end in {allowed_suffixes}")


def _normalised(
    scores: Scores, shape: CommonSeedRuns, evidence: Evidence, workspace: Workspace
) -> tuple[Scores, str]:
    settings = read_report((), workspace.folder, workspace.allowed).settings
    scale_of = anchors_by_task(evidence, settings)
    tasks_without_anchors = [task for task in shape.tasks if scale_of[task] is None]
    if tasks_without_anchors:
        raise ConfigError(
            f"{join_names(tasks_without_anchors)} cannot be normalised: declare "
            f"{evidence.declaration_key(tasks_without_anchors[0])}.random and .threshold, set normalisation: none in conf/report.yaml if scores are normalised "
            "already, or leave out --normalised",
        )
    columns = {
        label: [
            scale.normalised(array[:, k])
            for k, task in enumerate(shape.tasks)
            if (scale := scale_of[task]) is not None
        ]
        for label, array in scores.items()
    }
    anchors = (f"{task} {s.low:g} and {s.high:g}" for task, s in scale_of.items() if s)
    unit = f"0 at the lower anchor of a task and 1 at the upper one ({join_names(anchors)})"
    if settings.normalisation == "none":
        unit = f"as they were recorded ({NORMALISED_ALREADY})"
    return {label: np.stack(per_task, axis=1) for label, per_task in columns.items()}, unit


def _left_out(shape: CommonSeedRuns) -> list[str]:
    if not shape.left_out:
        return []
    names = ", ".join(o.run for o in shape.left_out)
    return [f"Left out, because some label or task lacks their seeds: {names}"]


def _with_shape(outcome: ExportedFiles, shape: CommonSeedRuns) -> ExportedFiles:
    """The result with the rows and columns of the arrays."""
    return replace(
        outcome,
        tasks=tuple(shape.tasks),
        seeds={label: tuple(seeds) for label, seeds in shape.seeds.items()},
        left_out=tuple(o.run for o in shape.left_out),
    )


def _page(
    name: str, shape: CommonSeedRuns, evidence: Evidence, unit: str, remarks: Sequence[str]
) -> str:
    """A Markdown page that describes the file and how to load it."""
    rules = dict.fromkeys(score_definition(m.record.spec) for m in evidence.members)
    modules = "\n".join(f"import {module}" for module in loading_imports(name))
    columns = (
        f"Columns: {inline(', '.join(shape.tasks))}. Scores are {inline(unit)}; the score of a "
        f"run is {inline(' or '.join(rules))}. Phase: {evidence.phase}."
    )
    lines = [
        f"# Scores for rliable in {inline(name)}",
        f"```python\n{modules}\n\n{loading_line(name)}\n```",
        "A dictionary: for each label an array of runs × tasks.",
        columns,
        *(
            f"- {inline(label)}: n = {format_count(len(seeds), 'run')} a task, seeds {format_ranges(seeds)}"
            for label, seeds in shape.seeds.items()
        ),
        *(inline(line) for line in remarks),
    ]
    return "\n\n".join(lines) + "\n"
