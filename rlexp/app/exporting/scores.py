"""Scores and evaluations for rliable, marl-eval, spreadsheets and data frames."""

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
    Output,
    evidence_of,
    exported_runs,
    outcomes_of,
    run_remarks,
)
from rlexp.app.results import NextCommand
from rlexp.app.workspace import Workspace
from rlexp.config.report import read_report
from rlexp.errors import ConfigError
from rlexp.exchange.exporters.marl_eval import as_marl_eval, evaluations_by_task
from rlexp.exchange.exporters.outcomes import Rectangle, rectangle
from rlexp.exchange.exporters.parquet import write_parquet, writer
from rlexp.exchange.exporters.rliable import (
    Scores,
    as_json,
    as_npz,
    imports,
    loading,
    score_dictionary,
)
from rlexp.exchange.exporters.tables import LEVELS, Sheet, sheet
from rlexp.reports.analysis.scale import scales
from rlexp.reports.evidence.runs import Evidence, score_in_words
from rlexp.reports.formats.as_csv import written
from rlexp.reports.formats.markdown import inline
from rlexp.text import counted, listed, numbers


def make_rliable(request: ExportRequest, output: Output, workspace: Workspace) -> Export:
    """The score dictionary, and beside it a page that says what is in it.

    Raises:
        RlexpError: The runs do not fit into arrays of runs × tasks.
    """
    _check_suffix(output, (".npz", ".json"))
    evidence = evidence_of(request, workspace)
    shape = rectangle(outcomes_of(evidence), format_name="rliable", common=request.common_seeds)
    scores, unit = score_dictionary(shape), "in units of the return"
    if request.normalised:
        scores, unit = _normalised(scores, shape, evidence, workspace)
    content = as_npz(scores) if output.suffix == ".npz" else as_json(scores)
    name, remarks = output.path.name, [*run_remarks(evidence), *_left_out(shape)]
    page = _page(name, shape, evidence, unit, remarks)
    modules = ", ".join(imports(name))
    shown = "print({k: v.shape for k, v in scores.items()})"
    line = f"import {modules}; {loading(str(output.path))}; {shown}"
    outcome = exported_runs(evidence, request, output, *remarks)
    command = NextCommand(why="try it", command=shlex.join(["python", "-c", line]))
    return Export(
        contents={name: content, f"{name}.md": page.encode(errors="replace")},
        folder=False,
        outcome=replace(_with_shape(outcome, shape), unit=unit, next=(command,)),
    )


def make_marl_eval(request: ExportRequest, output: Output, workspace: Workspace) -> Export:
    """The evaluations of every run as marl-eval's JSON.

    Raises:
        RlexpError: The runs do not fit: labels or tasks differ in their seeds.
    """
    _check_suffix(output, (".json",))
    evidence = evidence_of(request, workspace)
    shape = rectangle(
        outcomes_of(evidence),
        format_name="marl-eval",
        common=request.common_seeds,
        across_labels=True,
    )
    counts = evaluations_by_task(shape)
    remarks = [*run_remarks(evidence), *_left_out(shape)]
    if len(set(counts.values())) > 1:
        differing = listed(f"{n} on {task}" for task, n in counts.items())
        remarks.append(
            f"Runs have different numbers of evaluations ({differing}): marl-eval draws sample "
            "efficiency of tasks that have the same; --task takes single ones"
        )
    outcome = exported_runs(evidence, request, output, *remarks)
    return Export(
        contents={output.path.name: as_marl_eval(shape)},
        folder=False,
        outcome=_with_shape(outcome, shape),
    )


def make_tables(request: ExportRequest, output: Output, workspace: Workspace) -> Export:
    """Runs, evaluations and episodes as tables: one file, or a folder of all of them.

    Raises:
        RlexpError: There is no such level, or no package that writes the format.
    """
    package = writer() if request.format == "parquet" else None
    levels, folder = _levels(request, output)
    evidence = evidence_of(request, workspace)
    sheets = [sheet(level, outcomes_of(evidence)) for level in levels]
    contents: dict[str, Content] = {}
    for table in sheets:
        name = f"{table.name}.{request.format}" if folder else output.path.name
        contents[name] = _content(table, package)
    rows = {table.name: len(table.rows) for table in sheets}
    counts = [f"{counted(n, 'row')} of {name}" for name, n in rows.items()]
    outcome = exported_runs(evidence, request, output, *run_remarks(evidence), *counts)
    return Export(contents=contents, folder=folder, outcome=replace(outcome, rows=rows))


