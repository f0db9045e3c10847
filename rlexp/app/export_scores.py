"""Scores and evaluations for rliable, marl-eval, spreadsheets and data frames."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from rlexp.app.export_output import Content, Made, Output
from rlexp.app.export_request import Wanted, evidence_of, numbers_of, outcomes_of, told_of
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
from rlexp.reports.evidence import Evidence
from rlexp.reports.formats.as_csv import written
from rlexp.reports.formats.markdown_text import inline
from rlexp.reports.scale import scales
from rlexp.reports.sentences import counted, listed, numbers
from rlexp.reports.wording import score_in_words


def make_rliable(targets: Sequence[str], wanted: Wanted, output: Output, place: Workspace) -> Made:
    """The score dictionary, and beside it a page that says what is in it.

    Raises:
        RlexpError: The runs do not fit into arrays of runs × tasks.
    """
    _check_suffix(output, (".npz", ".json"))
    evidence = evidence_of(targets, wanted, place)
    shape = rectangle(outcomes_of(evidence), format_name="rliable", common=wanted.common_seeds)
    scores, unit = score_dictionary(shape), "in units of the return"
    if wanted.normalised:
        scores, unit = _normalised(scores, shape, evidence, place)
    content = as_npz(scores) if output.suffix == ".npz" else as_json(scores)
    name, told = output.path.name, [*told_of(evidence), *_left_out(shape)]
    page = _page(name, shape, evidence, unit, told)
    modules = ", ".join(imports(name))
    shown = "print({k: v.shape for k, v in scores.items()})"
    line = f"import {modules}; {loading(str(output.path))}; {shown}"
    return Made(
        files={name: content, f"{name}.md": page.encode(errors="replace")},
        folder=False,
        numbers={**numbers_of(evidence), **_shape_numbers(shape), "unit": unit},
        told=told,
        following=["python", "-c", line],
    )


def make_marl_eval(
    targets: Sequence[str], wanted: Wanted, output: Output, place: Workspace
) -> Made:
    """The evaluations of every run as marl-eval's JSON.

    Raises:
        RlexpError: The runs do not fit: labels or tasks differ in their seeds.
    """
    _check_suffix(output, (".json",))
    evidence = evidence_of(targets, wanted, place)
    shape = rectangle(
        outcomes_of(evidence),
        format_name="marl-eval",
        common=wanted.common_seeds,
        across_labels=True,
    )
    counts = evaluations_by_task(shape)
    told = [*told_of(evidence), *_left_out(shape)]
    if len(set(counts.values())) > 1:
        differing = listed(f"{n} on {task}" for task, n in counts.items())
        told.append(
            f"Runs have different numbers of evaluations ({differing}): marl-eval draws sample "
            "efficiency of tasks that have the same; --task takes single ones"
        )
    return Made(
        files={output.path.name: as_marl_eval(shape)},
        folder=False,
        numbers={**numbers_of(evidence), **_shape_numbers(shape)},
        told=told,
    )


def make_tables(targets: Sequence[str], wanted: Wanted, output: Output, place: Workspace) -> Made:
    """Runs, evaluations and episodes as tables: one file, or a folder of all of them.

    Raises:
        RlexpError: There is no such level, or no package that writes the format.
    """
    package = writer() if wanted.format == "parquet" else None
    levels, folder = _levels(wanted, output)
    evidence = evidence_of(targets, wanted, place)
    sheets = [sheet(level, outcomes_of(evidence)) for level in levels]
    files: dict[str, Content] = {}
    for own in sheets:
        name = f"{own.name}.{wanted.format}" if folder else output.path.name
        files[name] = _content(own, package)
    rows = {own.name: len(own.rows) for own in sheets}
    told = [*told_of(evidence), *(f"{counted(n, 'row')} of {name}" for name, n in rows.items())]
    return Made(
        files=files, folder=folder, numbers={**numbers_of(evidence), "rows": rows}, told=told
    )


def _levels(wanted: Wanted, output: Output) -> tuple[tuple[str, ...], bool]:
    """Which tables are wanted, and whether they go into a folder."""
    level = wanted.level
    if level is not None and level not in LEVELS:
        raise ConfigError.unknown(f"there is no level {level!r}", level, LEVELS, key="--level")
    if output.suffix == f".{wanted.format}":
        return (level or "evaluations",), False
    if output.suffix in {".csv", ".parquet", ".json", ".npz"}:
        raise ConfigError(
            f"{output.path.name} does not end in .{wanted.format}: name such a file, or a folder"
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
    scores: Scores, shape: Rectangle, evidence: Evidence, place: Workspace
) -> tuple[Scores, str]:
    settings = read_report((), place.folder, place.allowed).settings
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


def _shape_numbers(shape: Rectangle) -> dict[str, Any]:
    seeds: Mapping[str, Sequence[int]] = {b: list(s) for b, s in shape.seeds.items()}
    return {
        "tasks": list(shape.tasks),
        "seeds": seeds,
        "left_out": [o.run for o in shape.left_out],
    }


def _page(name: str, shape: Rectangle, evidence: Evidence, unit: str, told: Sequence[str]) -> str:
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
        *(inline(line) for line in told),
    ]
    return "\n\n".join(lines) + "\n"