def _levels(request: ExportRequest, output: Output) -> tuple[tuple[str, ...], bool]:
    """Which tables are written, and whether they go into a folder."""
    level = request.level
    if level is not None and level not in LEVELS:
        raise ConfigError.unknown(f"there is no level {level!r}", level, LEVELS, key="--level")
    if output.suffix == f".{request.format}":
        return (level or "evaluations",), False
    if output.suffix in {".csv", ".parquet", ".json", ".npz"}:
        raise ConfigError(
            f"{output.path.name} does not end in .{request.format}: name such a file, or a folder"
        )
    return (level,) if level else LEVELS, True


def _content(own: Sheet, package: str | None) -> Content:
    if package is not None:
        return partial(write_parquet, own, package=package)
    return written(iter([own.titles, *own.rows]))


def _check_suffix(output: Output, suffixes: Sequence[str]) -> None:
    if output.suffix not in suffixes:
        known = " or ".join(suffixes)
        raise ConfigError(f"--output={output.path.name!r} must end in {known}")


def _normalised(
    scores: Scores, shape: Rectangle, evidence: Evidence, workspace: Workspace
) -> tuple[Scores, str]:
    settings = read_report((), workspace.folder, workspace.allowed).settings
    known = scales(evidence, settings)
    bare = [task for task in shape.tasks if known[task] is None]
    if bare:
        raise ConfigError(
            f"{listed(bare)} cannot be normalised: declare environment.reference.random and "
            ".threshold, or leave out --normalised",
        )
    columns = {
        label: [
            own.normalised(array[:, k])
            for k, task in enumerate(shape.tasks)
            if (own := known[task]) is not None
        ]
        for label, array in scores.items()
    }
    anchors = (f"{task} {s.low:g} and {s.high:g}" for task, s in known.items() if s)
    unit = f"0 at the lower anchor of a task and 1 at the upper one ({listed(anchors)})"
    return {label: np.stack(own, axis=1) for label, own in columns.items()}, unit


def _left_out(shape: Rectangle) -> list[str]:
    if not shape.left_out:
        return []
    names = ", ".join(o.run for o in shape.left_out)
    return [f"Left out, for their seeds are not everywhere: {names}"]


def _with_shape(outcome: ExportedFiles, shape: Rectangle) -> ExportedFiles:
    """The outcome with the rows and columns of the arrays."""
    return replace(
        outcome,
        tasks=tuple(shape.tasks),
        seeds={label: tuple(seeds) for label, seeds in shape.seeds.items()},
        left_out=tuple(o.run for o in shape.left_out),
    )


def _page(
    name: str, shape: Rectangle, evidence: Evidence, unit: str, remarks: Sequence[str]
) -> str:
    """What is in the file and how to load it, as Markdown."""
    rules = dict.fromkeys(score_in_words(m.record.spec.budget) for m in evidence.members)
    modules = "\n".join(f"import {module}" for module in imports(name))
    columns = (
        f"Columns: {inline(', '.join(shape.tasks))}. Scores are {inline(unit)}; the score of a "
        f"run is {inline(' or '.join(rules))}. Phase: {evidence.phase}."
    )
    lines = [
        f"# Scores for rliable in {inline(name)}",
        f"```python\n{modules}\n\n{loading(name)}\n```",
        "A dictionary: for each label an array of runs × tasks.",
        columns,
        *(
            f"- {inline(label)}: n = {counted(len(seeds), 'run')} a task, seeds {numbers(seeds)}"
            for label, seeds in shape.seeds.items()
        ),
        *(inline(line) for line in remarks),
    ]
    return "\n\n".join(lines) + "\n"
